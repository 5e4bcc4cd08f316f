// A real authorization server (npm oidc-provider) for one protected resource: node oidc_provider.mjs FOLDER RESOURCE
// Prints "serving ISSUER" once it listens, and ends when its standard input does. Its own development pages ask for log-in and consent.
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

// Whoever starts it may have started a wrapper around node: a signal would end only that.
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))

const [folder, resource] = process.argv.slice(2)
const { default: Provider, errors } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`))

const server = createServer((request, response) => handle(request, response))
let handle
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://localhost:${server.address().port}`
  const provider = new Provider(issuer, {
    scopes: ['openid', 'offline_access', 'read', 'write'],
    cookies: { keys: ['for tests only'] },
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, indicator) => {
          if (indicator !== resource) throw new errors.InvalidTarget()
          return {
            scope: 'read write',
            audience: resource,
            accessTokenTTL: 600,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }
        },
      },
    },
  })
  handle = provider.callback()
  console.log(`serving ${issuer}`)
})

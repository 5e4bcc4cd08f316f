// Counts the progress notifications that the official TypeScript client hands to its caller:
// node typescript_progress.cjs FOLDER GENERATION MODE stdio COMMAND... | http URL | sse URL
// FOLDER, GENERATION and MODE are those of typescript_client.cjs. Prints one JSON object: tool -> list of counts, a call each.
const { createRequire } = require("node:module");
const [folder, generation, mode, kind, ...where] = process.argv.slice(2);
const load = createRequire(folder + "/");
const STEPS = 50;
const CALLS = 10;

function parts() {
  if (generation === "v1")
    return {
      Client: load("@modelcontextprotocol/sdk/client/index.js").Client,
      Stdio: load("@modelcontextprotocol/sdk/client/stdio.js").StdioClientTransport,
      Http: load("@modelcontextprotocol/sdk/client/streamableHttp.js").StreamableHTTPClientTransport,
      Sse: load("@modelcontextprotocol/sdk/client/sse.js").SSEClientTransport,
      call: (client, params, options) => client.callTool(params, undefined, options),
    };
  const v2 = load("@modelcontextprotocol/client");
  return {
    Client: v2.Client,
    Stdio: load("@modelcontextprotocol/client/stdio").StdioClientTransport,
    Http: v2.StreamableHTTPClientTransport,
    Sse: v2.SSEClientTransport,
    call: (client, params, options) => client.callTool(params, options),
  };
}

async function main() {
  const { Client, Stdio, Http, Sse, call } = parts();
  const options =
    generation === "v2" && mode !== "legacy"
      ? { versionNegotiation: { mode: mode === "auto" ? "auto" : { pin: mode } } }
      : {};
  const client = new Client({ name: "typescript", version: "1" }, { capabilities: {}, ...options });
  const transport =
    kind === "stdio"
      ? new Stdio({ command: where[0], args: where.slice(1), stderr: "inherit", env: process.env })
      : kind === "http"
        ? new Http(new URL(where[0]))
        : new Sse(new URL(where[0]));
  await client.connect(transport);
  const seen = {};
  for (const name of ["without_pause", "with_pauses", "with_log"]) {
    seen[name] = [];
    for (let turn = 0; turn < CALLS; turn++) {
      let count = 0;
      await call(client, { name, arguments: { steps: STEPS } }, { onprogress: () => void (count += 1) });
      seen[name].push(count);
    }
  }
  await client.close();
  console.log(JSON.stringify(seen));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);

// A server written with the official TypeScript package: node typescript_server.cjs FOLDER stdio | http PORT
const http = require("node:http");
const { createRequire } = require("node:module");
const [folder, transport, port] = process.argv.slice(2);
const load = createRequire(folder + "/");
const { McpServer, ResourceTemplate, completable, createMcpHandler, inputRequired, acceptedContent } = load(
  "@modelcontextprotocol/server",
);
const { z } = load("zod");

const count = { value: 0 };
const happened = [];
let notify = null; // of the HTTP handler; over stdio the server itself tells

function make() {
  const server = new McpServer(
    { name: "typescript", version: "1" },
    { instructions: "Try everything.", capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  server.registerTool(
    "shift",
    {
      description: "Move a point",
      inputSchema: z.object({ x: z.number().int(), by: z.number().int().default(1) }),
      outputSchema: z.object({ x: z.number() }),
    },
    async ({ x, by }) => {
      const moved = { x: x + by };
      return { content: [{ type: "text", text: JSON.stringify(moved) }], structuredContent: moved };
    },
  );
  server.registerTool("broken", { description: "Fails" }, async () => ({
    isError: true,
    content: [{ type: "text", text: "not today" }],
  }));
  server.registerTool("count_up", { inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, ctx) => {
    const token = ctx.mcpReq._meta?.progressToken;
    for (let step = 1; step <= steps; step++) {
      if (token !== undefined)
        await ctx.mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken: token, progress: step, total: steps, message: `step ${step}` },
        });
      await ctx.mcpReq.log("info", `did ${step}`);
    }
    return { content: [{ type: "text", text: String(steps) }] };
  });
  server.registerTool("plan", { description: "Asks" }, async (ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    const trip = acceptedContent(answers, "trip");
    const said = answers?.said;
    if (!trip || !said)
      return inputRequired({
        inputRequests: {
          trip: inputRequired.elicit({
            message: "Where to?",
            requestedSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
          }),
          said: inputRequired.createMessage({
            messages: [{ role: "user", content: { type: "text", text: "One word" } }],
            maxTokens: 9,
          }),
          roots: inputRequired.listRoots(),
        },
        requestState: "state of the server",
      });
    const block = Array.isArray(said.content) ? said.content[0] : said.content;
    return { content: [{ type: "text", text: `${trip.city} ${block.text} ${answers.roots.roots[0].uri}` }] };
  });
  server.registerTool("wait_long", { description: "Waits" }, async (ctx) => {
    await new Promise((done) => ctx.mcpReq.signal.addEventListener("abort", done, { once: true }));
    happened.push("cancelled");
    return { content: [] };
  });
  server.registerTool("what_happened", { description: "Tells" }, async () => ({
    content: [{ type: "text", text: JSON.stringify(happened) }],
  }));
  server.registerTool("increment", { description: "Changes a resource" }, async () => {
    count.value += 1;
    if (notify) {
      notify.resourceUpdated("data://counter");
      notify.toolsChanged();
    } else {
      await server.server.sendResourceUpdated({ uri: "data://counter" });
      server.sendToolListChanged();
    }
    return { content: [{ type: "text", text: String(count.value) }] };
  });
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  server.registerResource("counter", "data://counter", { mimeType: "application/json" }, async (uri) => ({
    contents: [{ uri: uri.href, text: JSON.stringify(count) }],
  }));
  server.registerResource(
    "note",
    new ResourceTemplate("file:///notes/{name}.txt", { list: undefined }),
    {},
    async (uri, { name }) => ({ contents: [{ uri: uri.href, text: `note ${name}` }] }),
  );
  server.registerPrompt(
    "review",
    {
      description: "Review",
      argsSchema: z.object({
        tone: completable(z.string(), (value) => ["calm", "cold", "warm"].filter((tone) => tone.startsWith(value))),
      }),
    },
    ({ tone }) => ({ messages: [{ role: "user", content: { type: "text", text: `Review in a ${tone} tone` } }] }),
  );
  return server;
}

if (transport === "stdio") {
  load("@modelcontextprotocol/server/stdio").serveStdio(make);
} else {
  const handler = createMcpHandler(make);
  notify = handler.notify;
  http
    .createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const gone = new AbortController();
      response.on("close", () => gone.abort());
      const answer = await handler.fetch(
        new Request(`http://127.0.0.1:${port}${request.url}`, {
          method: request.method,
          headers: request.headers,
          body: chunks.length ? Buffer.concat(chunks) : undefined,
          signal: gone.signal,
        }),
      );
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.flushHeaders();
      if (answer.body)
        try {
          for await (const chunk of answer.body) response.write(chunk);
        } catch {
          // the client is gone
        }
      response.end();
    })
    .listen(Number(port), "127.0.0.1");
}

// The official TypeScript client against a server: node typescript_client.cjs FOLDER GENERATION MODE stdio COMMAND... | http URL
// FOLDER has node_modules; GENERATION is v2 (@modelcontextprotocol/client) or v1 (@modelcontextprotocol/sdk);
// MODE is legacy, auto or a revision (v2 only). Prints one JSON object: what the client saw.
const { createRequire } = require("node:module");
const [folder, generation, mode, transportKind, ...where] = process.argv.slice(2);
const load = createRequire(folder + "/");

function parts() {
  if (generation === "v1") {
    const types = load("@modelcontextprotocol/sdk/types.js");
    return {
      Client: load("@modelcontextprotocol/sdk/client/index.js").Client,
      Stdio: load("@modelcontextprotocol/sdk/client/stdio.js").StdioClientTransport,
      Http: load("@modelcontextprotocol/sdk/client/streamableHttp.js").StreamableHTTPClientTransport,
      onRequest: (client, method, handler) =>
        client.setRequestHandler(
          {
            "elicitation/create": types.ElicitRequestSchema,
            "sampling/createMessage": types.CreateMessageRequestSchema,
            "roots/list": types.ListRootsRequestSchema,
          }[method],
          handler,
        ),
      onNotification: (client, method, handler) =>
        client.setNotificationHandler(
          {
            "notifications/message": types.LoggingMessageNotificationSchema,
            "notifications/resources/updated": types.ResourceUpdatedNotificationSchema,
            "notifications/tools/list_changed": types.ToolListChangedNotificationSchema,
          }[method],
          handler,
        ),
      call: (client, params, options) => client.callTool(params, undefined, options),
    };
  }
  const v2 = load("@modelcontextprotocol/client");
  return {
    Client: v2.Client,
    Stdio: load("@modelcontextprotocol/client/stdio").StdioClientTransport,
    Http: v2.StreamableHTTPClientTransport,
    onRequest: (client, method, handler) => client.setRequestHandler(method, handler),
    onNotification: (client, method, handler) => client.setNotificationHandler(method, handler),
    call: (client, params, options) => client.callTool(params, options),
  };
}

async function main() {
  const { Client, Stdio, Http, onRequest, onNotification, call } = parts();
  const seen = { asked: [], progress: [], logs: [], updates: [], listChanges: 0, errors: [] };
  const client = new Client(
    { name: "typescript", version: "1" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      ...(generation === "v2" && mode !== "legacy"
        ? { versionNegotiation: { mode: mode === "auto" ? "auto" : { pin: mode } } }
        : {}),
    },
  );
  client.onerror = (error) => seen.errors.push(String(error));
  onRequest(client, "elicitation/create", async (request) => {
    seen.asked.push(request.params.message);
    const fields = request.params.requestedSchema.properties;
    if (fields.city) return { action: "accept", content: { city: "Oslo", seats: 2 } };
    return { action: "accept", content: { value: "first" } };
  });
  onRequest(client, "sampling/createMessage", async (request) => {
    seen.asked.push(request.params.messages[0].content.text ?? request.params.messages[0].content[0].text);
    return { role: "assistant", model: "fake", stopReason: "endTurn", content: { type: "text", text: "fjord" } };
  });
  onRequest(client, "roots/list", async () => ({ roots: [{ uri: "file:///home", name: "home" }] }));
  onNotification(client, "notifications/message", (note) => void seen.logs.push(note.params.data));
  onNotification(client, "notifications/resources/updated", (note) => void seen.updates.push(note.params.uri));
  onNotification(client, "notifications/tools/list_changed", () => void (seen.listChanges += 1));

  const transport =
    transportKind === "stdio"
      ? new Stdio({ command: where[0], args: where.slice(1), stderr: "inherit", env: process.env })
      : new Http(new URL(where[0]));
  await client.connect(transport);
  const modern = client.getNegotiatedProtocolVersion?.() >= "2026";
  seen.version = client.getNegotiatedProtocolVersion?.() ?? null;
  seen.instructions = client.getInstructions();

  // What changes is heard of by a stream in the modern era, by a subscription in the legacy one.
  let listening = null;
  if (modern) listening = await client.listen({ toolsListChanged: true, resourceSubscriptions: ["data://counter"] });
  else await client.subscribeResource({ uri: "data://counter" });
  if (!modern) await client.setLoggingLevel("info");

  const tools = (await client.listTools()).tools;
  seen.tools = tools.map((tool) => tool.name).sort();
  const content = async (name, args, options) => {
    const result = await call(client, { name, arguments: args ?? {} }, options);
    return { structured: result.structuredContent ?? null, content: result.content, isError: result.isError ?? false };
  };
  seen.shift = await content("shift", { point: { x: 1 }, by: 2 });
  seen.several = await content("several");
  seen.regional = await content("regional", { region: "nörd", text: "hi" });
  seen.mixed = (await content("mixed")).content.map((block) => block.type);
  seen.broken = await content("broken");
  seen.invalid = await content("shift", { point: { x: "many" } });
  const quiet = modern ? { _meta: { "io.modelcontextprotocol/logLevel": "info" } } : {};
  const counted = await call(
    client,
    { name: "count_up", arguments: { steps: 3 }, ...quiet },
    { onprogress: (note) => seen.progress.push([note.progress, note.total, note.message]) },
  );
  seen.counted = counted.structuredContent;
  seen.plan = (await content("plan")).content[0].text;

  const abort = new AbortController();
  const waiting = call(client, { name: "wait_long", arguments: {} }, { signal: abort.signal, onprogress: () => abort.abort("enough") });
  seen.cancelled = await waiting.then(
    () => false,
    () => true,
  );
  for (let tries = 0; tries < 100; tries++) {
    seen.happened = (await content("what_happened")).structured;
    if (JSON.stringify(seen.happened).includes("cancelled")) break;
    await new Promise((done) => setTimeout(done, 30));
  }

  await content("increment");
  for (let tries = 0; tries < 100 && !(seen.updates.length && seen.listChanges); tries++)
    await new Promise((done) => setTimeout(done, 30));
  seen.counter = JSON.parse((await client.readResource({ uri: "data://counter" })).contents[0].text);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.note = (await client.readResource({ uri: "file:///notes/a%20b.txt" })).contents[0].text;
  seen.missing = await client.readResource({ uri: "file:///nowhere" }).then(
    () => null,
    (error) => error.code,
  );
  const prompt = await client.getPrompt({ name: "review", arguments: { code: "x", tone: "warm" } });
  seen.prompt = prompt.messages[0].content.text;
  const completed = await client.complete({
    ref: { type: "ref/prompt", name: "review" },
    argument: { name: "tone", value: "c" },
  });
  seen.completed = completed.completion.values;
  seen.unknown = await call(client, { name: "nothing", arguments: {} }).then(
    (result) => ({ isError: result.isError }),
    (error) => ({ code: error.code }),
  );
  if (listening) {
    await listening.close();
    seen.closed = await listening.closed;
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

// The official TypeScript tasks package against a server: node typescript_tasks.mjs FOLDER legacy|modern URL
// Starts a tool as a task, answers its question, and cancels a second one. Prints one JSON object.
import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";

const [folder, era, url] = process.argv.slice(2);
const load = createRequire(folder + "/");
// The tasks package has no CommonJS form, and import() resolves from this file, not from FOLDER.
const tasks = await import(
  pathToFileURL(`${folder}/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js`).href
);
const { Client, StreamableHTTPClientTransport } = await import(
  pathToFileURL(load.resolve("@modelcontextprotocol/client").replace(/\.cjs$/, ".mjs")).href
);

const clientInfo = { name: "typescript-tasks", version: "1" };
const capabilities = { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } };
const client = new Client(clientInfo, {
  capabilities,
  ...(era === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {}),
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

let lastId = 0;
async function rawDispatch(request, options) {
  const params = request.params ?? {};
  const message = { jsonrpc: "2.0", id: request.id ?? `raw-${++lastId}`, method: request.method, params };
  const name = params.name ?? params.taskId ?? params.uri;
  const response = await fetch(url, {
    method: "POST",
    signal: options?.signal,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": request.method,
      ...(name === undefined ? {} : { "mcp-name": name }),
      ...(options?.headers ?? {}),
    },
    body: JSON.stringify(message),
  });
  const text = await response.text();
  if (!response.headers.get("content-type").startsWith("text/event-stream")) return JSON.parse(text);
  const answers = text
    .split(/\r?\n\r?\n/)
    .flatMap((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")))
    .map((line) => JSON.parse(line.slice(5)));
  return answers.find((answer) => answer.id === message.id);
}

const seen = { asked: [], events: [], errors: [] };
const session = tasks.createTaskSessionFromClient(client, {
  endpointId: "features",
  onError: (error) => seen.errors.push(String(error)),
  onInputRequest: tasks.createApplicationInputHandler({
    elicitation: async (request) => {
      seen.asked.push(request.params?.message ?? JSON.stringify(request));
      return { action: "accept", content: { value: true } };
    },
    sampling: async () => {
      throw new Error("not asked for");
    },
    roots: async () => ({ roots: [] }),
  }),
  ...(era === "modern"
    ? { rawDispatch, v2RequestFraming: { protocolVersion: "2026-07-28", clientInfo, clientCapabilities: capabilities } }
    : {}),
});
const declarations = (await client.listTools()).tools.map(tasks.toolDeclarationFromMcpTool);
const declaration = declarations.find((tool) => tool.name === "brew");
const execution = await session.callTool("brew", { cups: 2 }, { declaration, task: { preference: "require" } });
seen.kind = execution.kind ?? null;
const { outcome, lastTask } = await execution.settle({ onEvent: (event) => void seen.events.push(event.kind ?? event.type) });
seen.status = lastTask?.status ?? lastTask?.state ?? null;
seen.result = tasks.resultFromTaskOutcome(outcome).content[0].text;

const slow = await session.callTool("simmer", {}, {
  declaration: declarations.find((tool) => tool.name === "simmer"),
  task: { preference: "require" },
});
await slow.cancel?.();
seen.cancelled = await slow.settle().then(
  ({ outcome }) => outcome.kind ?? outcome.status,
  (error) => error.name,
);
await session.close();
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);

// A recording, as `ferrule trace` and *Export* write it: JSON lines with the time, the sender and the message. It is read
// from a file of the user, and may have been made by anyone: bounded, and a line that is none is named.

const MAX_BYTES = 64e6;
const MAX_LINES = 50000;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Return the events of a recording, in the form of the feed's, each with its message; throws an Error with the reason. */
export function readRecording(text) {
  if (text.length > MAX_BYTES) throw new Error(`A recording has at most ${MAX_BYTES / 1e6} MB here`);
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length > MAX_LINES) throw new Error(`A recording has at most ${MAX_LINES} messages here, and this one has ${lines.length}`);
  const events = [];
  const requests = new Map();
  const tokens = new Map();
  const tasks = new Map();
  lines.forEach((line, at) => {
    let entry;
    try { entry = JSON.parse(line); } catch { /* no JSON */ }
    if (!isObject(entry) || !["client", "server"].includes(entry.from) || !Number.isFinite(entry.at_s)) throw new Error(`Line ${at + 1} is no line of a recording`);
    const event = { number: at + 1, connection: "main", at_ms: entry.at_s * 1000, direction: entry.from === "client" ? "out" : "in", bytes: line.length, message: "message" in entry ? entry.message : entry.raw };
    events.push(Object.assign(event, factsOf(event, { requests, tokens, tasks })));
  });
  if (!events.length) throw new Error("This file has no message");
  return events;
}

function factsOf(event, { requests, tokens, tasks }) {
  const { message, direction } = event;
  const other = direction === "out" ? "in" : "out";
  if (!isObject(message)) return { what: Array.isArray(message) ? "batch" : "raw" };
  const id = JSON.stringify(message.id);
  if (message.method !== undefined) {
    const params = isObject(message.params) ? message.params : {};
    const subject = ["name", "uri", "taskId", "message", "level"].map((name) => params[name]).find((value) => typeof value === "string");
    const made = { what: "id" in message ? "request" : "notification", method: (typeof message.method === "string" ? message.method : JSON.stringify(message.method)).slice(0, 200), subject: subject?.slice(0, 120) };
    if (message.method === "notifications/progress") made.of = tokens.get(`${other} ${JSON.stringify(params.progressToken)}`);
    else if (typeof params.taskId === "string") made.of = tasks.get(params.taskId);
    else if (direction === "in" && (message.method === "notifications/message" || made.what === "request")) {
      const running = [...requests.values()].filter((request) => request.direction === "out" && request.method !== "subscriptions/listen");
      if (running.length === 1) made.of = running[0].number;
    }
    if ("id" in message) {
      requests.set(`${direction} ${id}`, { number: event.number, direction, method: made.method, at_ms: event.at_ms });
      const token = isObject(params._meta) ? params._meta.progressToken : undefined;
      if (token !== undefined) tokens.set(`${direction} ${JSON.stringify(token)}`, event.number);
    }
    return made;
  }
  const made = { what: "error" in message ? "error" : "result", is_error: message.result?.isError === true };
  const asked = requests.get(`${other} ${id}`);
  if (asked) {
    requests.delete(`${other} ${id}`);
    Object.assign(made, { of: asked.number, method: asked.method, took_ms: event.at_ms - asked.at_ms });
    const task = message.result?.task?.taskId ?? message.result?.taskId;
    if (typeof task === "string" && !asked.method.startsWith("tasks/")) tasks.set(task, asked.number);
  }
  return made;
}

// Access to the inspector's API: one POST per action, one stream of events, the token in a header.

import { parseExact } from "./exact.js";
import { serverName } from "./routes.js";

const KEPT = "ferrule-token";
const HEADER = "x-ferrule-token";
const SERVER = serverName ? { "x-ferrule-server": encodeURIComponent(serverName) } : {};

/** Return the token, or the ticket for it, and remove it from the URL: not in the history, not in copied links. */
async function takeToken() {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  const ticket = address.searchParams.get("ticket");
  if (given === null && ticket === null) {
    try { return sessionStorage.getItem(KEPT) || ""; } catch { return ""; }
  }
  address.searchParams.delete("token");
  address.searchParams.delete("ticket");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
  const found = given ?? await redeem(ticket);
  try { sessionStorage.setItem(KEPT, found); } catch { /* storage may be switched off */ }
  return found;
}

async function redeem(ticket) {
  try {
    const response = await fetch("/api/ticket", { method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ ticket }), credentials: "omit", redirect: "error" });
    return response.ok ? (await response.json()).token : "";
  } catch {
    return "";
  }
}

/** Keep a token for this tab, and load the page again with it. */
export function useToken(given) {
  try { sessionStorage.setItem(KEPT, given); } catch { /* storage may be switched off */ }
  location.reload();
}

const token = await takeToken();
export const hasToken = () => token !== "";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Answers whose numbers come from the inspected server.
const EXACT = new Set(["outcome", "message", "job"]);

export async function call(action, body = {}) {
  let response;
  try {
    response = await fetch(`/api/${action}`, {
      method: "POST",
      headers: { "content-type": "application/json", [HEADER]: token, ...SERVER },
      body: JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch {
    throw new ApiError(0, "ferrule dev does not answer: was it ended?");
  }
  const answer = EXACT.has(action) ? parseExact(await response.text()) : await response.json();
  if (!response.ok) throw new ApiError(response.status, answer.error || `status ${response.status}`);
  return answer;
}

/** Pass every event to `take` until the page closes; `state` is called with "open", "lost" and "refused". */
export async function follow(take, state) {
  let pause = 250;
  for (;;) {
    try {
      const response = await fetch("/api/events", { headers: { [HEADER]: token, ...SERVER }, cache: "no-store", credentials: "omit" });
      if (response.status === 401 || response.status === 403) {
        state("refused");
        return;
      }
      if (response.status === 404 && serverName) { // that server is not in the configuration of this inspector
        location.replace(location.pathname + location.hash);
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      state("open");
      pause = 250;
      await read(response.body, take);
    } catch { /* the connection was lost: connect again below */ }
    state("lost");
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

async function read(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = value.split("\n");
    rest.push(lines[0]);
    if (lines.length === 1) continue;
    handle(rest.join(""), take);
    for (const line of lines.slice(1, -1)) handle(line, take);
    rest = [lines[lines.length - 1]];
  }
}

function handle(line, take) {
  if (line.startsWith("data: ")) take((line.startsWith("data: {\"kind\":\"question\"") ? parseExact : JSON.parse)(line.slice(6)));
}

// Messages as exchanges: a request with its answer is one entry, and what belongs to it (notifications, questions of the
// server, requests for the state of its task) is inside. `of` of an event is the number of the request that it belongs
// to; the inspector's process finds it by ids, progress tokens, tasks and streams.

const POLLING = new Set(["ping", "tasks/get", "subscriptions/listen"]);

/** Return the entries of events: {event, answer, inner}. An event whose request is not among them stands alone. */
export function exchangesOf(events) {
  const entries = new Map();
  const top = [];
  for (const event of events) {
    const parent = event.of === undefined ? undefined : entries.get(event.of);
    if (parent && (event.what === "result" || event.what === "error") && parent.answer === null) {
      parent.answer = event;
      continue;
    }
    const made = { event, answer: null, inner: [] };
    entries.set(event.number, made);
    (parent ? parent.inner : top).push(made);
  }
  return top;
}

const isHttp = ({ event }) => event.what === "http";
export const hasFailed = ({ event, answer }) => [event, answer].some((each) => each && (each.what === "error" || each.is_error || (each.what === "http" && each.status >= 400)));

/** Whether an entry says only that nothing is new: a ping, the state of a task, a stream that is kept open. */
export const isPolling = (entry) => !hasFailed(entry) && (POLLING.has(entry.event.method) || (isHttp(entry) && /^(GET |DELETE |\d+ (GET|stream))/.test(entry.event.method || "")));

/** What is folded inside an entry: notifications and polling. */
export const foldedOf = (entry) => entry.inner.filter((each) => each.event.what === "notification" || isPolling(each));
export const openOf = (entry) => entry.inner.filter((each) => !(each.event.what === "notification" || isPolling(each)));

/** The text that a filter looks at. */
export const textOf = (entry) => [`${entry.event.method || ""} ${entry.event.subject || ""} ${entry.event.what}${entry.answer ? ` ${entry.answer.what}` : ""}${hasFailed(entry) ? " failed" : ""}`, ...entry.inner.map(textOf)].join(" ").toLowerCase();

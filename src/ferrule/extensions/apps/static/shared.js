// What the ready views have in common: their settings, small elements and the words for values.
const config = JSON.parse(document.getElementById("config").textContent);
const view = mcpView({ name: config.title, displayModes: ["inline", "fullscreen"] });

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};

const words = (name) => name.replace(/_/g, " ").replace(/^./, (first) => first.toUpperCase());

const shown = (value) => {
  if (value == null) return "";
  if (typeof value === "number") return value.toLocaleString(document.documentElement.lang || undefined, { maximumFractionDigits: 6 });
  if (typeof value === "boolean") return value ? "✓" : "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

const say = (text, isBad = false) => {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("bad", isBad);
};

// The data of a result; a failure is shown in place of it.
const dataOf = (result) => {
  try {
    say("");
    return view.data(result);
  } catch (error) {
    say(error.message, true);
  }
};

// Calls a tool and returns the text of its result; an error result is an exception.
const textOfCall = async (tool, values) => {
  const result = await view.call(tool, values);
  view.data(result);
  return (result.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
};

// The list of rows in a result: the result itself, or the only list in it.
const rowsOf = (data) => {
  if (Array.isArray(data)) return data;
  const lists = Object.values(data ?? {}).filter(Array.isArray);
  return lists.length === 1 ? lists[0] : [];
};

document.getElementById("title").textContent = config.title;
view.on("cancelled", (reason) => say(`Cancelled: ${reason ?? "no reason given"}`, true));

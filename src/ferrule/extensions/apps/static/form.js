// A form for the arguments of a tool, made from their JSON Schema.
const form = document.getElementById("form"), send = document.getElementById("send");
const schema = config.schema, required = new Set(schema.required ?? []);
const fields = {};

const resolve = (part) => {
  if (part.$ref) return { ...resolve(part.$ref.slice(2).split("/").reduce((at, step) => at[decodeURIComponent(step)], schema)), ...part, $ref: undefined };
  const options = (part.anyOf ?? part.oneOf ?? []).filter((option) => option.type !== "null");
  return options.length === 1 ? { ...resolve(options[0]), title: part.title ?? options[0].title, description: part.description, default: part.default, isNullable: true } : part;
};

const TYPES = { date: "date", "date-time": "datetime-local", time: "time", email: "email", uri: "url" };

// Each field is an element with `get` and `set`; `get` gives undefined for one that is left empty.
const control = (name, part) => {
  const id = `field-${name}`, about = part.description ? `${id}-about` : null;
  const common = { id, name, "aria-describedby": about, required: required.has(name) && part.type !== "boolean" };
  if (part.enum || part.const !== undefined) {
    const values = part.enum ?? [part.const];
    const select = element("select", common, ...(required.has(name) ? [] : [element("option", { value: "" }, "–")]),
      ...values.map((value, at) => element("option", { value: at }, shown(value))));
    return { node: select, get: () => select.value === "" ? undefined : values[select.value], set: (value) => { select.value = values.indexOf(value) < 0 ? "" : values.indexOf(value); } };
  }
  if (part.type === "boolean") {
    const box = element("input", { ...common, type: "checkbox" });
    return { node: box, get: () => box.checked, set: (value) => { box.checked = Boolean(value); } };
  }
  if (part.type === "integer" || part.type === "number") {
    const input = element("input", { ...common, type: "number", step: part.multipleOf ?? (part.type === "integer" ? 1 : "any"), min: part.minimum, max: part.maximum });
    return { node: input, get: () => input.value === "" ? undefined : input.valueAsNumber, set: (value) => { input.value = value; } };
  }
  if (part.type === "string") {
    const isLong = (part.maxLength ?? 0) > 200;
    const input = element(isLong ? "textarea" : "input", { ...common, type: isLong ? null : TYPES[part.format] ?? "text", minlength: part.minLength, maxlength: part.maxLength, pattern: part.pattern });
    return { node: input, get: () => input.value === "" && !required.has(name) ? undefined : input.value, set: (value) => { input.value = value; } };
  }
  const text = element("textarea", { ...common, rows: 4, spellcheck: "false" });
  text.addEventListener("input", () => {
    try {
      if (text.value.trim()) JSON.parse(text.value);
      text.setCustomValidity("");
    } catch {
      text.setCustomValidity("This is not JSON");
    }
  });
  return { node: text, get: () => text.value.trim() ? JSON.parse(text.value) : undefined, set: (value) => { text.value = JSON.stringify(value, null, 1); } };
};

for (const [name, given] of Object.entries(schema.properties ?? {})) {
  const part = resolve(given);
  const made = fields[name] = control(name, part);
  if (part.default != null) made.set(part.default);
  const title = element("label", { for: made.node.id }, part.title ?? words(name), required.has(name) ? " *" : "");
  const about = part.description ? [element("small", { class: "dim", id: `${made.node.id}-about` }, part.description)] : [];
  document.getElementById("fields").append(element("div", { class: "field" }, title, made.node, ...about));
}
send.textContent = config.button;

const fill = (values) => {
  if (!values || typeof values !== "object") return;
  for (const [name, value] of Object.entries(values)) {
    if (value != null) fields[name]?.set(value);
  }
};
view.on("partial", fill);
view.on("input", fill);
view.on("result", (result) => {
  fill(dataOf(result));
  if (view.state?.sent) finish(view.state.sent);
});

const finish = (text) => {
  for (const { node } of Object.values(fields)) node.disabled = true;
  send.hidden = true;
  say(text);
};

// A host may show the page without "allow-forms", where a form is never submitted.
send.addEventListener("click", async () => {
  if (!form.reportValidity()) return;
  const values = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = field.get();
    if (value !== undefined) values[name] = value;
  }
  send.disabled = true;
  say("…");
  try {
    const text = await textOfCall(config.tool, values);
    view.save({ sent: config.done });
    finish(config.done);
    document.getElementById("status").focus();
    await view.setContext(`The user sent the form "${config.title}": ${JSON.stringify(values)}. The answer was: ${text}`).catch(() => {});
  } catch (error) {
    say(error.message, true);
    send.disabled = false;
  }
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("input")) send.click();
});

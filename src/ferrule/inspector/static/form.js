// A form from a JSON schema: objects, lists, choices, truth values, numbers, text, simple unions; and a field for JSON
// where a schema says something that no form can show.
//
// A field that is optional and empty is left out. `read()` gives {value, problems}; a problem is shown at its field.
//
// A server may send a schema of any size and shape. A part that cannot be shown becomes a field for JSON, and so does
// a whole form that cannot be made. Names are looked up as own properties only, because "__proto__" is a valid name.

import { button, fill, h, newId, say } from "./dom.js";

const MAX_DEPTH = 8;
const MAX_FIELDS = 400; // a schema that refers to itself many times would never end
const MAX_CHOICES = 2000;
const MAX_KINDS = 100;
const MAX_ROWS = 100;

/** A form for the properties of an object schema. */
export function schemaForm(schema, initial = {}) {
  const root = schema && typeof schema === "object" ? schema : { type: "object" };
  const inner = topField(root, initial);
  const json = jsonField({ initial: () => inner.peek() });
  let isJson = false;
  const element = h("div", { class: "form" }, inner.element);
  return {
    element,
    /** Show the form's fields, or its value as JSON. */
    showJson(wanted) {
      if (wanted === isJson) return;
      if (wanted) json.set(inner.peek());
      isJson = wanted;
      fill(element, wanted ? json.element : inner.element);
      return true;
    },
    read() { return isJson ? json.read() : inner.read(); },
    /** The value as far as it is filled in, without complaints. */
    peek() { return isJson ? json.peek() : inner.peek(); },
    get isJson() { return isJson; },
    get isEmpty() { return inner.isEmpty; },
    firstProblem() { return element.querySelector("[aria-invalid=true]"); },
  };
}

function topField(root, initial) {
  try {
    return field(root, { root, name: "", required: true, depth: 0, value: initial, isTop: true, left: { fields: MAX_FIELDS } });
  } catch { // an invalid schema, such as "properties": 5 or a title that is not a string
    return jsonField({ value: initial });
  }
}

const own = (value, name) => (value && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined);

function resolve(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > MAX_DEPTH) return {};
  const ref = schema.$ref;
  if (typeof ref === "string" && ref.startsWith("#/")) {
    let found = root;
    for (const part of ref.slice(2).split("/")) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      found = found && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    const { $ref, ...beside } = schema;
    return { ...resolve(found, root, depth + 1), ...beside };
  }
  if (Array.isArray(schema.allOf) && schema.allOf.length === 1) {
    const { allOf, ...beside } = schema;
    return { ...resolve(allOf[0], root, depth + 1), ...beside };
  }
  return schema;
}

/** What a schema allows: [schemas without null, whether null is allowed]. */
function branches(schema, root) {
  const list = schema.anyOf || schema.oneOf;
  if (Array.isArray(list)) {
    const each = list.map((branch) => resolve(branch, root));
    return [each.filter((branch) => branch.type !== "null"), each.some((branch) => branch.type === "null")];
  }
  if (Array.isArray(schema.type)) {
    const kinds = schema.type.filter((kind) => kind !== "null");
    return [kinds.map((type) => ({ ...schema, type })), kinds.length < schema.type.length];
  }
  return [[schema], false];
}

/** Choices as [value, title], or null where a schema is not a choice. */
function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value, at) => [value, schema.enumNames?.[at] ?? String(value)]);
  if ("const" in schema) return [[schema.const, schema.title ?? String(schema.const)]];
  for (const list of [schema.oneOf, schema.anyOf]) {
    if (Array.isArray(list) && list.length && list.every((each) => each && typeof each === "object" && "const" in each)) {
      return list.map((each) => [each.const, each.title ?? String(each.const)]);
    }
  }
  return null;
}

function field(given, context) {
  const schema = resolve(given, context.root);
  context.left.fields -= 1;
  if (context.depth > MAX_DEPTH || context.left.fields < 0) return jsonField({ ...context, schema });
  const choices = choicesOf(schema);
  if (choices && choices.length <= MAX_CHOICES) return choiceField(schema, choices, context);
  if (choices) return plainField(schema, context);
  const [options, nullable] = branches(schema, context.root);
  const outer = { title: schema.title, description: schema.description, default: schema.default };
  const known = Object.fromEntries(Object.entries(outer).filter(([, value]) => value !== undefined));
  if (options.length === 1) {
    const one = { ...options[0], ...known };
    const ctx = nullable ? { ...context, required: false, nullable: context.required || context.nullable } : context;
    const found = choicesOf(one);
    return found && found.length <= MAX_CHOICES ? choiceField(one, found, ctx) : plainField(one, ctx);
  }
  if (options.length > 1 && options.length <= MAX_KINDS) return unionField({ ...schema, ...known }, options, context);
  return jsonField({ ...context, schema });
}

function plainField(schema, context) {
  const kind = schema.type || (schema.properties ? "object" : undefined);
  switch (kind) {
    case "string": return textField(schema, context);
    case "integer":
    case "number": return numberField(schema, context, kind === "integer");
    case "boolean": return booleanField(schema, context);
    case "array": return listField(schema, context);
    case "object":
      if (context.isTop || (schema.properties && Object.keys(schema.properties).length)) return objectField(schema, context);
      return jsonField({ ...context, schema });
    default: return jsonField({ ...context, schema });
  }
}

// -- the frame around a control -------------------------------------------------------------------------------------

const initialOf = (schema, context) => (context.value !== undefined ? context.value : schema.default);

function framed(schema, context, control, hint = "") {
  const id = control.id || newId("field");
  control.id = id;
  const label = schema.title || context.name || "value";
  const problem = h("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const about = [schema.description ? say(schema.description) : null, hint ? h("span", { class: "dim" }, hint) : null].filter(Boolean);
  const note = about.length ? h("p", { class: "note", id: `${id}-note` }, about[0], about[1] ? " " : null, about[1]) : null;
  const described = [note ? `${id}-note` : "", `${id}-problem`].filter(Boolean).join(" ");
  control.setAttribute("aria-describedby", described);
  if (context.required && control.type !== "checkbox") control.setAttribute("aria-required", "true");
  const isCheck = control.type === "checkbox";
  const caption = h("div", { class: "caption" }, h("label", { for: id, class: "field-name" }, say(label)),
    context.required && !isCheck && !context.isItem ? h("span", { class: "required", "aria-hidden": "true" }, "required") : null);
  const element = h("div", { class: isCheck ? "field check" : "field" }, isCheck ? [control, caption] : [caption, control], note, problem);
  const complain = (text) => {
    problem.hidden = !text;
    problem.textContent = text || "";
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    return text;
  };
  control.addEventListener("input", () => complain(""));
  return { element, complain };
}

/** Return the same result for every control: a value, nothing, or a problem. */
function outcome(frame, context, state) {
  if (state.problem) {
    frame.complain(state.problem);
    return { value: undefined, problems: [`${context.name || "value"}: ${state.problem}`] };
  }
  if (state.value === undefined && context.nullable) return { value: null, problems: [] };
  if (state.value === undefined && context.required) {
    frame.complain("This is required.");
    return { value: undefined, problems: [`${context.name || "value"} is required`] };
  }
  frame.complain("");
  return { value: state.value, problems: [] };
}

function control(schema, context, input, current, hint) {
  const frame = framed(schema, context, input, hint);
  return {
    element: frame.element,
    isEmpty: false,
    peek: () => { const state = current(); return state.problem ? input.value : state.value; },
    read: () => outcome(frame, context, current()),
  };
}

function textField(schema, context) {
  const initial = initialOf(schema, context);
  const isLong = /text|body|content|code|query|prompt|message/i.test(context.name) || (schema.maxLength || 0) > 200
    || (typeof initial === "string" && initial.includes("\n"));
  const kinds = { date: "date", email: "email" };
  const input = isLong ? h("textarea", { rows: 3, spellcheck: "false" })
    : h("input", { type: kinds[schema.format] || "text", spellcheck: "false", autocomplete: "off" });
  if (typeof initial === "string") input.value = initial;
  let wasEdited = initial === ""; // a required text may be empty only if the user edited the field
  input.addEventListener("input", () => { wasEdited = true; });
  const hint = [schema.format, schema.pattern && `pattern ${schema.pattern}`, schema.minLength && `at least ${schema.minLength} characters`,
    schema.maxLength && `at most ${schema.maxLength} characters`].filter(Boolean).join(", ");
  return control(schema, context, input, () => {
    const text = input.value;
    if (text === "" && (!context.required || context.nullable || schema.minLength || !wasEdited)) return { value: undefined };
    if (schema.minLength && [...text].length < schema.minLength) return { problem: `At least ${schema.minLength} characters.` };
    if (schema.maxLength && [...text].length > schema.maxLength) return { problem: `At most ${schema.maxLength} characters.` };
    return { value: text };
  }, hint);
}

function numberField(schema, context, isInteger) {
  const input = h("input", { type: "text", inputmode: isInteger ? "numeric" : "decimal", autocomplete: "off" });
  const initial = initialOf(schema, context);
  if (initial !== undefined && initial !== null) input.value = String(initial);
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const range = low !== undefined && high !== undefined ? `${low} to ${high}` : low !== undefined ? `from ${low}` : high !== undefined ? `up to ${high}` : "";
  return control(schema, context, input, () => {
    const text = input.value.trim();
    if (text === "") return { value: undefined };
    const value = Number(text);
    if (!Number.isFinite(value)) return { problem: "A number is needed here." };
    if (isInteger && !Number.isInteger(value)) return { problem: "A whole number is needed here." };
    if (low !== undefined && value < low) return { problem: `At least ${low}.` };
    if (high !== undefined && value > high) return { problem: `At most ${high}.` };
    return { value };
  }, [isInteger ? "whole number" : "number", range].filter(Boolean).join(", "));
}

function booleanField(schema, context) {
  const initial = initialOf(schema, context);
  if (context.required || typeof schema.default === "boolean") {
    const input = h("input", { type: "checkbox", checked: initial === true });
    return control(schema, { ...context, required: false }, input, () => ({ value: input.checked }));
  }
  return choiceField(schema, [[true, "true"], [false, "false"]], context);
}

function choiceField(schema, choices, context) {
  const initial = initialOf(schema, context);
  const at = choices.findIndex(([value]) => JSON.stringify(value) === JSON.stringify(initial));
  const select = h("select", {},
    context.required && choices.length && !context.nullable && (at >= 0 || choices.length === 1) ? null : h("option", { value: "" }, context.required ? "Choose…" : "not set"),
    choices.map(([, title], index) => h("option", { value: String(index) }, title)));
  if (at >= 0) select.value = String(at);
  return control(schema, context, select, () => ({ value: select.value === "" ? undefined : choices[Number(select.value)][0] }));
}

function jsonField(context) {
  const schema = context.schema || {};
  const area = h("textarea", { rows: 4, spellcheck: "false", class: "mono" });
  const initial = context.initial ? context.initial() : initialOf(schema, context);
  if (initial !== undefined) area.value = JSON.stringify(initial, null, 2);
  const titled = context.name !== undefined ? schema : { ...schema, title: "Arguments as JSON" };
  const made = control(titled, { ...context, name: context.name ?? "JSON" }, area, () => {
    if (area.value.trim() === "") return { value: context.name === undefined ? {} : undefined };
    try {
      return { value: JSON.parse(area.value) };
    } catch (error) {
      return { problem: `No JSON: ${error.message}` };
    }
  }, context.name !== undefined ? "JSON" : "");
  made.set = (value) => { area.value = JSON.stringify(value ?? {}, null, 2); };
  return made;
}

// -- fields with fields inside -----------------------------------------------------------------------------------------

function objectField(schema, context) {
  if (Object.keys(schema.properties || {}).length > context.left.fields) {
    return jsonField({ ...context, schema, name: context.isTop ? undefined : context.name });
  }
  const required = new Set(schema.required || []);
  const initial = initialOf(schema, context) || {};
  const isOptional = !context.isTop && (!context.required || context.nullable);
  const parts = Object.entries(schema.properties || {}).map(([name, sub]) => [name, field(sub, {
    root: context.root, left: context.left, name, required: required.has(name), depth: context.depth + 1,
    value: own(initial, name),
  })]);
  const gather = (method) => {
    const value = Object.create(null);
    const problems = [];
    for (const [name, part] of parts) {
      const found = method === "read" ? part.read() : { value: part.peek(), problems: [] };
      problems.push(...found.problems);
      if (found.value !== undefined) value[name] = found.value;
    }
    return { value, problems };
  };
  if (context.isTop) {
    return {
      element: h("div", { class: "fields" }, parts.map(([, part]) => part.element)),
      isEmpty: parts.length === 0,
      peek: () => gather("peek").value,
      read: () => gather("read"),
    };
  }
  const inside = h("div", { class: "fields" }, parts.map(([, part]) => part.element));
  const used = h("input", { type: "checkbox", checked: !isOptional || Object.keys(initial).length > 0 });
  const label = say(schema.title || context.name);
  const show = () => { inside.hidden = !used.checked; };
  used.addEventListener("change", show);
  show();
  const element = h("fieldset", { class: "group" },
    h("legend", {}, isOptional ? h("label", { class: "check" }, used, " ", label) : label),
    schema.description ? h("p", { class: "note" }, say(schema.description)) : null, inside);
  const absent = () => (context.nullable ? null : undefined);
  return {
    element,
    peek: () => (used.checked ? gather("peek").value : absent()),
    read: () => (used.checked ? gather("read") : { value: absent(), problems: [] }),
  };
}

function listField(schema, context) {
  const items = resolve(schema.items || {}, context.root);
  const choices = choicesOf(items) || choicesOf({ ...items, anyOf: items.anyOf, oneOf: items.oneOf });
  if (choices && choices.length <= MAX_CHOICES && (schema.uniqueItems || choices.length <= 12)) return manyField(schema, choices, context);
  const initial = initialOf(schema, context);
  if (Array.isArray(initial) && initial.length > MAX_ROWS) return jsonField({ ...context, schema });
  const rows = [];
  const list = h("div", { class: "list-rows" });
  const label = schema.title || context.name;
  const add = (value, isMoved) => {
    const part = field(schema.items || {}, {
      root: context.root, left: context.left, name: `${context.name || "item"} ${rows.length + 1}`, required: true, isItem: true, depth: context.depth + 1, value,
    });
    const row = { part };
    row.element = h("div", { class: "list-row" }, part.element,
      button("Remove", () => {
        rows.splice(rows.indexOf(row), 1);
        row.element.remove();
        adder.focus();
      }, { class: "small", "aria-label": `Remove this item of ${label}` }));
    rows.push(row);
    list.append(row.element);
    if (isMoved) row.element.querySelector("input, textarea, select")?.focus();
  };
  const adder = button("Add item", () => add(undefined, true), { class: "small", "aria-label": `Add an item to ${label}` });
  if (Array.isArray(initial)) for (const value of initial) add(value);
  else if (context.required || schema.minItems) add(undefined);
  const problem = h("p", { class: "problem", hidden: true });
  const element = h("fieldset", { class: "group" },
    h("legend", {}, say(label)),
    schema.description ? h("p", { class: "note" }, say(schema.description)) : null, list, h("div", { class: "row" }, adder), problem);
  const none = () => (context.nullable ? null : context.required ? [] : undefined);
  return {
    element,
    peek: () => (rows.length ? rows.map((row) => row.part.peek() ?? null) : none()),
    read() {
      const problems = [];
      const value = rows.map((row) => { const found = row.part.read(); problems.push(...found.problems); return found.value; });
      problem.hidden = true;
      if (schema.minItems && value.length && value.length < schema.minItems) {
        problem.hidden = false;
        problem.textContent = `At least ${schema.minItems} items.`;
        problems.push(`${label}: at least ${schema.minItems} items`);
      }
      return { value: value.length ? value : none(), problems };
    },
  };
}

function manyField(schema, choices, context) {
  const initial = initialOf(schema, context) || [];
  const boxes = choices.map(([value]) => h("input", { type: "checkbox", checked: initial.includes(value), id: newId("choice") }));
  const problem = h("p", { class: "problem", hidden: true });
  const label = schema.title || context.name;
  const element = h("fieldset", { class: "group" }, h("legend", {}, say(label)),
    schema.description ? h("p", { class: "note" }, say(schema.description)) : null,
    h("div", { class: "choices" }, choices.map(([, title], at) => h("label", { class: "check", for: boxes[at].id }, boxes[at], " ", say(title)))), problem);
  const current = () => {
    const value = choices.filter((_, at) => boxes[at].checked).map(([each]) => each);
    return value.length || context.required ? value : undefined;
  };
  return {
    element,
    peek: current,
    read() {
      const value = current();
      const count = value?.length || 0;
      const why = schema.minItems && count < schema.minItems && (context.required || count) ? `At least ${schema.minItems}.`
        : schema.maxItems && count > schema.maxItems ? `At most ${schema.maxItems}.` : "";
      problem.hidden = !why;
      problem.textContent = why;
      return { value, problems: why ? [`${label}: ${why}`] : [] };
    },
  };
}

function unionField(schema, options, context) {
  const titles = options.map((option) => option.title || option.type || "JSON");
  const initial = initialOf(schema, context);
  const kindOf = (value) => (Array.isArray(value) ? "array" : value === null ? "null" : Number.isInteger(value) ? "integer" : typeof value);
  let at = initial === undefined ? 0 : Math.max(0, options.findIndex((option) => option.type === kindOf(initial)));
  const make = (index, value) => field(options[index], { ...context, required: context.required, value, depth: context.depth + 1 });
  let part = make(at, initial);
  const place = h("div", {}, part.element);
  const select = h("select", { id: newId("union") }, titles.map((title, index) => h("option", { value: String(index) }, title)));
  select.value = String(at);
  select.addEventListener("change", () => {
    at = Number(select.value);
    part = make(at, undefined);
    fill(place, part.element);
  });
  const label = schema.title || context.name;
  const element = h("fieldset", { class: "group" }, h("legend", {}, say(label)),
    schema.description ? h("p", { class: "note" }, say(schema.description)) : null,
    h("div", { class: "field" }, h("label", { for: select.id }, "One of"), select), place);
  return { element, peek: () => part.peek(), read: () => part.read() };
}

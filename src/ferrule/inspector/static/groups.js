// Fields with fields inside: objects, lists, sets of choices, unions. What they are given and cannot show is kept: an
// unknown member of an object is sent as it came. `context.make(schema, context)` makes a field.

import { button, fill, h, newId, say } from "./dom.js";
import { isContainer } from "./exact.js";
import { initialOf, jsonField, labelOf } from "./fields.js";
import { branchFor, branchNames, choicesOf, discriminatorOf, isSchema, MAX_CHOICES, own, resolve, sameJson } from "./schema.js";

const MAX_ROWS = 100;

const described = (schema) => (schema.description ? h("p", { class: "note" }, say(schema.description)) : null);
const inner = (context, more) => ({ root: context.root, left: context.left, make: context.make, depth: context.depth + 1, ...more });

export function objectField(schema, context) {
  const properties = isSchema(schema.properties) ? schema.properties : {};
  if (Object.keys(properties).length > context.left.fields) return jsonField(schema, context);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const given = initialOf(schema, context);
  const initial = isContainer(given) && !Array.isArray(given) ? given : {};
  const parts = Object.entries(properties).map(([name, sub]) => [name, context.make(sub, inner(context, {
    name, required: required.has(name) || name === context.discriminator, value: own(initial, name),
  }))]);
  const others = Object.keys(initial).filter((name) => !Object.hasOwn(properties, name));
  const note = others.length ? h("p", { class: "note" }, "Also sent: ", h("code", {}, say(others.slice(0, 20).join(", ")))) : null;
  const gather = (method) => {
    const value = Object.create(null);
    const problems = [];
    for (const [name, part] of parts) {
      const found = method === "read" ? part.read() : { value: part.peek(), problems: [] };
      problems.push(...found.problems);
      if (found.value !== undefined) value[name] = found.value;
    }
    for (const name of others) value[name] = initial[name];
    return { value, problems };
  };
  const fields = h("div", { class: "fields" }, parts.map(([, part]) => part.element), note);
  if (context.isTop) {
    return { element: fields, isEmpty: parts.length === 0 && !others.length, peek: () => gather("peek").value, read: () => gather("read") };
  }
  if (context.isBranch) { // the union around it has its name and its frame
    return { element: h("div", { class: "branch" }, described(schema), fields), peek: () => gather("peek").value, read: () => gather("read") };
  }
  return optional(schema, context, fields, { isUsed: isContainer(context.value) || Object.keys(initial).length > 0, peek: () => gather("peek").value, read: () => gather("read") });
}

/** An object that may be left out has a box in its legend. */
function optional(schema, context, fields, { isUsed, peek, read }) {
  const isOptional = !context.required || context.nullable;
  const used = h("input", { type: "checkbox", checked: !isOptional || isUsed });
  const show = () => { fields.hidden = !used.checked; };
  used.addEventListener("change", show);
  show();
  const label = say(labelOf(schema, context));
  const element = h("fieldset", { class: "group" }, h("legend", {}, isOptional ? h("label", { class: "check" }, used, " ", label) : label), described(schema), fields);
  const absent = () => (context.nullable ? null : undefined);
  return {
    element,
    peek: () => (used.checked ? peek() : absent()),
    read: () => (used.checked ? read() : { value: absent(), problems: [] }),
  };
}

export function listField(schema, context) {
  const items = resolve(schema.items || {}, context.root);
  const choices = choicesOf(items);
  const initial = initialOf(schema, context);
  if (choices && choices.length <= MAX_CHOICES && (schema.uniqueItems || choices.length <= 12) && isSet(initial, choices)) return manyField(schema, choices, context);
  if (Array.isArray(initial) && initial.length > MAX_ROWS) return jsonField(schema, context);
  const rows = [];
  const list = h("div", { class: "list-rows" });
  const label = labelOf(schema, context);
  let wasTouched = false;
  const add = (value, isMoved) => {
    const part = context.make(schema.items || {}, inner(context, { name: `${context.name || "item"} ${rows.length + 1}`, required: true, isItem: true, value }));
    const row = { part };
    row.element = h("div", { class: "list-row" }, part.element,
      button("Remove", () => {
        rows.splice(rows.indexOf(row), 1);
        wasTouched = true;
        row.element.remove();
        adder.focus();
      }, { class: "small", "aria-label": `Remove this item of ${label}` }));
    rows.push(row);
    list.append(row.element);
    if (isMoved) row.element.querySelector("input, textarea, select")?.focus();
  };
  const adder = button("Add item", () => { wasTouched = true; add(undefined, true); }, { class: "small", "aria-label": `Add item to ${label}` });
  if (Array.isArray(initial)) for (const value of initial) add(value);
  else if ((context.required && !context.nullable) || schema.minItems) add(undefined);
  const problem = h("p", { class: "problem", hidden: true });
  const element = h("fieldset", { class: "group" }, h("legend", {}, say(label)), described(schema), list, h("div", { class: "row" }, adder), problem);
  const none = () => (Array.isArray(context.value) && !wasTouched ? [] : context.nullable ? null : context.required ? [] : undefined);
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

/** Whether boxes can hold a list: only choices, each once, in their order. */
function isSet(list, choices) {
  if (!Array.isArray(list)) return true;
  return sameJson(choices.filter(([value]) => list.some((each) => sameJson(each, value))).map(([value]) => value), list);
}

function manyField(schema, choices, context) {
  const found = initialOf(schema, context);
  const initial = Array.isArray(found) ? found : [];
  const boxes = choices.map(([value]) => h("input", { type: "checkbox", checked: initial.some((each) => sameJson(each, value)), id: newId("choice") }));
  const problem = h("p", { class: "problem", hidden: true });
  const label = labelOf(schema, context);
  const element = h("fieldset", { class: "group" }, h("legend", {}, say(label)), described(schema),
    h("div", { class: "choices" }, choices.map(([, title], at) => h("label", { class: "check", for: boxes[at].id }, boxes[at], " ", say(title)))), problem);
  const current = () => {
    const value = choices.filter((_, at) => boxes[at].checked).map(([each]) => each);
    return value.length || (context.required && !context.nullable) || (Array.isArray(context.value) && !context.value.length) ? value : context.nullable ? null : undefined;
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

/** A union: which kind, then that kind's field. What was filled in for a kind is there again when it is chosen again. */
export function unionField(schema, options, context, isNullable) {
  const discriminator = discriminatorOf(schema, options, context.root);
  const names = branchNames(options, context.root, discriminator);
  const initial = initialOf(schema, context);
  const empty = isNullable ? "none" : context.required ? null : "not set";
  let at = initial === undefined || initial === null ? (empty === null ? 0 : -1) : branchFor(initial, options, context.root, discriminator);
  if (at < 0 && initial !== undefined && initial !== null) return jsonField(schema, context);
  const made = new Map();
  const part = () => {
    if (at < 0) return null;
    if (!made.has(at)) {
      made.set(at, context.make(options[at], { ...inner(context, { name: context.name, required: true, discriminator, isBranch: true }), value: made.size ? undefined : initial ?? undefined }));
    }
    return made.get(at);
  };
  const place = h("div", { class: "union-place" }, part()?.element);
  const select = h("select", { id: newId("union") }, empty === null ? null : h("option", { value: "-1" }, empty), names.map((name, index) => h("option", { value: String(index) }, name)));
  select.value = String(at);
  select.addEventListener("change", () => {
    at = Number(select.value);
    fill(place, part()?.element);
  });
  const element = h("fieldset", { class: "group" }, h("legend", {}, say(labelOf(schema, context)),
    context.required && !context.isItem ? h("span", { class: "required", "aria-hidden": "true" }, "required") : null), described(schema),
    h("div", { class: "field" }, h("label", { for: select.id }, "One of"), select), place);
  const nothing = () => (isNullable && (context.required || context.value === null) ? null : undefined);
  return { element, peek: () => (at < 0 ? nothing() : part().peek()), read: () => (at < 0 ? { value: isNullable ? null : undefined, problems: [] } : part().read()) };
}

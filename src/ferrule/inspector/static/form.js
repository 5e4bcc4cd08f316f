// A form from a JSON schema: objects, lists, choices, truth values, numbers, text, dates, unions; a field for JSON where
// a schema says something that no form can show; and the whole value as JSON in an editor.
//
// A field that is optional and empty is left out. `read()` gives {value, problems}; a problem is shown at its field.
// A part that cannot be shown, or whose value does not fit its control, becomes a field for JSON, and so does a whole
// form that cannot be made: changing between the form and its JSON loses nothing.

import { fill, h } from "./dom.js";
import { dateField, isDateFormat, isPickable } from "./dates.js";
import { jsonEditor } from "./editor.js";
import { booleanField, choiceField, initialOf, jsonField, numberField, textField } from "./fields.js";
import { listField, objectField, unionField } from "./groups.js";
import { branches, choicesOf, fits, isSchema, MAX_CHOICES, MAX_DEPTH, MAX_KINDS, resolve, sameJson } from "./schema.js";

const MAX_FIELDS = 400; // a schema that refers to itself many times would never end

/** A form for the properties of an object schema. */
export function schemaForm(schema, initial = {}) {
  const root = isSchema(schema) ? schema : { type: "object" };
  let fields = topField(root, initial);
  const isEmpty = fields.isEmpty === true;
  let editor = null;
  const element = h("div", { class: "form" }, fields.element);
  return {
    element,
    isEmpty,
    get isJson() { return editor !== null; },
    /** Show the form's fields, or its value as JSON; returns whether JSON is shown: text that is no JSON stays. */
    showJson(wanted) {
      if (wanted === (editor !== null)) return wanted;
      if (wanted) {
        editor = jsonEditor(root, fields.peek() ?? {});
        fill(element, editor.element);
        return true;
      }
      const { value, problems } = editor.read();
      if (problems.length) {
        editor.focus();
        return true;
      }
      editor = null;
      fields = topField(root, value);
      fill(element, fields.element);
      return false;
    },
    /** The value as far as it is filled in. */
    peek: () => (editor ? editor.peek() : fields.peek() ?? {}),
    read: () => (editor ?? fields).read(),
    firstProblem: () => element.querySelector("[aria-invalid=true]"),
  };
}

function topField(root, value) {
  try {
    return field(root, { root, name: "", required: true, depth: 0, value, isTop: true, left: { fields: MAX_FIELDS }, make: field });
  } catch { // an invalid schema, such as "properties": 5 or a title that is not a string
    return wholeField(root, value);
  }
}

/** The whole value as JSON; nothing is an empty object. */
function wholeField(root, value) {
  const made = jsonField({ title: "Arguments as JSON" }, { name: "arguments", value: isSchema(value) && !Object.keys(value).length ? undefined : value });
  return { ...made, read: () => { const found = made.read(); return found.problems.length ? found : { value: found.value ?? {}, problems: [] }; } };
}

function field(given, context) {
  const schema = resolve(given, context.root);
  context.left.fields -= 1;
  if (context.isTop) return plainField({ ...schema, type: "object" }, context);
  if (context.depth > MAX_DEPTH || context.left.fields < 0) return jsonField(schema, context);
  const choices = choicesOf(schema);
  if (choices) return choosing(schema, choices, context);
  const [options, isNullable] = branches(schema, context.root);
  const outer = { title: schema.title, description: schema.description, default: schema.default };
  const known = Object.fromEntries(Object.entries(outer).filter(([, value]) => value !== undefined));
  if (options.length === 1) {
    const one = { ...options[0], ...known };
    const ctx = isNullable ? { ...context, required: false, nullable: context.required || context.nullable || context.value === null } : context;
    const found = choicesOf(one);
    return found ? choosing(one, found, ctx) : plainField(one, ctx);
  }
  if (options.length > 1 && options.length <= MAX_KINDS) return unionField({ ...schema, ...known }, options, context, isNullable);
  return jsonField(schema, context);
}

function choosing(schema, choices, context) {
  const { value } = context;
  const isHeld = value === undefined || (value === null && context.nullable) || choices.some(([each]) => sameJson(each, value));
  if (choices.length > MAX_CHOICES) return plainField(schema, context);
  return isHeld ? choiceField(schema, choices, context) : jsonField(schema, context);
}

function plainField(schema, context) {
  const kind = schema.type || (schema.properties ? "object" : undefined);
  const { value } = context;
  // Text that is no number yet comes from the same field, before the page was loaded again.
  const isUnfinished = (kind === "integer" || kind === "number") && typeof value === "string" && Number.isNaN(Number(value));
  if (value !== undefined && !isUnfinished && !(value === null && context.nullable) && !fits({ ...schema, type: kind }, value)) {
    return context.isTop ? wholeField(schema, value) : jsonField(schema, context);
  }
  switch (kind) {
    case "string": {
      const initial = initialOf(schema, context);
      const isDate = isDateFormat(schema.format) && (initial === undefined || initial === null || isPickable(schema.format, initial));
      return isDate ? dateField(schema, context) : textField(schema, context);
    }
    case "integer":
    case "number": return numberField(schema, context, kind === "integer");
    case "boolean": return booleanField(schema, context);
    case "array": return listField(schema, context);
    case "object":
      if (context.isTop && Object.keys(schema.properties || {}).length > context.left.fields) return wholeField(schema, value);
      if (context.isTop || (schema.properties && Object.keys(schema.properties).length)) return objectField(schema, context);
      return jsonField(schema, context);
    default: return jsonField(schema, context);
  }
}

// What a JSON schema says about its form: references, choices, branches of a union and their names, and whether a value
// fits a control. A server may send a schema of any size and shape; names are looked up as own properties only, because
// "__proto__" is a valid name.

import { clip } from "./dom.js";
import { isContainer, isNumber } from "./exact.js";

export const MAX_DEPTH = 8;
export const MAX_CHOICES = 2000;
export const MAX_KINDS = 100;
const NAME_CHARACTERS = 200;

export const own = (value, name) => (isContainer(value) && Object.hasOwn(value, name) ? value[name] : undefined);
export const isSchema = (value) => isContainer(value) && !Array.isArray(value);
const textOf = (value) => clip(typeof value === "string" ? value : JSON.stringify(value) ?? "", NAME_CHARACTERS);

/** The schema that a reference, or the only entry of "allOf", stands for. */
export function resolve(schema, root, depth = 0) {
  if (!isSchema(schema) || depth > MAX_DEPTH) return {};
  const ref = schema.$ref;
  if (typeof ref === "string" && ref.startsWith("#/")) {
    let found = root;
    for (const part of ref.slice(2).split("/")) found = own(found, part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const { $ref, ...beside } = schema;
    return { ...resolve(found, root, depth + 1), ...beside };
  }
  if (Array.isArray(schema.allOf) && schema.allOf.length === 1) {
    const { allOf, ...beside } = schema;
    return { ...resolve(allOf[0], root, depth + 1), ...beside };
  }
  return schema;
}

/** What a schema allows: [schemas without null, whether null is allowed]. Unions without a title inside it are opened. */
export function branches(schema, root, depth = 0) {
  const list = schema.anyOf || schema.oneOf;
  if (Array.isArray(list)) {
    const found = [];
    let isNullable = false;
    for (const each of list) {
      const branch = resolve(each, root);
      const isUnion = Array.isArray(branch.anyOf || branch.oneOf) && branch.title === undefined && !choicesOf(branch);
      if (branch.type === "null" || ("const" in branch && branch.const === null)) isNullable = true;
      else if (isUnion && depth < MAX_DEPTH && found.length <= MAX_KINDS) {
        const [inner, hasNull] = branches(branch, root, depth + 1);
        found.push(...inner);
        isNullable ||= hasNull;
      } else found.push(branch);
    }
    return [found, isNullable];
  }
  if (Array.isArray(schema.type)) {
    const kinds = schema.type.filter((kind) => kind !== "null");
    return [kinds.map((type) => ({ ...schema, type })), kinds.length < schema.type.length];
  }
  return [[schema], false];
}

/** Choices as [value, title], or null where a schema is not a choice. */
export function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value, at) => [value, choiceTitle(schema.enumNames?.[at], value)]);
  if ("const" in schema) return [[schema.const, choiceTitle(schema.title, schema.const)]];
  for (const list of [schema.oneOf, schema.anyOf]) {
    if (Array.isArray(list) && list.length && list.every((each) => isSchema(each) && "const" in each)) {
      return list.map((each) => [each.const, choiceTitle(each.title, each.const)]);
    }
  }
  return null;
}

const choiceTitle = (title, value) => (typeof title === "string" && title !== "" ? clip(title, NAME_CHARACTERS) : value === null ? "none" : textOf(value));

// -- unions -----------------------------------------------------------------------------------------------------------

const typeOf = (schema) => (typeof schema.type === "string" ? schema.type : isSchema(schema.properties) ? "object" : Array.isArray(schema.enum) ? "choice" : "");

function constOf(branch, name, root) {
  const property = resolve(own(branch.properties, name), root);
  if ("const" in property) return property.const;
  return Array.isArray(property.enum) && property.enum.length === 1 ? property.enum[0] : undefined;
}

/** The property whose value says which branch of a union is meant; undefined if there is none. */
export function discriminatorOf(schema, options, root) {
  const named = own(schema.discriminator, "propertyName");
  const first = isSchema(options[0]?.properties) ? Object.keys(options[0].properties).slice(0, 100) : [];
  for (const name of typeof named === "string" ? [named] : first) {
    const values = options.map((option) => constOf(option, name, root));
    if (values.every((value) => value !== undefined) && new Set(values.map(textOf)).size === values.length) return name;
  }
  return undefined;
}

function nameOf(branch, root, discriminator) {
  if (typeof branch.title === "string" && branch.title) return clip(branch.title, NAME_CHARACTERS);
  if (discriminator !== undefined) return textOf(constOf(branch, discriminator, root));
  if ("const" in branch) return textOf(branch.const);
  const kind = typeOf(branch);
  if (kind === "choice" || Array.isArray(branch.enum)) return `one of ${clip((choicesOf(branch) || []).map(([, title]) => title).join(", "), 60)}`;
  if (kind === "array") {
    const items = resolve(branch.items, root);
    const inner = typeof items.title === "string" && items.title ? items.title : typeOf(items);
    return inner ? `list of ${clip(inner, 60)}` : "list";
  }
  if (kind === "object") {
    const names = isSchema(branch.properties) ? Object.keys(branch.properties) : [];
    return names.length ? `object with ${clip(names.slice(0, 5).join(", "), 60)}` : "object";
  }
  if (kind === "string") return typeof branch.format === "string" ? `text (${clip(branch.format, 30)})` : "text";
  return { integer: "whole number", number: "number", boolean: "true or false" }[kind] || kind || "JSON";
}

/** A name for each branch of a union; no two are the same. */
export function branchNames(options, root, discriminator) {
  const names = options.map((option) => nameOf(option, root, discriminator));
  const marked = names.map((name, at) => {
    if (names.indexOf(name) === names.lastIndexOf(name)) return name;
    const value = discriminator === undefined ? undefined : constOf(options[at], discriminator, root);
    return value === undefined ? name : `${name} (${textOf(value)})`;
  });
  return marked.map((name, at) => (marked.indexOf(name) === at ? name : `${name} ${marked.slice(0, at + 1).filter((each) => each === name).length}`));
}

/** The branch that a value belongs to; -1 if it is none of them. */
export function branchFor(value, options, root, discriminator) {
  if (discriminator !== undefined) {
    const given = own(value, discriminator);
    const at = options.findIndex((option) => textOf(constOf(option, discriminator, root)) === textOf(given));
    if (at >= 0) return at;
  }
  const scored = options.map((option) => {
    if (!fits(option, value)) return -1;
    const choices = choicesOf(option);
    if (choices) return choices.some(([each]) => sameJson(each, value)) ? 100 : -1;
    if (!isContainer(value) || Array.isArray(value)) return option.type === "integer" ? 2 : 1;
    const names = Object.keys(value);
    const known = names.filter((name) => own(option.properties, name) !== undefined).length;
    const isMissing = Array.isArray(option.required) && option.required.some((name) => !Object.hasOwn(value, name));
    return isMissing ? 0 : 1 + known;
  });
  const best = Math.max(...scored);
  return best < 0 ? -1 : scored.indexOf(best);
}

export const sameJson = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Whether the control for a schema of one type can hold a value. */
export function fits(schema, value) {
  switch (typeOf(schema)) {
    case "string": return typeof value === "string";
    case "integer": return isNumber(value) && isWhole(String(value));
    case "number": return isNumber(value);
    case "boolean": return typeof value === "boolean";
    case "array": return Array.isArray(value);
    case "object": return isContainer(value) && !Array.isArray(value);
    default: return true;
  }
}

/** Whether the text of a number is that of a whole one. */
export function isWhole(text) {
  const value = Number(text);
  if (/^-?\d+(\.0*)?$/.test(text)) return true;
  return Number.isFinite(value) ? Number.isInteger(value) && !(/\.\d*[1-9]/.test(text) && !/[eE]/.test(text)) : /[eE]/.test(text);
}

// Which values must not be kept or passed on: fields that their schema marks (format "password", writeOnly), and
// fields whose names people give to secrets. The names are those that recordings mask (ferrule.protocol.secret_forms).

const NAME = /^(?:.*[-_.])?(?:password|passwd|passphrase|pwd|pin|secret|token|api_?-?key|apikey|access_?-?key|private_?-?key|credentials?|authorization|cookie)$/i;
const NOT_SECRET = /^(?:.*[-_.])?(?:page|next|progress|continuation|sync|max|num|count|input|output)[-_]?tokens?$/i;
const MAX_DEPTH = 12;

export function isSecretName(name) {
  const spelled = String(name).replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_");
  return NAME.test(spelled) && !NOT_SECRET.test(spelled);
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function followed(schema, root) {
  let found = schema;
  for (let step = 0; step < MAX_DEPTH && isObject(found) && typeof found.$ref === "string" && found.$ref.startsWith("#/"); step++) {
    let next = root;
    for (const part of found.$ref.slice(2).split("/")) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      next = isObject(next) && Object.hasOwn(next, key) ? next[key] : undefined;
    }
    found = next;
  }
  return isObject(found) ? found : {};
}

const isMarked = (schema) => schema.format === "password" || schema.writeOnly === true;

/** The schema and everything that it may be instead. */
function variants(schema, root, depth = 0) {
  const one = followed(schema, root);
  if (depth > 4) return [one];
  const more = ["anyOf", "oneOf", "allOf"].flatMap((name) => (Array.isArray(one[name]) ? one[name].slice(0, 50) : []));
  return [one, ...more.flatMap((each) => variants(each, root, depth + 1))];
}

/** Return the value without its secrets; `found.any` becomes true if something was left out. */
export function withoutSecrets(value, schema, found = { any: false }, root = schema, name = "", depth = 0) {
  const ways = variants(schema, root);
  if ((isObject(schema) && isMarked(schema)) || ways.some(isMarked) || (typeof value === "string" && value !== "" && isSecretName(name)) || depth > MAX_DEPTH) {
    if (value !== undefined) found.any = true;
    return undefined;
  }
  if (Array.isArray(value)) {
    const items = ways.map((each) => each.items).find(isObject) || {};
    return value.map((item) => withoutSecrets(item, items, found, root, name, depth + 1)).filter((item) => item !== undefined);
  }
  if (!isObject(value) || typeof value.toJSON === "function") return value;
  const made = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    const part = ways.map((each) => (isObject(each.properties) && Object.hasOwn(each.properties, key) ? each.properties[key] : undefined)).find((each) => each !== undefined)
      ?? ways.map((each) => each.additionalProperties).find(isObject) ?? {};
    const kept = withoutSecrets(item, part, found, root, key, depth + 1);
    if (kept !== undefined) made[key] = kept;
  }
  return made;
}

// The controls for one value of a form: text, number, truth value, choice, JSON. Each gives {element, peek, read}:
// `read()` returns {value, problems}, `peek()` the value as far as it is filled in, without complaints.

import { clip, h, hasHidden, newId, say, visible, withEscapes } from "./dom.js";
import { ExactNumber, numberOf, parseExact } from "./exact.js";
import { isWhole, sameJson } from "./schema.js";

export const initialOf = (schema, context) => (context.value !== undefined ? context.value : schema.default);

export const labelOf = (schema, context) => clip(String((typeof schema.title === "string" && schema.title) || context.name || "value"), 300);

/** The frame around a control: its label, what the schema says about it, and the problem with its value. */
export function framed(schema, context, control, hint = "") {
  const id = control.id || newId("field");
  control.id = id;
  const problem = h("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const about = [schema.description ? say(schema.description) : null, hint ? h("span", { class: "dim" }, hint) : null].filter(Boolean);
  const note = about.length ? h("p", { class: "note", id: `${id}-note` }, about[0], about[1] ? " " : null, about[1]) : null;
  control.setAttribute("aria-describedby", [note ? `${id}-note` : "", `${id}-problem`].filter(Boolean).join(" "));
  if (context.required && control.type !== "checkbox") control.setAttribute("aria-required", "true");
  const isCheck = control.type === "checkbox";
  const caption = h("div", { class: "caption" }, h("label", { for: id, class: "field-name" }, say(labelOf(schema, context))),
    context.required && !isCheck && !context.isItem ? h("span", { class: "required", "aria-hidden": "true" }, "required") : null);
  const element = h("div", { class: isCheck ? "field check" : "field" }, isCheck ? [control, caption] : [caption, context.around?.(control) ?? control], note, problem);
  const complain = (text) => {
    problem.hidden = !text;
    problem.textContent = text || "";
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  };
  control.addEventListener("input", () => complain(""));
  return { element, complain };
}

/** A framed control; `current()` returns {value} or {problem}. */
export function control(schema, context, input, current, hint) {
  const frame = framed(schema, context, input, [hint, context.nullable ? "empty: none" : ""].filter(Boolean).join(", "));
  const read = () => {
    const { value, problem } = current();
    const why = problem || (value === undefined && context.required && !context.nullable ? "This is required." : "");
    frame.complain(why);
    if (why) return { value: undefined, problems: [`${context.name || "value"}: ${why}`] };
    return { value: value === undefined && context.nullable ? null : value, problems: [] };
  };
  return {
    element: frame.element,
    peek() {
      const { value, problem } = current();
      if (problem) return input.value;
      return value === undefined && context.nullable && context.value === null ? null : value;
    },
    read,
  };
}

/** Whether the user changed a control. */
function edited(input) {
  let was = false;
  input.addEventListener("input", () => { was = true; });
  return () => was;
}

export function textField(schema, context) {
  const initial = initialOf(schema, context);
  const isLong = /text|body|content|code|query|prompt|message/i.test(context.name) || schema.maxLength > 200
    || (typeof initial === "string" && initial.includes("\n"));
  const input = isLong ? h("textarea", { rows: 3, spellcheck: "false" })
    : h("input", { type: schema.format === "email" ? "email" : "text", spellcheck: "false", autocomplete: "off" });
  if (typeof initial === "string") input.value = initial;
  const isTricky = typeof initial === "string" && hasHidden(initial);
  const around = isTricky ? () => [input, h("p", { class: "note tricky" }, "It has characters that are not seen: ", h("bdi", {}, visible(clip(initial, 300))))] : context.around;
  const wasEdited = edited(input);
  const least = Number(schema.minLength) || 0;
  const most = Number(schema.maxLength) || 0;
  const short = (text) => (typeof text === "string" && text ? clip(text, 200) : undefined);
  const hint = [short(schema.format), short(schema.pattern) && `pattern ${short(schema.pattern)}`, least && `at least ${least} characters`,
    most && `at most ${most} characters`].filter((each) => typeof each === "string").join(", ");
  return control(schema, { ...context, around }, input, () => {
    // A control for one line has no line breaks and no NUL: what it was given is kept until it is edited.
    const text = !wasEdited() && typeof initial === "string" ? initial : input.value;
    if (text === "" && !(context.value === "" && !wasEdited())) {
      // A required text may be empty only if the user edited the field.
      if (!context.required || context.nullable || least || !(wasEdited() || initial === "")) return { value: undefined };
    }
    if (least && [...text].length < least) return { problem: `At least ${least} characters.` };
    if (most && [...text].length > most) return { problem: `At most ${most} characters.` };
    return { value: text };
  }, hint);
}

export function numberField(schema, context, isInteger) {
  const input = h("input", { type: "text", inputmode: isInteger ? "numeric" : "decimal", autocomplete: "off", spellcheck: "false" });
  const initial = initialOf(schema, context);
  if (initial !== undefined && initial !== null) input.value = String(initial);
  const bound = (value) => (value === undefined ? [undefined, ""] : [Number(value), String(value)]);
  const [low, lowText] = bound(schema.minimum ?? schema.exclusiveMinimum);
  const [high, highText] = bound(schema.maximum ?? schema.exclusiveMaximum);
  const range = lowText && highText ? `${lowText} to ${highText}` : lowText ? `from ${lowText}` : highText ? `up to ${highText}` : "";
  return control(schema, context, input, () => {
    const text = input.value.trim();
    if (text === "") return { value: undefined };
    // As it was typed if that is a number of JSON; "+5" and ".5" are none, but it is plain what they mean.
    const value = numberOf(text) ?? Number(text);
    if (!(value instanceof ExactNumber) && !Number.isFinite(value)) return { problem: "A number is needed here." };
    if (isInteger && !isWhole(text)) return { problem: "A whole number is needed here." };
    if (value < low) return { problem: `At least ${lowText}.` };
    if (value > high) return { problem: `At most ${highText}.` };
    return { value };
  }, [isInteger ? "whole number" : "number", range].filter(Boolean).join(", "));
}

export function booleanField(schema, context) {
  const initial = initialOf(schema, context);
  if (!context.nullable && (context.required || typeof schema.default === "boolean")) {
    const input = h("input", { type: "checkbox", checked: initial === true });
    return control(schema, { ...context, required: false }, input, () => ({ value: input.checked }));
  }
  return choiceField(schema, [[true, "true"], [false, "false"]], context);
}

export function choiceField(schema, choices, context) {
  const initial = initialOf(schema, context);
  const at = choices.findIndex(([value]) => sameJson(value, initial));
  if (("const" in schema || schema.enum) && choices.length === 1 && context.required && !context.nullable) return constantField(schema, choices[0], context);
  const needsNone = !context.required || context.nullable || choices.length === 0 || (at < 0 && choices.length > 1);
  const empty = context.nullable ? "none" : context.required ? "Choose…" : "not set";
  const select = h("select", {}, needsNone ? h("option", { value: "" }, empty) : null,
    choices.map(([, title], index) => h("option", { value: String(index) }, title)));
  if (at >= 0) select.value = String(at);
  return control(schema, context, select, () => ({ value: select.value === "" ? undefined : choices[Number(select.value)][0] }));
}

/** What is the same in every call, such as the name of a kind: shown, and sent. */
function constantField(schema, [value, title], context) {
  const shown = h("input", { type: "text", readonly: true, class: "constant" });
  shown.value = title;
  return control(schema, { ...context, required: false }, shown, () => ({ value }));
}

/** JSON in a field of its own, where no control can hold the value. */
export function jsonField(schema, context) {
  const initial = initialOf(schema, context);
  const text = initial === undefined ? "" : withEscapes(JSON.stringify(initial, null, 2) ?? "");
  const area = h("textarea", { rows: Math.min(12, Math.max(4, text.split("\n").length)), spellcheck: "false", class: "mono" });
  area.value = text;
  return control(schema, { ...context, name: context.name || "JSON" }, area, () => {
    if (area.value.trim() === "") return { value: undefined };
    try {
      return { value: parseExact(area.value) };
    } catch (error) {
      return { problem: `No JSON: ${error.message}` };
    }
  }, "JSON");
}

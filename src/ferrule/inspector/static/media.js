// Pictures and sounds of a server, and addresses. Only media types that a browser shows without running code are shown;
// others can be saved.

import { button, clip, h, save, size, visible } from "./dom.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const SOUNDS = new Set(["audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/mp4", "audio/aac", "audio/flac"]);

/** The bytes of base64; an exception if the text is not base64. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function mediaView(data, mimeType, kind) {
  const mime = String(mimeType || "").split(";")[0].trim().toLowerCase();
  let bytes;
  try {
    bytes = fromBase64(String(data ?? "").replace(/\s+/g, ""));
  } catch {
    return h("p", { class: "flag bad" }, `This ${kind} is not base64.`);
  }
  const about = `${clip(mime || "unknown type", 60)}, ${size(bytes.length)}`;
  const isShown = kind === "image" ? PICTURES.has(mime) : SOUNDS.has(mime);
  const blob = new Blob([bytes], { type: isShown ? mime : "application/octet-stream" });
  const saver = button("Save", () => save(`${kind}.${mime.split("/")[1] || "bin"}`, blob), { class: "small" });
  const caption = h("figcaption", { class: "row dim" }, visible(about), saver);
  if (!isShown) return h("figure", { class: "media" }, h("p", { class: "dim" }, `Not shown: this kind of ${kind} can be saved only.`), caption);
  const url = URL.createObjectURL(blob);
  const figure = h("figure", { class: "media" }, caption);
  const broken = () => { media.remove(); figure.prepend(h("p", { class: "flag bad" }, `This ${kind} is broken: the browser cannot show it.`)); };
  const media = kind === "image"
    ? h("img", { src: url, alt: `Image from the server, ${about}`, onerror: broken, onload: () => { caption.firstChild.after(` · ${media.naturalWidth} × ${media.naturalHeight}`); } })
    : h("audio", { src: url, controls: true, "aria-label": `Sound from the server, ${about}`, onerror: broken });
  figure.prepend(media);
  return figure;
}

/** A URI as text; an http or https one can be opened and shows its host. */
export function uriView(uri, length = 600) {
  const text = String(uri ?? "");
  let isWeb = false;
  try { isWeb = ["http:", "https:"].includes(new URL(text).protocol); } catch { /* no URL */ }
  const shown = h("code", { class: "uri" }, visible(clip(text, length)));
  return isWeb ? h("a", { href: text, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer" }, shown) : shown;
}

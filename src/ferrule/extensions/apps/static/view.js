// The script of views: speaks with the host in JSON-RPC over postMessage (MCP Apps 2026-01-26), without dependencies.
// A page gets it by <script src="ferrule:view"></script>. Whole-line comments and indentation are left out of pages.
//
//   const view = mcpView({name, version, displayModes, autoResize});    connects at once
//   view.on(event, handler)    "input", "partial" (arguments), "result" (a tool result), "cancelled" (the reason),
//                              "context" (the host's context), "teardown" (may return a promise); a handler also gets
//                              the last value that came before it
//   await view.call(tool, arguments, {signal})    the tool's result; view.data(result) is its data, or an exception.
//                              In a mounted server the tool has a prefix, which the server writes into the page.
//   await view.read(uri)       the result of resources/read
//   await view.openLink(url)   await view.message(text or blocks)   await view.setContext(text or blocks, data)
//   await view.download([{type: "resource", resource: {uri: "file:///days.csv", mimeType: "text/csv", text}}])
//   await view.displayMode("fullscreen")    the mode after it, which may be another
//   view.log(data, level)      view.resize()    view.close()
//   view.host  view.context    name, version and capabilities of the host; its context for the view
//   view.state  view.save(value)    the last saved value of this view; null before (needs a view id in the result)
//   await view.ready           resolves to the view when the host has answered
window.mcpView = (options = {}) => {
  const root = document.documentElement;
  const waiting = new Map();
  const handlers = {};
  const last = {};
  const context = {};
  let lastId = 0, host = {}, key = null, saved = null, sent, fonts, timer = 0;

  const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params, signal) => new Promise((resolve, reject) => {
    const id = ++lastId;
    signal?.throwIfAborted();
    waiting.set(id, { resolve, reject });
    signal?.addEventListener("abort", () => {
      if (!waiting.delete(id)) return;
      notify("notifications/cancelled", { requestId: id });
      reject(signal.reason);
    });
    post({ id, method, params });
  });
  const ask = async (capability, method, params, signal) => {
    await ready;
    if (capability && !host.hostCapabilities?.[capability]) throw new Error(`The host does not offer ${capability}`);
    return request(method, params, signal);
  };
  const run = async (handler, value) => {
    try {
      await handler(value);
    } catch (error) {
      console.error(error);
    }
  };
  const emit = (name, value) => {
    last[name] = [value];
    return Promise.all((handlers[name] || []).map((handler) => run(handler, value)));
  };
  const blocks = (content) => typeof content === "string" ? [{ type: "text", text: content }] : content;

  // The size of the content: without the height that a host with a fixed container asked for.
  const resize = () => {
    timer = 0;
    const height = root.style.height;
    root.style.height = "max-content";
    const size = { width: Math.ceil(innerWidth), height: Math.ceil(root.getBoundingClientRect().height) };
    root.style.height = height;
    if (sent !== (sent = JSON.stringify(size))) notify("ui/notifications/size-changed", size);
  };
  const observe = () => {
    const observer = new ResizeObserver(() => timer ||= setTimeout(resize, 16));
    observer.observe(root);
    observer.observe(document.body);
    resize();
  };

  const take = (changes) => {
    Object.assign(context, changes);
    const { theme, styles, containerDimensions: box = {}, locale } = context;
    if (theme) root.dataset.theme = root.style.colorScheme = theme;
    if (locale) root.lang = locale;
    for (const [name, value] of Object.entries(styles?.variables || {})) root.style.setProperty(name, value ?? "");
    if (styles?.css?.fonts) {
      fonts ||= document.head.appendChild(document.createElement("style"));
      fonts.textContent = styles.css.fonts;
    }
    for (const [side, most, whole] of [["height", "maxHeight", "100vh"], ["width", "maxWidth", "100vw"]]) {
      root.style[side] = side in box ? whole : "";
      root.style[most] = box[most] && !(side in box) ? box[most] + "px" : "";
    }
    return emit("context", context);
  };

  const answer = async (id, method) => {
    const ends = method === "ui/resource-teardown";
    if (ends) await emit("teardown");
    post({ id, ...(ends || method === "ping" ? { result: {} } : { error: { code: -32601, message: "Method not found" } }) });
  };
  const notified = {
    "tool-input": (params) => emit("input", params.arguments || {}),
    "tool-input-partial": (params) => emit("partial", params.arguments || {}),
    "tool-result": (params) => {
      const id = params._meta?.viewUUID;
      key = id ? "mcp-view:" + id : null;
      return emit("result", params);
    },
    "tool-cancelled": (params) => emit("cancelled", params.reason),
    "host-context-changed": take,
  };
  addEventListener("message", ({ source, data: message }) => {
    if (source !== parent || message?.jsonrpc !== "2.0") return;
    const { id, method, params = {}, result, error } = message;
    if (method === undefined) {
      const call = waiting.get(id);
      waiting.delete(id);
      if (error) call?.reject(Object.assign(new Error(error.message), error));
      else call?.resolve(result);
    } else if (id !== undefined) answer(id, method);
    else notified[method.replace("ui/notifications/", "")]?.(params);
  });

  const view = {
    on(name, handler) {
      (handlers[name] ||= []).push(handler);
      if (name in last) run(handler, last[name][0]);
      return view;
    },
    call: (name, args = {}, { signal } = {}) => 
      ask("serverTools", "tools/call", { name: (window.mcpPrefix || "") + name, arguments: args }, signal),
    read: (uri) => ask("serverResources", "resources/read", { uri }),
    openLink: (url) => ask("openLinks", "ui/open-link", { url }),
    download: (contents) => ask("downloadFile", "ui/download-file", { contents }),
    message: (content) => ask("", "ui/message", { role: "user", content: blocks(content) }),
    setContext: (content, data) => ask("", "ui/update-model-context", {
      content: blocks(content || []), ...(data && { structuredContent: data }),
    }),
    async displayMode(mode) {
      await ready;
      if (context.availableDisplayModes?.includes(mode)) {
        take({ displayMode: (await request("ui/request-display-mode", { mode })).mode });
      }
      return context.displayMode;
    },
    log: (data, level = "info") => ready.then(() => notify("notifications/message", { level, data })),
    close: () => notify("ui/notifications/request-teardown"),
    resize,
    data({ content = [], structuredContent: found, isError }) {
      const text = content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
      if (isError) throw new Error(text || "The tool failed");
      if (found === undefined) {
        try {
          return JSON.parse(text);
        } catch {
          return text;
        }
      }
      // Before 2026-07-28 structured content is an object, in which any other value stands as `result`.
      return Object.keys(found ?? {}).join() === "result" ? found.result : found;
    },
    get state() {
      try {
        return key ? JSON.parse(localStorage.getItem(key)) : saved;
      } catch {
        return saved;
      }
    },
    save(value) {
      saved = value;
      try {
        if (key) localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // a frame without an origin has no storage
      }
    },
    get host() { return host; },
    get context() { return context; },
  };
  const ready = view.ready = request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: options.name || document.title || "view", version: options.version || "1.0.0" },
    appCapabilities: { availableDisplayModes: options.displayModes || ["inline"] },
  }).then((result) => {
    host = result;
    take(result.hostContext || {});
    notify("ui/notifications/initialized");
    if (options.autoResize !== false) {
      if (document.body) observe();
      else addEventListener("DOMContentLoaded", observe);
    }
    return view;
  });
  ready.catch(console.error);
  return view;
};

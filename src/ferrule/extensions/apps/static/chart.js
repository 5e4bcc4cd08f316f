// A chart of lines or bars, with the same data as a table for those who do not see it.
const WIDTH = 640, HEIGHT = 280, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 26;
const COLORS = ["light-dark(#2f5fc4, #8ab0ff)", "light-dark(#b3541e, #ffb27d)", "light-dark(#1f7a4d, #7fd6a6)", "light-dark(#8a3fa0, #dca6ee)", "light-dark(#8a6d00, #e8cf6b)", "light-dark(#a8324a, #ff9fb0)"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4"];

const drawn = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// Points and series: of rows, of plain numbers, or of numbers by name.
const read = (data) => {
  let rows = Array.isArray(data) ? data : rowsOf(data);
  if (!rows.length && data && typeof data === "object" && !Array.isArray(data)) {
    rows = Object.entries(data).filter(([, value]) => typeof value === "number").map(([name, value]) => ({ name, value }));
  }
  if (rows.every((row) => typeof row === "number")) return { labels: rows.map((_, at) => at), series: [{ name: config.title, values: rows }] };
  const keys = Object.keys(rows[0] ?? {});
  const x = config.x ?? keys.find((key) => typeof rows[0][key] !== "number") ?? keys[0];
  const names = config.y ?? keys.filter((key) => key !== x && rows.some((row) => typeof row[key] === "number"));
  return {
    labels: rows.map((row) => row[x]),
    series: names.map((key) => ({ name: config.titles[key] ?? words(key), values: rows.map((row) => row[key]) })),
  };
};

const ticksOf = (low, high) => {
  const rough = (high - low || Math.abs(high) || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const first = Math.floor(low / step), last = Math.ceil(high / step);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
};

const draw = (data) => {
  const { labels, series } = read(data);
  const values = series.flatMap((each) => each.values).filter(Number.isFinite);
  if (!values.length) {
    say("There are no numbers to show.");
    return;
  }
  const isBar = config.kind === "bar";
  const ticks = ticksOf(Math.min(...(isBar ? [0] : []), values.reduce((a, b) => Math.min(a, b))), Math.max(...(isBar ? [0] : []), values.reduce((a, b) => Math.max(a, b))));
  const low = ticks[0], high = ticks.at(-1);
  const band = (WIDTH - LEFT - RIGHT) / Math.max(1, isBar ? labels.length : labels.length - 1);
  const x = (at) => LEFT + (isBar ? (at + 0.5) * band : labels.length === 1 ? (WIDTH - LEFT - RIGHT) / 2 : at * band);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low || 1));

  const parts = ticks.flatMap((tick) => [
    drawn("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), stroke: "var(--line)", "stroke-width": tick === 0 ? 1.5 : 0.5 }),
    drawn("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)),
  ]);
  const every = Math.ceil(labels.length / 8);
  labels.forEach((label, at) => {
    if (at % every === 0) parts.push(drawn("text", { x: x(at), y: HEIGHT - 8, "text-anchor": "middle" }, shown(label)));
  });
  series.forEach((each, number) => {
    const style = `color: ${COLORS[number % COLORS.length]}`;
    if (isBar) {
      const width = band * 0.8 / series.length;
      each.values.forEach((value, at) => {
        if (!Number.isFinite(value)) return;
        const bar = drawn("rect", {
          x: x(at) - band * 0.4 + number * width, width: Math.max(0.5, width * 0.95), style, fill: "currentColor",
          y: Math.min(y(value), y(0)), height: Math.abs(y(value) - y(0)),
        }, drawn("title", {}, `${shown(labels[at])}, ${each.name}: ${shown(value)}`));
        parts.push(bar);
      });
      return;
    }
    // A missing value interrupts the line.
    const path = each.values.map((value, at) => Number.isFinite(value)
      ? `${at && Number.isFinite(each.values[at - 1]) ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}` : "").join("");
    parts.push(drawn("path", { d: path, style, fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": DASHES[number % DASHES.length], "stroke-linejoin": "round" }));
    if (labels.length <= 60) {
      each.values.forEach((value, at) => {
        if (!Number.isFinite(value)) return;
        parts.push(drawn("circle", { cx: x(at), cy: y(value), r: 3, style, fill: "currentColor" },
          drawn("title", {}, `${shown(labels[at])}, ${each.name}: ${shown(value)}`)));
      });
    }
  });
  const about = `${config.title}: ${series.map((each) => each.name).join(", ")}; ${labels.length} points from ${shown(labels[0])} to ${shown(labels.at(-1))}`;
  document.getElementById("chart").replaceChildren(drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": about }, ...parts));
  document.getElementById("legend").replaceChildren(...(series.length < 2 ? [] : series.map((each, number) => {
    const sample = drawn("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, drawn("line", {
      x1: 0, x2: 22, y1: 5, y2: 5, style: `color: ${COLORS[number % COLORS.length]}`, stroke: "currentColor", "stroke-width": isBar ? 8 : 2,
      "stroke-dasharray": isBar ? "" : DASHES[number % DASHES.length] }));
    return element("li", {}, sample, each.name);
  })));
  const headings = element("tr", {}, element("th", { scope: "col" }, config.x ? config.titles[config.x] ?? words(config.x) : ""), ...series.map((each) => element("th", { scope: "col" }, each.name)));
  const rows = labels.slice(0, 1000).map((label, at) => element("tr", {}, element("th", { scope: "row" }, shown(label)), ...series.map((each) => element("td", {}, shown(each.values[at])))));
  document.getElementById("data").replaceChildren(element("table", {}, element("thead", {}, headings), element("tbody", {}, ...rows)));
};

view.on("result", (result) => {
  const data = dataOf(result);
  if (data !== undefined) draw(data);
});

// A table of any length: only the rows that are seen are elements.
const ROW = 30;
const SPARE = 6;
const [table, head, body, filter, count] = ["table", "head", "rows", "filter", "count"].map((id) => document.getElementById(id));
let columns = config.columns;
let all = [], live = [], order = { key: null, up: true }, pool = [], planned = 0;

const isNumber = (column) => column.type === "number" || column.type === "integer";
const value = (row, column) => column.key === null ? row : row?.[column.key];

const layOut = () => {
  if (!columns.length) {
    const keys = [...new Set(all.slice(0, 100).flatMap((row) => row && typeof row === "object" ? Object.keys(row) : []))];
    columns = keys.length ? keys.map((key) => ({ key, title: words(key), type: typeof all.find((row) => row?.[key] != null)?.[key] }))
      : [{ key: null, title: "Value", type: typeof all[0] }];
  }
  const widths = columns.map((column) => isNumber(column) ? "minmax(90px, 1fr)" : "minmax(130px, 2fr)").join(" ");
  table.style.setProperty("--widths", widths);
  table.setAttribute("aria-colcount", columns.length);
  head.style.gridTemplateColumns = widths;
  head.replaceChildren(...columns.map((column) => {
    const button = element("button", { type: "button" }, column.title);
    button.onclick = () => {
      order = { key: column.key, up: order.key === column.key ? !order.up : true, chosen: true };
      arrange();
    };
    return element("div", { class: `cell ${isNumber(column) ? "number" : ""}`, role: "columnheader" }, button);
  }));
  pool = [];
  body.replaceChildren();
};

const compare = (a, b) => {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
};

const arrange = () => {
  const wanted = filter.value.trim().toLowerCase();
  live = wanted
    ? all.filter((row) => columns.some((column) => shown(value(row, column)).toLowerCase().includes(wanted)))
    : [...all];
  if (order.chosen) {
    const column = columns.find((each) => each.key === order.key);
    live.sort((a, b) => compare(value(a, column), value(b, column)) * (order.up ? 1 : -1));
  }
  columns.forEach((column, at) => {
    const isChosen = order.chosen && column.key === order.key;
    head.children[at].setAttribute("aria-sort", isChosen ? (order.up ? "ascending" : "descending") : "none");
    head.children[at].firstChild.textContent = column.title + (isChosen ? (order.up ? " ▲" : " ▼") : "");
  });
  table.setAttribute("aria-rowcount", live.length + 1);
  body.style.height = `${live.length * ROW}px`;
  count.textContent = live.length === all.length ? `${shown(all.length)} rows` : `${shown(live.length)} of ${shown(all.length)} rows`;
  table.scrollTop = 0;
  draw();
};

const draw = () => {
  planned = 0;
  const first = Math.max(0, Math.floor(table.scrollTop / ROW) - SPARE);
  const needed = Math.min(live.length - first, Math.ceil(table.clientHeight / ROW) + 2 * SPARE);
  while (pool.length < needed) {
    const row = element("div", { class: "row", role: "row" }, ...columns.map((column) =>
      element("div", { class: `cell ${isNumber(column) ? "number" : ""}`, role: "cell" })));
    row.style.gridTemplateColumns = head.style.gridTemplateColumns;
    pool.push(row);
    body.append(row);
  }
  pool.forEach((row, at) => {
    row.hidden = at >= needed;
    if (row.hidden) return;
    const place = first + at;
    row.style.top = `${place * ROW}px`;
    row.setAttribute("aria-rowindex", place + 2);
    columns.forEach((column, each) => { row.children[each].textContent = shown(value(live[place], column)); });
  });
};

table.addEventListener("scroll", () => { planned ||= requestAnimationFrame(draw); });
filter.addEventListener("input", arrange);
view.on("result", (result) => {
  const data = dataOf(result);
  if (data === undefined) return;
  all = rowsOf(data);
  layOut();
  arrange();
});

// Elements, numbers and axes. Text enters the page through textContent only, so a name is never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}
function set(node, attributes) {
  for (const name in attributes) node.setAttribute(name, attributes[name]);
}
function byId(id) {
  return document.getElementById(id);
}

// Text is written only if it changed: every write costs a layout.
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function number(value, digits = 5) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4)
    return value
      .toExponential(Math.max(digits - 2, 0))
      .replace("-", "−")
      .replace("e+", "e");
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toFixed(Math.min(decimals, 20)).replace("-", "−");
}

// A number of four digits without zeros at the end of its decimals.
function brief(value, digits = 4) {
  const text = number(value, digits);
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

// A number with fixed decimals, so that columns align; a number that would round to 0 gets significant digits.
function fixed(value, decimals) {
  if (decimals > 8) return number(value);
  const text = value.toFixed(decimals);
  return Math.abs(value) >= 1e9 || (value !== 0 && Number(text) === 0) ? number(value, 3) : text.replace("-", "−");
}

// The value of an input: unchanged, or with six digits if its text is longer than ten characters.
function entered(value) {
  const text = String(value);
  return (text.length > 10 ? String(Number(value.toPrecision(6))) : text).replace("-", "−");
}
function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
function percent(share) {
  if (share >= 0.9995 && share < 1) return ">99.9 %";
  return share > 0 && share < 0.0005 ? "<0.1 %" : (100 * share).toFixed(1) + " %";
}

// Number of decimals that shows a thousandth of the range.
function decimalsFor(low, high) {
  return Math.min(Math.max(0, Math.ceil(-Math.log10((high - low) / 1000 || 1))), 100);
}

function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span && found.length < 50; i++) found.push(i * step);
  return found;
}

function tickText(value, all) {
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value) || 1;
  const size = Math.max(...all.map(Math.abs));
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  return value.toFixed(Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 15)).replace("-", "−");
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// A function that runs work in the next frame, at most once per frame.
function later(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

// A chart whose width follows its host element: draw(state) is called when the width changes.
function chart(host, height, draw) {
  const root = svg("svg", { role: "img" });
  host.append(root);
  const state = { root, width: 0, height };
  const measure = () => {
    const width = Math.round(host.clientWidth);
    if (width === state.width || width < 40) return;
    state.width = width;
    set(root, { width, height, viewBox: `0 0 ${width} ${height}` });
    draw(state);
  };
  new ResizeObserver(measure).observe(host);
  measure();
  return state;
}

// Axes of a chart: writes lines and labels into a group, and returns the maps from values to pixels.
function axes(group, box, xs, ys, names) {
  group.replaceChildren();
  const X = (v) => box.left + ((v - xs[0]) / (xs[1] - xs[0] || 1)) * (box.right - box.left);
  const Y = (v) => box.bottom - ((v - ys[0]) / (ys[1] - ys[0] || 1)) * (box.bottom - box.top);
  const vertical = ticks(ys[0], ys[1], Math.max(2, (box.bottom - box.top) / 45));
  for (const v of vertical) {
    group.append(svg("line", { x1: box.left, x2: box.right, y1: Y(v), y2: Y(v), class: "grid" }));
    group.append(svg("text", { x: box.left - 6, y: Y(v) + 4, class: "tick end", text: tickText(v, vertical) }));
  }
  const across = ticks(xs[0], xs[1], Math.max(2, (box.right - box.left) / 70));
  for (const v of across)
    group.append(svg("text", { x: X(v), y: box.bottom + 16, class: "tick mid", text: tickText(v, across) }));
  group.append(svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }));
  if (names && names[0])
    group.append(
      svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 32, class: "tick mid", text: shorten(names[0], 40) }),
    );
  if (names && names[1]) {
    const middle = (box.top + box.bottom) / 2,
      text = shorten(names[1], Math.floor((box.bottom - box.top) / 7));
    group.append(svg("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, class: "tick mid", text }));
  }
  return { X, Y };
}

function shorten(text, width) {
  const letters = Array.from(text);
  return letters.length > width ? letters.slice(0, width - 1).join("") + "…" : text;
}

function path(points) {
  return points.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(2) + " " + y.toFixed(2)).join("");
}

// A select element for an input. Browsers search its list by typing, also with very many inputs.
function inputSelect(names, chosen, label, change) {
  const box = el("select", { "aria-label": label, onchange: () => change(Number(box.value)) });
  names.forEach((name, m) =>
    box.append(el("option", { value: m, text: shorten(name || "(no name)", 60), selected: m === chosen })),
  );
  return box;
}

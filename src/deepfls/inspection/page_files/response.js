// Response of the chosen output to one or two inputs, the others held.

const CURVE = 121,
  RULES = 80; // with more rules than this, times classes, the surface is coarser
// The colour map viridis in nine steps.
const SHADES = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [253, 231, 37],
];

function evenly(low, high, count) {
  return Array.from({ length: count }, (_, i) => low + (i / (count - 1)) * (high - low));
}

function shade(share) {
  const at = clamp(share, 0, 1) * (SHADES.length - 1),
    i = Math.min(Math.floor(at), SHADES.length - 2),
    t = at - i;
  return SHADES[i].map((c, j) => Math.round(c + t * (SHADES[i + 1][j] - c)));
}

class ResponsePanel {
  constructor(app) {
    this.app = app;
    const { names, groups } = app.data.inputs,
      isNumber = (m) => !groups.some((group) => m >= group.first && m < group.first + group.codes[0].length);
    // Numbers first: between the categories of a column there is nothing to draw.
    const ranked = [...app.ranked.filter(isNumber), ...app.ranked.filter((m) => !isNumber(m))];
    this.input = ranked[0];
    this.pair = [ranked[0], ranked[Math.min(1, ranked.length - 1)]];
    byId("curve-input").append(
      inputSelect(names, this.input, "Input of the curve", (m) => {
        this.input = m;
        this.curve();
      }),
    );
    this.view = chart(byId("curve"), 250, () => this.drawn && this.curve());
    this.axis = svg("g");
    this.band = svg("path", { class: "footprint" });
    this.line = svg("path", { class: "curve" });
    this.now = svg("line", { class: "now" });
    this.dot = svg("circle", { class: "dot here", r: 5 });
    this.view.root.append(this.axis, this.band, this.line, this.now, this.dot);
    this.view.root.addEventListener("click", (event) => {
      if (!this.box) return;
      const { low, high } = app.data.inputs,
        at = event.clientX - this.view.root.getBoundingClientRect().left;
      const share = clamp((at - this.box.left) / (this.box.right - this.box.left), 0, 1);
      app.moveOne(this.input, this.rounded(this.input, low[this.input] + share * (high[this.input] - low[this.input])));
    });
    this.drawn = true;
    this.grid = app.model.P * (app.data.classifies ? app.model.K : 1) > RULES ? 24 : 48; // points of the surface in each direction
    this.surfaceHost = byId("surface-panel");
    if (app.model.M < 2) this.surfaceHost.hidden = true;
    else this.buildSurface();
    this.surfaceSoon = later(() => this.surface());
    this.update();
  }

  rounded(m, value) {
    const { low, high } = this.app.data.inputs;
    return Number(clamp(value, low[m], high[m]).toFixed(decimalsFor(low[m], high[m])));
  }

  update() {
    this.curve();
    // The surface takes a few thousand inferences, so it is drawn in the next frame.
    if (this.app.model.M > 1) this.surfaceSoon();
  }

  curve() {
    const { app, view, input: m } = this,
      { low, high } = app.data.inputs,
      k = app.output;
    if (!view.width) return;
    const xs = [],
      lefts = [],
      rights = [],
      ys = [];
    const grid = evenly(low[m], high[m], CURVE);
    const classes = app.data.classifies,
      scores = classes ? grid.map(() => []) : null;
    for (let output = 0; output < (classes ? app.model.K : 1); output++)
      app.model.sweep(app.x, app.now, [m], [grid], classes ? output : k, (i, _, left, right, y) => {
        if (classes) {
          scores[i].push(y);
          return;
        }
        xs.push(grid[i]);
        lefts.push(left);
        rights.push(right);
        ys.push(y);
      });
    // For classes the probability, which the scores of all of them make.
    if (classes)
      scores.forEach((row, i) => {
        const chance = softmax(row)[k];
        xs.push(grid[i]);
        [lefts, rights, ys].forEach((values) => values.push(chance));
      });
    const chances = classes ? softmax(app.now.outputs.map((o) => o.y)) : null,
      here = classes ? { left: chances[k], right: chances[k], y: chances[k] } : app.now.outputs[k];
    write(byId("curve-kind"), classes ? "probability of" : "");
    document.querySelectorAll(".output-name").forEach((node) => write(node, app.data.outputs.names[k]));
    let bottom = Math.min(here.left, ...lefts),
      top = Math.max(here.right, ...rights);
    const margin = 0.06 * (top - bottom) || Math.abs(top) * 0.05 || 1;
    bottom = classes ? 0 : bottom - margin;
    top = classes ? 1 : top + margin;
    this.box = { left: 72, right: view.width - 12, top: 10, bottom: view.height - 40 };
    const { X, Y } = axes(this.axis, this.box, [low[m], high[m]], [bottom, top], [
      app.data.inputs.names[m],
      classes ? "probability" : app.data.outputs.names[k],
    ]);
    set(this.band, {
      d: path(xs.map((v, i) => [X(v), Y(rights[i])]).concat(xs.map((v, i) => [X(v), Y(lefts[i])]).reverse())) + "Z",
    });
    set(this.line, { d: path(xs.map((v, i) => [X(v), Y(ys[i])])) });
    const unknown = Number.isNaN(app.x[m]),
      x = unknown ? -9 : X(clamp(app.x[m], low[m], high[m])); // -9: out of sight
    set(this.now, { x1: x, x2: x, y1: this.box.top, y2: this.box.bottom });
    set(this.dot, { cx: x, cy: Y(here.y) });
    view.root.setAttribute(
      "aria-label",
      `Output ${app.data.outputs.names[k]} over ${app.data.inputs.names[m]}, now ${number(here.y)} at ${unknown ? "a value that is not known" : number(app.x[m])}`,
    );
  }

  buildSurface() {
    this.inView = true;
    new IntersectionObserver((entries) => {
      this.inView = entries[entries.length - 1].isIntersecting;
      if (this.inView && this.stale) this.surface();
    }).observe(this.surfaceHost);
    const { app } = this,
      { names } = app.data.inputs;
    const choose = (place) => (m) => {
      this.pair[place] = m;
      this.surface();
    };
    byId("surface-x").append(inputSelect(names, this.pair[0], "Input across the surface", choose(0)));
    byId("surface-y").append(inputSelect(names, this.pair[1], "Input up the surface", choose(1)));
    this.canvas = el("canvas", { width: this.grid, height: this.grid, tabindex: 0, role: "img" });
    this.cross = el("i", { class: "cross" });
    this.legend = byId("surface-legend");
    byId("surface").append(this.canvas, this.cross);
    const go = (event) => {
      if (event.buttons !== 1) return;
      const box = this.canvas.getBoundingClientRect();
      this.aim((event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", go);
    this.canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
      if (!steps) return;
      event.preventDefault();
      const at = this.pair.map((m) => this.shareOf(m));
      this.aim(at[0] + steps[0] / 50, at[1] + steps[1] / 50);
    });
  }

  shareOf(m) {
    const { low, high } = this.app.data.inputs;
    return clamp((this.app.x[m] - low[m]) / (high[m] - low[m]) || 0, 0, 1);
  }

  aim(across, up) {
    const { app } = this,
      { low, high } = app.data.inputs,
      x = app.x.slice();
    [across, up].forEach((share, place) => {
      const m = this.pair[place];
      x[m] = this.rounded(m, low[m] + clamp(share, 0, 1) * (high[m] - low[m]));
    });
    app.move(x);
  }

  surface() {
    const { app, pair, grid: GRID } = this;
    const { low, high, names } = app.data.inputs;
    const k = app.output;
    // Not drawn while it is out of view, but as soon as it comes into view.
    this.stale = !this.inView;
    if (this.stale) return;
    const same = pair[0] === pair[1];
    const grids = pair.map((m) => evenly(low[m], high[m], GRID));
    const classes = app.data.classifies;
    // For classes the scores of all of them, which make the probability.
    const tables = (classes ? app.data.outputs.names.map((_, output) => output) : [k]).map((output) => {
      const table = new Float64Array(GRID * GRID);
      app.model.sweep(app.x, app.now, same ? [pair[0]] : pair, grids, output, (i, j, left, right, y) => {
        if (same) for (let row = 0; row < GRID; row++) table[row * GRID + i] = y;
        else table[(GRID - 1 - j) * GRID + i] = y;
      });
      return table;
    });
    const values = classes ? tables[k].map((_, place) => softmax(tables.map((table) => table[place]))[k]) : tables[0];
    const least = classes ? 0 : values.reduce((a, b) => Math.min(a, b)),
      largest = classes ? 1 : values.reduce((a, b) => Math.max(a, b));
    const context = this.canvas.getContext("2d"),
      image = context.createImageData(GRID, GRID);
    values.forEach((y, place) => {
      const [r, g, b] = shade((y - least) / (largest - least || 1));
      image.data.set([r, g, b, 255], 4 * place);
    });
    context.putImageData(image, 0, 0);
    this.cross.style.left = `${100 * this.shareOf(pair[0])}%`;
    this.cross.style.bottom = `${100 * this.shareOf(pair[1])}%`;
    this.canvas.setAttribute(
      "aria-label",
      `Output ${app.data.outputs.names[k]} over ${names[pair[0]]} and ${names[pair[1]]}, from ${number(least)} to ${number(largest)}. Arrow keys move both inputs.`,
    );
    write(byId("surface-kind"), classes ? "probability of" : "");
    write(byId("surface-legend-name"), classes ? "probability" : app.data.outputs.names[k]);
    write(byId("surface-x-name"), names[pair[0]]);
    write(byId("surface-y-name"), names[pair[1]]);
    const marks = [least, (least + largest) / 2, largest].map((v) => brief(v));
    ["surface-least", "surface-middle", "surface-largest"].forEach((id, i) => write(byId(id), marks[i]));
    const spans = {
      "surface-x-low": low[pair[0]],
      "surface-x-high": high[pair[0]],
      "surface-y-low": low[pair[1]],
      "surface-y-high": high[pair[1]],
    };
    for (const id in spans) write(byId(id), brief(spans[id]));
  }
}

// Pushes of the inputs: Shapley values of the step from the reference, the mean of the training data, to the point shown.
// They add up to the difference of the two outputs. For a class they are about its probability.

const ALL_ORDERS = 8; // up to so many inputs all subsets are computed, with more some orders and their reverses
const EVALUATIONS = 1500; // about, for the orders
const MOST_PUSHING = 200; // with more inputs that differ from the reference the panel is left out
const PUSHES_SHOWN = 8;

class PushPanel {
  constructor(app) {
    this.app = app;
    const { names, groups } = app.data.inputs,
      first = new Map(groups.map((group) => [group.first, group])),
      inside = new Set(groups.flatMap((group) => group.codes[0].map((_, i) => group.first + i)));
    // Inputs as people read them: those of a category together.
    this.inputs = names.flatMap((name, m) =>
      first.has(m)
        ? [{ name: first.get(m).name, places: first.get(m).codes[0].map((_, i) => m + i) }]
        : inside.has(m)
          ? []
          : [{ name, places: [m] }],
    );
    this.host = byId("pushes");
    this.soon();
  }

  // Drawn a moment after the last change: it takes many inferences.
  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.update(), 150);
  }

  value(x) {
    const { app } = this,
      outputs = app.model.infer(x).outputs.map((o) => o.y);
    return app.data.classifies ? softmax(outputs)[app.output] : outputs[app.output];
  }

  // The push of each input that differs from the reference.
  pushes(inputs, reference, x) {
    const count = inputs.length,
      found = new Float64Array(count),
      at = reference.slice(),
      put = (i, row) => inputs[i].places.forEach((m) => (at[m] = row[m]));
    if (count <= ALL_ORDERS) {
      const values = new Float64Array(1 << count),
        sizes = new Uint8Array(1 << count),
        share = [1 / count]; // of the subsets without an input, by their size
      for (let s = 1; s < count; s++) share.push((share[s - 1] * s) / (count - s));
      for (let subset = 0; subset < values.length; subset++) {
        for (let i = 0; i < count; i++) put(i, (subset >> i) & 1 ? x : reference);
        values[subset] = this.value(at);
        sizes[subset] = subset ? sizes[subset >> 1] + (subset & 1) : 0;
      }
      for (let subset = 0; subset < values.length; subset++)
        for (let i = 0; i < count; i++)
          if (!((subset >> i) & 1)) found[i] += share[sizes[subset]] * (values[subset | (1 << i)] - values[subset]);
      return found;
    }
    let seed = 1; // the same orders every time, so that equal points have equal pushes
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647,
      pairs = Math.max(1, Math.floor(EVALUATIONS / (2 * count))),
      order = Array.from({ length: count }, (_, i) => i);
    for (let pair = 0; pair < pairs; pair++) {
      for (let i = count - 1; i > 0; i--) {
        const j = Math.floor(random() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
      for (const way of [order, order.slice().reverse()]) {
        order.forEach((i) => put(i, reference));
        let before = this.value(at);
        for (const i of way) {
          put(i, x);
          const after = this.value(at);
          found[i] += (after - before) / (2 * pairs);
          before = after;
        }
      }
    }
    return found;
  }

  text(value, signed) {
    const { app } = this;
    if (app.data.classifies && !signed) return percent(value);
    const size = app.data.classifies ? `${(100 * Math.abs(value)).toFixed(1)} %` : app.figure(Math.abs(value), app.output);
    return (signed ? (value < 0 ? "−" : "+") : value < 0 ? "−" : "") + size;
  }

  // The value of input m now: a number, or the category whose first input it is.
  shown(m) {
    const { x } = this.app,
      group = this.app.inputs.groups.get(m);
    if (Number.isNaN(x[m])) return "not known";
    if (!group) return entered(x[m]);
    const place = group.codes.findIndex((code) => code.every((v, i) => v === x[m + i]));
    return place < 0 ? "other" : group.categories[place];
  }

  update() {
    const { app } = this,
      { x } = app,
      { reference } = app.data.inputs,
      // Without a change of a displayed digit an input is at its reference.
      differs = (m) => !(Math.abs(x[m] - reference[m]) < 6e-4 * (app.data.inputs.high[m] - app.data.inputs.low[m])),
      moved = this.inputs.filter((input) => input.places.some(differs));
    byId("pushes-panel").hidden = moved.length > MOST_PUSHING;
    if (moved.length > MOST_PUSHING) return;
    const base = this.value(reference),
      here = this.value(x),
      pushes = this.pushes(moved, reference, x),
      order = moved.map((_, i) => i).sort((a, b) => Math.abs(pushes[b]) - Math.abs(pushes[a])),
      most = Math.max(...pushes.map(Math.abs), 1e-300),
      name = app.data.outputs.names[app.output],
      what = app.data.classifies ? `The probability of ${name}` : name;
    write(
      byId("pushes-words"),
      moved.length
        ? `${what} is ${this.text(base)} at the mean of the training data and ${this.text(here)} here. The pushes add up to the difference.`
        : "All inputs are at the mean of the training data, from where pushes are counted: nothing pushes.",
    );
    const row = (label, value, push) => {
      const bar = el("i", { class: push < 0 ? "down" : "up" }),
        width = (50 * Math.min(Math.abs(push) / most, 1)).toFixed(2);
      bar.style.width = `${width}%`;
      bar.style.left = push < 0 ? `${50 - width}%` : "50%";
      return el(
        "tr",
        null,
        el("th", { scope: "row", title: label, text: label }),
        el("td", { class: "num at", title: value, text: value }),
        el("td", { class: "push" }, el("div", { class: "track" }, bar)),
        el("td", { class: "num", text: this.text(push, true) }),
      );
    };
    const rows = order.slice(0, PUSHES_SHOWN).map((i) => row(moved[i].name || "(no name)", this.shown(moved[i].places[0]), pushes[i])),
      rest = order.slice(PUSHES_SHOWN);
    if (rest.length) rows.push(row(`${plural(rest.length, "other")}`, "", rest.reduce((sum, i) => sum + pushes[i], 0)));
    this.host.replaceChildren(...rows);
  }
}

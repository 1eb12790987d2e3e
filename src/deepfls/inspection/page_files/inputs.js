// The panel of inputs: a slider and a number box for each number, a list for each category, a filter, and the rows of the
// data. A value that is not known is NaN: an empty box.

const STEPS = 1000; // positions of a slider
const SHOWN = 24; // inputs shown at first, and added by each click

class InputPanel {
  constructor(app) {
    this.app = app;
    this.shown = SHOWN;
    this.rows = new Map(); // by input, for a category by its first one
    this.groups = new Map(); // the category of an input
    for (const group of app.data.inputs.groups)
      for (let m = group.first; m < group.first + group.codes[0].length; m++) this.groups.set(m, group);
    this.list = byId("inputs");
    this.more = byId("more-inputs");
    this.filter = byId("filter");
    this.order = byId("order");
    this.count = byId("count");
    const many = app.system.M > 8;
    byId("finder").hidden = !many;
    this.order.value = many ? "influence" : "table";
    this.filter.addEventListener("input", () => {
      this.shown = SHOWN;
      app.choose();
    });
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.filter.value = "";
        app.choose();
      }
    });
    this.order.addEventListener("change", () => {
      app.rank();
      app.choose();
    });
    this.more.addEventListener("click", () => {
      this.shown += SHOWN;
      this.build();
    });
    byId("reset").addEventListener("click", () => app.move(app.start.slice()));
    this.buildSamples();
  }

  // Inputs that match the filter, in the chosen order.
  matching() {
    const { names } = this.app.data.inputs,
      query = this.filter.value.trim().toLowerCase();
    const base = this.order.value === "influence" ? this.app.ranked : names.map((_, m) => m);
    return query ? base.filter((m) => names[m].toLowerCase().includes(query)) : base;
  }

  build() {
    const first = (m) => (this.groups.has(m) ? this.groups.get(m).first : m),
      all = [...new Set(this.app.visible.map(first))],
      total = new Set(this.app.data.inputs.names.map((_, m) => first(m))).size,
      shown = all.slice(0, this.shown);
    this.rows.clear();
    this.list.replaceChildren(...shown.map((m) => (this.groups.has(m) ? this.choice(this.groups.get(m)) : this.row(m))));
    this.more.hidden = shown.length >= all.length;
    this.count.textContent =
      all.length === 0
        ? "No input has this in its name."
        : shown.length < all.length || all.length < total
          ? `${shown.length} of ${plural(total, "input")}`
          : plural(total, "input");
    this.update();
  }

  row(m) {
    const { names, low, high } = this.app.data.inputs,
      name = names[m] || "(no name)",
      id = `x${m}`;
    const slider = el("input", {
      type: "range",
      min: 0,
      max: STEPS,
      step: 1,
      id: `${id}s`,
      "aria-label": name,
      "data-input": m,
    });
    const box = el("input", { type: "number", step: "any", id, "aria-label": `${name}, value`, "data-input": m });
    const swing = el("span", { class: "swing", title: "How far the output moves over the range of this input, from here" });
    const note = el("span", { class: "note", hidden: true });
    slider.addEventListener("input", () => {
      const share = Number(slider.value) / STEPS;
      const value =
        share === 0
          ? low[m]
          : share === 1
            ? high[m]
            : Number((low[m] + share * (high[m] - low[m])).toFixed(decimalsFor(low[m], high[m])));
      this.app.moveOne(m, value);
    });
    box.addEventListener("input", () => {
      const value = box.valueAsNumber;
      const unknown = this.app.data.inputs.missing && box.value === "" && !box.validity.badInput;
      if (unknown || (Number.isFinite(value) && Math.abs(value) <= 1e150)) this.app.moveOne(m, value, box);
    });
    box.addEventListener("change", () => this.updateRow(m));
    const row = el(
      "div",
      { class: "input" },
      el("div", { class: "name" }, el("label", { for: id, title: name, text: name }), note),
      box,
      slider,
      el(
        "div",
        { class: "span" },
        el("span", { text: brief(low[m]) }),
        swing,
        el("span", { text: brief(high[m]) }),
      ),
    );
    const bar = el("i");
    swing.append(bar);
    this.rows.set(m, { slider, box, note, bar, row });
    return row;
  }

  // The control of a category, whose inputs stand side by side from the first one on.
  choice({ name, first, categories, codes }) {
    const names = this.app.data.inputs.missing ? [...categories, "(not known)"] : categories;
    const select = inputSelect(names, -1, name, (place) => {
      const x = this.app.x.slice();
      codes[0].forEach((_, i) => (x[first + i] = place < codes.length ? codes[place][i] : NaN));
      this.app.move(x);
    });
    select.id = `x${first}`;
    this.rows.set(first, { select, codes });
    const label = el("label", { for: select.id, title: name, text: name || "(no name)" });
    return el("div", { class: "input" }, el("div", { class: "name" }, label), select);
  }

  update(except) {
    for (const m of this.rows.keys()) this.updateRow(m, except);
  }

  updateRow(m, except) {
    const parts = this.rows.get(m);
    if (!parts) return;
    if (parts.select) {
      const place = parts.codes.findIndex((code) => code.every((v, i) => v === this.app.x[m + i]));
      parts.select.value = place < 0 && Number.isNaN(this.app.x[m]) ? parts.codes.length : place;
      return;
    }
    const { low, high } = this.app.data.inputs,
      value = this.app.x[m];
    parts.slider.classList.toggle("unknown", Number.isNaN(value));
    if (Number.isNaN(value)) {
      if (parts.box !== except) parts.box.value = "";
      parts.slider.setAttribute("aria-valuetext", "not known");
      parts.note.hidden = false;
      write(parts.note, "not known");
      parts.note.classList.add("calm");
      return;
    }
    const place = clamp(Math.round(((value - low[m]) / (high[m] - low[m])) * STEPS), 0, STEPS);
    if (Number(parts.slider.value) !== place) parts.slider.value = place;
    parts.slider.setAttribute("aria-valuetext", String(value));
    parts.slider.style.setProperty("--at", `${(100 * place) / STEPS}%`);
    if (parts.box !== except && parts.box.value !== String(value)) parts.box.value = String(value);
    const constant = this.app.data.inputs.constant[m],
      outside = constant ? value !== this.app.start[m] : value < low[m] || value > high[m];
    parts.note.hidden = !outside && !constant;
    write(parts.note, outside ? "outside the training data" : "constant in the training data");
    parts.note.classList.toggle("calm", !outside);
  }

  showSwings(swings, largest) {
    for (const [m, parts] of this.rows) if (parts.bar) parts.bar.style.width = `${(100 * (swings.get(m) || 0)) / (largest || 1)}%`;
  }

  buildSamples() {
    const { data } = this.app.data;
    if (!data || !data.sample.length) return;
    byId("samples").hidden = false;
    const pick = byId("sample"),
      last = data.sample.length;
    pick.max = last;
    const go = (row) => {
      const place = clamp(Math.round(row) || 1, 1, last);
      pick.value = place;
      this.app.sample = place - 1;
      this.app.move(
        data.sample[place - 1].map((v) => v ?? NaN),
        true,
      );
    };
    pick.addEventListener("change", () => go(pick.valueAsNumber));
    byId("previous").addEventListener("click", () => go((this.app.sample ?? 0) <= 0 ? last : this.app.sample));
    byId("next").addEventListener("click", () =>
      go(this.app.sample === null || this.app.sample + 1 >= last ? 1 : this.app.sample + 2),
    );
    byId("sample-count").textContent = `of ${last}`;
  }
}

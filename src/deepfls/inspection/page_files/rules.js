// The table of rules (sets with the current value, firing, consequent, contribution) and the rules as sentences.

const ROWS = 40; // rules shown before a click on "Show all"

class RulePanel {
  constructor(app) {
    this.app = app;
    this.sort = { key: "firing", descending: true };
    this.first = 0; // column of the first input shown
    this.all = false;
    this.body = byId("rules-body");
    this.head = byId("rules-head");
    byId("earlier").addEventListener("click", () => this.page(-1));
    byId("later").addEventListener("click", () => this.page(1));
    byId("all-rules").addEventListener("click", () => {
      this.all = true;
      this.build();
    });
    byId("sentences").addEventListener("toggle", () => this.sentences());
    window.addEventListener("beforeprint", () => {
      byId("sentences").open = true;
      this.sentences();
    });
    new ResizeObserver(() => {
      const columns = this.columns();
      if (columns !== this.drawn) this.build();
    }).observe(byId("rules-table"));
  }

  columns() {
    return clamp(Math.floor((byId("rules-table").clientWidth - 380) / 104), 2, 8);
  }

  // Inputs that match the filter, those of a category once; the most important first if not all fit.
  matching() {
    const { app } = this,
      { groups } = app.inputs,
      { ranked } = app.data.inputs,
      all = [...new Set(app.visible.map((m) => (groups.has(m) ? groups.get(m).first : m)))];
    if (all.length <= this.columns() || !ranked || app.inputs.order.value === "influence") return all;
    const places = new Map(ranked.map((m, place) => [m, place]));
    return all.sort((a, b) => places.get(a) - places.get(b));
  }

  page(direction) {
    const step = this.columns(),
      count = this.matching().length;
    this.first = clamp(this.first + direction * step, 0, Math.max(0, Math.ceil(count / step) * step - step));
    this.build();
  }

  value(key, p) {
    const { app } = this,
      { K } = app.system;
    if (key === "rule") return p;
    if (key === "share") return app.system.data.shares ? app.system.data.shares[p] : 0;
    if (key === "firing") return app.now.logUpper[p];
    if (key === "says") return app.now.consequents[p * K + app.output];
    return app.weights.crisp[p];
  }

  ordered() {
    const places = Array.from({ length: this.app.system.P }, (_, p) => p),
      sign = this.sort.descending ? -1 : 1;
    return places.sort((a, b) => sign * (this.value(this.sort.key, a) - this.value(this.sort.key, b)) || a - b);
  }

  heading(key, text, title) {
    const active = this.sort.key === key;
    const button = el("button", {
      type: "button",
      "data-sort": key,
      title,
      text,
      onclick: () => {
        this.sort = { key, descending: active ? !this.sort.descending : key !== "rule" };
        this.build();
        this.head.querySelector(`[data-sort="${key}"]`).focus();
      },
    });
    return el(
      "th",
      { scope: "col", class: key, "aria-sort": active ? (this.sort.descending ? "descending" : "ascending") : "none" },
      button,
    );
  }

  build() {
    const { app } = this,
      step = this.columns();
    this.drawn = step;
    const all = this.matching();
    if (this.first >= all.length) this.first = 0;
    this.inputs = all.slice(this.first, this.first + step);
    const { low, high } = app.data.inputs,
      names = app.data.inputs.names.map((name, m) => (app.inputs.groups.has(m) ? app.inputs.groups.get(m).name : name));
    byId("pager").hidden = all.length <= step;
    byId("earlier").disabled = this.first === 0;
    byId("later").disabled = this.first + step >= all.length;
    byId("page-words").textContent = `Inputs ${this.first + 1} to ${this.first + this.inputs.length} of ${all.length}`;
    this.values = this.inputs.map(() => el("span", { class: "at" }));
    const output = app.data.outputs.names[app.output];
    this.head.replaceChildren(
      el(
        "tr",
        null,
        this.heading("rule", "Rule", "Sort by number"),
        ...(app.system.data.shares ? [this.heading("share", "Share", "Share of the firing on the training data")] : []),
        ...this.inputs.map((m, j) =>
          el(
            "th",
            { scope: "col", class: "set", title: names[m] },
            el("span", { class: "clip", text: names[m] || "(no name)" }),
            this.values[j],
          ),
        ),
        this.heading("firing", "Firing", "Lower and upper firing strength"),
        this.heading("says", "Says", `Consequent of the rule for ${output}`),
        this.heading("adds", "Weight", "Share of the rule in the output: the output is the mean of what the rules say, by weight"),
      ),
    );
    const order = this.ordered(),
      shown = this.all ? order : order.slice(0, ROWS);
    this.rows = shown.map((p) => this.row(p, low, high));
    this.body.replaceChildren(...this.rows.map((r) => r.root));
    byId("all-rules").hidden = shown.length === order.length;
    byId("all-rules").textContent = `Show all ${order.length} rules`;
    this.total = byId("rules-sum");
    this.order = order.join();
    this.update();
  }

  row(p, low, high) {
    const { app } = this;
    const numbers = this.inputs.filter((m) => !app.inputs.groups.has(m)),
      cells = numbers.map((m) => this.cell(p, m, low[m], high[m]));
    const parts = {
      p,
      cells,
      lower: el("i", { class: "lower" }),
      upper: el("i", { class: "upper" }),
      firing: el("span", { class: "small" }),
      consequent: el("td", { class: "num" }),
      contribution: el("span"),
      weight: el("i"),
    };
    parts.root = el(
      "tr",
      null,
      el("th", { scope: "row", text: String(p + 1) }),
      app.system.data.shares ? el("td", { class: "num small", text: percent(app.system.data.shares[p]) }) : null,
      ...this.inputs.map((m) => {
        const c = cells.find((cell) => cell.m === m),
          { active, terms, categories } = app.system.data;
        if (!c) {
          const text = categories[p][app.data.inputs.groups.indexOf(app.inputs.groups.get(m))];
          return el("td", { class: "set" }, el("span", { class: text === "any" ? "any" : "category", text }));
        }
        if (!active[p][c.m]) return el("td", { class: "set" }, el("span", { class: "any", text: "any" }));
        const word = terms ? el("span", { class: "term", text: terms[p][c.m] }) : null;
        return el("td", { class: "set" }, c.root, word);
      }),
      el("td", { class: "firing" }, el("div", { class: "bar" }, parts.upper, parts.lower), parts.firing),
      parts.consequent,
      el("td", { class: "num adds" }, parts.contribution, el("div", { class: "bar" }, parts.weight)),
    );
    return parts;
  }

  // One set: its footprint, drawn once, and a mark at the current value, moved by each update.
  cell(p, m, low, high) {
    const { system } = this.app,
      upper = [],
      lower = [],
      shares = Array.from({ length: 41 }, (_, k) => k / 40);
    // A set may be narrower than the steps between these.
    for (let step = -3; step <= 3; step++) {
      const at = system.centers[p * system.M + m] + (step * system.upperSigmas[p * system.M + m]) / Math.sqrt(system.power),
        share = (at - low) / (high - low);
      if (share > 0 && share < 1) shares.push(share);
    }
    for (const share of shares.sort((a, b) => a - b)) {
      const [l, u] = system.grades(p, m, low + share * (high - low));
      upper.push([100 * share, 38 - 36 * u]);
      lower.push([100 * share, 38 - 36 * l]);
    }
    const line = svg("line", { y1: 0, y2: 40, class: "now" }),
      mark = svg("line", { class: "grade" });
    const root = svg(
      "svg",
      { viewBox: "0 0 100 40", preserveAspectRatio: "none", class: "mini", "aria-hidden": "true" },
      svg("path", {
        d:
          path(
            lower.concat([
              [100, 38],
              [0, 38],
            ]),
          ) + "Z",
        class: "under",
      }),
      svg("path", { d: path(upper.concat(lower.slice().reverse())) + "Z", class: "footprint" }),
      svg("path", { d: path(upper), class: "edge" }),
      line,
      mark,
    );
    return { p, m, low, high, root, line, mark };
  }

  update() {
    const { app } = this,
      { K } = app.system,
      k = app.output;
    // Rows are sorted again 400 ms after the last change: rows that move during a drag are hard to follow.
    clearTimeout(this.timer);
    if (this.sort.key !== "rule" && this.sort.key !== "share")
      this.timer = setTimeout(() => {
        if (this.ordered().join() !== this.order) this.build();
      }, 400);
    this.inputs.forEach((m, j) => write(this.values[j], app.pushes.shown(m)));
    const most = Math.max(...app.weights.crisp);
    for (const row of this.rows) {
      for (const c of row.cells) {
        const value = app.x[c.m],
          x = Number.isNaN(value) ? -9 : clamp((100 * (value - c.low)) / (c.high - c.low), 0, 100); // -9: out of sight
        if (Object.is(c.drawn, value)) continue;
        c.drawn = value;
        const [lower, upper] = app.system.grades(c.p, c.m, value);
        set(c.line, { x1: x, x2: x });
        set(c.mark, { x1: x, x2: x, y1: 38 - 36 * lower + 0.5, y2: 38 - 36 * upper - 0.5 });
      }
      const low = Math.exp(app.now.logLower[row.p]),
        up = Math.exp(app.now.logUpper[row.p]),
        consequent = app.now.consequents[row.p * K + k],
        w = app.weights.crisp[row.p];
      row.lower.style.transform = `scaleX(${low})`;
      row.upper.style.transform = `scaleX(${up})`;
      const small = (f) => (f < 0.0005 ? "<0.001" : f.toFixed(3));
      write(row.firing, [...new Set(app.system.interval ? [small(low), small(up)] : [small(up)])].join(" – "));
      write(row.consequent, app.figure(consequent, k));
      write(row.contribution, percent(w));
      row.weight.style.transform = `scaleX(${w / most})`;
      row.root.classList.toggle("idle", w < 0.001);
    }
    const score = app.data.classifies ? "score " : "";
    const own = `averaged by weight: ${score}${app.figure(app.now.own[k].y, k)}`,
      mean = app.systemWords ? ` The mean of the systems: ${app.figure(app.now.outputs[k].y, k)}.` : "";
    write(byId("rules-note"), app.system.data.note);
    write(this.total, `${plural(app.system.P, "rule")}${app.systemWords ? ` of ${app.systemWords}` : ""}, ${own}.${mean}`);
  }

  sentences() {
    const host = byId("sentence-list");
    if (!byId("sentences").open) return;
    const { app } = this,
      { sentences, shares } = app.system.data;
    const order = shares
      ? this.ordered()
          .slice()
          .sort((a, b) => shares[b] - shares[a])
      : this.ordered();
    const word = (text) => el("span", { class: "word", text }),
      muted = (text) => el("span", { class: "muted", text });
    const items = order.slice(0, this.all ? order.length : ROWS).map((p) => {
      const { conditions, any, more, outputs } = sentences[p],
        item = el("li", { value: p + 1 });
      conditions.forEach(([name, place, numbers], i) => {
        item.append(word(i ? " AND " : "IF "), `${name} is `, el("b", { text: place }), place && numbers ? ", " : "", numbers);
      });
      if (!conditions.length) item.append(word("IF "), "anything");
      outputs.forEach((text, k) => item.append(word(k ? " AND " : " THEN "), text));
      if (any.length) item.append(muted(` Almost any value: ${any.join(", ")}.`));
      if (more) item.append(muted(` And ${plural(more, "input")} more.`));
      if (shares) item.append(muted(` (${percent(shares[p])} of the firing)`));
      return item;
    });
    host.replaceChildren(...items);
    byId("vocabulary").replaceChildren(
      ...app.system.data.vocabulary.map(([name, terms]) =>
        el("li", null, el("b", { text: name }), el("span", { text: `: ${terms.map(([word, text]) => `${word}, ${text}`).join("; ")}` })),
      ),
    );
  }
}

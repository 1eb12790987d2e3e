// The outputs: a gauge with the type-reduced set for each, and the Karnik-Mendel switch points of the chosen output.

const STEMS = 80; // rules drawn in the switch view: those of the largest weight

class OutputPanel {
  constructor(app) {
    this.app = app;
    const { names } = app.data.outputs;
    this.gauges = names.map((name, k) => this.gauge(name || "(no name)", k));
    byId("outputs").classList.toggle("several", names.length > 1);
    byId("interval-key").hidden = app.data.interval === null && !(app.data.data && app.data.data.intervals);
    byId("gauges").replaceChildren(...this.gauges.map((g) => g.root));
    const host = byId("switch");
    chart(host, app.model.interval ? 280 : 160, (state) => {
      this.view = state;
      this.prepare();
    });
    this.prepared = true;
    this.update();
  }

  gauge(name, k) {
    const { app } = this,
      several = app.system.K > 1;
    const g = {
      value: el("output", { class: "value", "aria-live": "off" }),
      interval: el("span", { class: "setext" }),
      set: el("span", { class: "small" }),
      band: el("i", { class: "band" }),
      calibrated: el("i", { class: "calibrated", hidden: true }),
      mark: el("i", { class: "mark" }),
      truth: el("i", { class: "truth", hidden: true }),
      scale: el("div", { class: "scale", "aria-hidden": "true" }),
      low: app.data.outputs.low[k],
      high: app.data.outputs.high[k],
    };
    const title = several
      ? el("button", {
          class: "pick",
          type: "button",
          title: "Show this output below",
          text: name,
          onclick: () => app.pick(k),
        })
      : el("span", { class: "pick", text: name, title: name });
    g.title = title;
    g.root = el(
      "div",
      { class: "gauge" },
      el("div", { class: "reading" }, title, g.value, g.interval, g.set),
      el("div", { class: "track" }, g.band, g.calibrated, g.truth, g.mark),
      g.scale,
    );
    return g;
  }

  update() {
    if (!this.prepared) return;
    const { app } = this,
      { outputs } = app.now,
      chances = app.data.classifies ? softmax(outputs.map((o) => o.y)) : null;
    this.gauges.forEach((g, k) => {
      const { left, right, y } = outputs[k];
      const interval = app.interval(k),
        least = interval ? Math.min(left, interval[0]) : left,
        most = interval ? Math.max(right, interval[1]) : right;
      const span = g.high - g.low;
      if ((!chances && (least < g.low || most > g.high)) || !g.drawn) {
        // A scale only grows: if it followed the output, the mark would not move.
        g.low = Math.min(g.low, least - 0.02 * span);
        g.high = Math.max(g.high, most + 0.02 * span);
        if (chances) [g.low, g.high] = [0, 1];
        const marks = ticks(g.low, g.high, chances ? 4 : 6);
        g.scale.replaceChildren(
          ...marks.map((v) => {
            const t = el("span", { text: chances ? `${Math.round(100 * v)} %` : tickText(v, marks) });
            t.style.left = `${this.at(g, v)}%`;
            return t;
          }),
        );
        g.drawn = true;
      }
      // For a class the probability is shown first.
      const ends = app.model.interval ? `type-reduced set ${app.figure(left, k)} to ${app.figure(right, k)}` : "";
      write(g.value, chances ? percent(chances[k]) : app.figure(y, k));
      const inSet = app.inSet(k),
        coverage = app.data.coverage === null ? "" : percent(app.data.coverage).replace(".0", "");
      write(
        g.interval,
        interval
          ? `${coverage} interval ${app.figure(interval[0], k)} to ${app.figure(interval[1], k)}`
          : inSet
            ? `in the ${coverage} set`
            : "",
      );
      write(g.set, chances ? `score ${app.figure(y, k)}${ends ? `, ${ends}` : ""}` : ends);
      g.calibrated.hidden = !interval;
      if (interval) {
        g.calibrated.style.left = `${this.at(g, interval[0])}%`;
        g.calibrated.style.width = `${this.at(g, interval[1]) - this.at(g, interval[0])}%`;
      }
      g.root.classList.toggle("first", chances !== null && chances[k] === Math.max(...chances));
      // The scale of a class is its probability, in which the type-reduced set of its score has no place.
      g.band.hidden = chances !== null;
      g.band.style.left = `${this.at(g, left)}%`;
      g.band.style.width = `${this.at(g, right) - this.at(g, left)}%`;
      g.mark.style.left = `${this.at(g, chances ? chances[k] : y)}%`;
      g.root.classList.toggle("chosen", app.system.K > 1 && k === app.output);
      if (app.system.K > 1) g.title.setAttribute("aria-pressed", String(k === app.output));
      const truth = app.truth(k);
      g.truth.hidden = truth === null;
      if (truth !== null) {
        g.truth.style.left = `${clamp(this.at(g, truth), 0, 100)}%`;
        g.truth.title = `true value ${number(truth)}`;
      }
    });
    byId("true-key").hidden = app.truth(app.output) === null;
    this.updateFamiliarity();
    this.drawSwitch();
  }

  // How much the rows that the model was trained on are like this one.
  updateFamiliarity() {
    const share = this.app.model.familiarity(this.app.x),
      host = byId("familiar");
    host.hidden = share === null;
    if (share === null) return;
    const words =
      share >= 0.5 ? "like many training rows" : share >= 0.05 ? "like few training rows" : "unlike all training rows: a guess";
    byId("familiar-bar").style.transform = `scaleX(${share})`;
    write(byId("familiar-words"), `${percent(share)}, ${words}`);
    host.classList.toggle("warn", share < 0.05);
  }

  at(g, value) {
    return (100 * (value - g.low)) / (g.high - g.low || 1);
  }

  // Elements of the switch view: created once, moved by each update.
  prepare() {
    const { P } = this.app.system,
      ends = this.app.system.interval ? ["left", "right"] : ["crisp"];
    this.axis = svg("g");
    this.strips = ends.map((end) => {
      const strip = {
        end,
        shade: svg("rect", { class: "beyond" }),
        line: svg("line", { class: "switch" }),
        label: svg("text", { class: "tick" }),
        base: svg("line", { class: "axis" }),
        rules: [],
      };
      strip.group = svg("g", null, strip.shade, strip.base, strip.line);
      for (let place = 0; place < Math.min(P, STEMS); place++) {
        const rule = {
          bar: svg("line", { class: "interval" }),
          stem: svg("line", { class: "stem" }),
          dot: svg("circle", { class: "dot" }),
          tag: svg("text", { class: "tag" }),
          title: svg("title"),
        };
        strip.group.append(svg("g", null, rule.title, rule.bar, rule.stem, rule.dot, rule.tag));
        strip.rules.push(rule);
      }
      strip.group.append(strip.label);
      return strip;
    });
    this.view.root.replaceChildren(this.axis, ...this.strips.map((s) => s.group));
    if (this.prepared) this.drawSwitch();
  }

  drawSwitch() {
    const { app, view } = this,
      { P, K } = app.system,
      k = app.output,
      { left, right, y } = app.now.own[k];
    if (!view || !view.width || !this.strips) return;
    const weights = app.weights,
      { low, up } = app.now.firing,
      consequents = Array.from({ length: P }, (_, p) => app.now.consequents[p * K + k]);
    // The axis spans the rules with a weight above 0.01: the consequents of other rules may be far away.
    const counts = consequents.filter((_, p) => weights.crisp[p] > 0.01);
    let from = Math.min(left, ...counts),
      to = Math.max(right, ...counts);
    // Rules that say the same up to rounding need an axis too.
    const margin = to - from > 1e-9 * Math.abs(y) ? 0.08 * (to - from) : Math.abs(y) * 0.01 || 1;
    from -= margin;
    to += margin;
    const box = { left: 26, right: view.width - 8 },
      X = (v) => box.left + ((clamp(v, from, to) - from) / (to - from)) * (box.right - box.left);
    const height = (view.height - 44) / this.strips.length,
      peak = Math.max(...up);
    const across = ticks(from, to, Math.max(2, view.width / 90));
    const inside = across.filter((v) => X(v) > 24 && X(v) < view.width - 24);
    const middle = (view.height - 44) / 2,
      score = app.data.classifies ? "score of " : "";
    this.axis.replaceChildren(
      ...inside.map((v) => svg("text", { x: X(v), y: view.height - 26, class: "tick mid", text: tickText(v, across) })),
      svg("text", {
        x: (box.left + box.right) / 2,
        y: view.height - 8,
        class: "tick mid",
        text: `what the rules say: ${score}${shorten(app.data.outputs.names[k], 30)}`,
      }),
      svg("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, class: "tick mid", text: "firing" }),
    );
    let shown = consequents.map((_, p) => p);
    if (P > STEMS) shown = shown.sort((a, b) => weights.crisp[b] - weights.crisp[a]).slice(0, STEMS);
    view.root.setAttribute("aria-label", "Consequents and weights of the rules; the sentence below gives the switch points");
    this.strips.forEach((strip, place) => {
      const bottom = (place + 1) * height - 2,
        tall = height - 46,
        end = strip.end === "left" ? left : strip.end === "right" ? right : y;
      const beyond = strip.end === "left" ? weights.leftUpper : strip.end === "right" ? weights.rightUpper : null;
      const H = (f) => bottom - (f / peak) * tall;
      set(strip.base, { x1: box.left, x2: box.right, y1: bottom, y2: bottom });
      set(strip.line, { x1: X(end), x2: X(end), y1: place * height + 6, y2: bottom });
      if (beyond) {
        const first = strip.end === "left" ? box.left : X(end),
          last = strip.end === "left" ? X(end) : box.right;
        set(strip.shade, {
          x: first,
          y: place * height + 6,
          width: Math.max(last - first, 0),
          height: bottom - place * height - 6,
        });
      }
      const roomy = strip.end === "left" ? X(end) < view.width * 0.55 : X(end) < view.width * 0.45;
      set(strip.label, {
        x: X(end) + (roomy ? 6 : -6),
        y: place * height + 18,
        class: roomy ? "tick strong" : "tick strong end",
      });
      write(strip.label, strip.end === "crisp" ? `y = ${app.figure(end, k)}` : `y ${strip.end} = ${app.figure(end, k)}`);
      const tags = []; // places of the numbers, so that none is written over another
      strip.rules.forEach((rule, at) => {
        const p = shown[at];
        const weight = beyond ? (beyond[p] ? up[p] : low[p]) : up[p],
          x = X(consequents[p]),
          off = consequents[p] < from || consequents[p] > to;
        set(rule.bar, { x1: x, x2: x, y1: H(low[p]), y2: H(up[p]) });
        set(rule.stem, { x1: x, x2: x, y1: bottom, y2: H(weight) });
        set(rule.dot, { cx: x, cy: H(weight), r: off ? 2 : 4, class: beyond && beyond[p] ? "dot upper" : "dot" });
        // Only rules with a weight above 0.04 are numbered: more numbers would overlap.
        const top = Math.min(H(weight), H(up[p])) - 7,
          free = tags.every(([a, b]) => Math.abs(a - x) > 13 || Math.abs(b - top) > 11),
          tagged = !off && weights.crisp[p] > 0.04 && free;
        write(rule.tag, tagged ? String(p + 1) : "");
        if (tagged) {
          set(rule.tag, { x, y: top });
          tags.push([x, top]);
        }
        write(
          rule.title,
          `rule ${p + 1}: consequent ${number(consequents[p])}, weight ${percent(strip.end === "crisp" ? weights.crisp[p] : weights[strip.end][p])}`,
        );
      });
    });
    const words = byId("switch-words");
    write(byId("switch-system"), app.systemWords);
    if (!app.system.interval)
      write(
        words,
        "Across: what the rules say; upwards: how strongly they fire. The output is the balance point of the rules.",
      );
    else {
      const atLeft = weights.leftUpper.filter(Boolean).length,
        atRight = weights.rightUpper.filter(Boolean).length;
      write(
        words,
        `Across: what the rules say; upwards: their firing, lower to upper. Switch points: at y left, ${atLeft} of ${plural(P, "rule")} at or below it have their upper firing as weight, the others their lower; at y right, ${atRight} at or above it.`,
      );
    }
  }
}

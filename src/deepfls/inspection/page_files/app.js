// State of the page: one point x, one chosen output, and the panels that show them.

class App {
  constructor(data) {
    this.data = data;
    this.model = new Model(data, data.systems);
    this.number = 0; // of the system whose rules are shown
    // The model that was calibrated, where it is not that of the predictions.
    const { interval } = data;
    this.calibrated = interval && interval.systems ? new Model(data, interval.systems) : this.model;
    this.output = 0;
    this.sample = null;
    this.start = data.inputs.start.slice();
    this.x = this.start.slice();
    this.follows = data.classifies; // the chosen class is the predicted one, until one is chosen by hand
    this.compute();
    this.follow();
    this.rank();
    this.visible = [];
    this.inputs = new InputPanel(this);
    this.outputs = new OutputPanel(this);
    this.pushes = new PushPanel(this);
    this.rules = new RulePanel(this);
    this.response = new ResponsePanel(this);
    this.choose();
    if (this.model.planes) this.slider();
    if (this.model.systems.length > 1) this.chooser();
    buildRecords(this);
    this.swingSoon = () => {
      clearTimeout(this.swingTimer);
      this.swingTimer = setTimeout(() => this.swings(), 120);
    };
    this.swings();
  }

  // The system whose rules, sets and switch points are shown.
  get system() {
    return this.model.systems[this.number];
  }

  // Where there are several systems: which of them is shown.
  get systemWords() {
    const count = this.model.systems.length;
    return count > 1 ? `system ${this.number + 1} of ${count}` : "";
  }

  // Choose the predicted class; true if that is another one than before.
  follow() {
    const scores = this.now.outputs.map((o) => o.y),
      best = scores.indexOf(Math.max(...scores));
    if (!this.follows || best === this.output) return false;
    this.output = best;
    this.compute();
    return true;
  }

  compute() {
    const now = this.model.infer(this.x),
      shown = now.each[this.number];
    // Outputs of the model; firing, consequents and `own` outputs of the system that is shown.
    this.now = { ...shown, ...now, own: shown.outputs };
    const { left, right } = shown.outputs[this.output];
    this.weights = this.system.weights(this.now.firing, this.now.consequents, this.output, left, right);
  }

  // The control that chooses the system whose rules are shown.
  chooser() {
    const names = this.model.systems.map((s, i) => `${i + 1}: ${plural(s.P, "rule")}`);
    byId("systems").hidden = false;
    byId("system-choice").append(
      inputSelect(names, 0, "System whose rules are shown", (number) => {
        this.number = number;
        this.compute();
        this.outputs.prepare();
        this.rules.all = false;
        this.rules.build();
        this.rules.sentences();
      }),
    );
  }

  // The control that chooses the plane whose sets and ends are shown, from the Type-1 system to the widest plane.
  slider() {
    const control = byId("plane"),
      show = () => {
        const t = Number(control.value),
          alpha = Math.pow(0.01, t * t);
        for (const system of this.model.systems) system.t = t;
        write(byId("plane-words"), `α = ${alpha.toPrecision(2)}`);
      };
    byId("planes").hidden = false;
    control.addEventListener("input", () => {
      show();
      this.refresh(null);
      this.rules.build();
    });
    show();
  }

  // The calibrated interval of output k here: of a row of the data as it was computed, else from the calibrated system.
  interval(k) {
    const { data, interval } = this.data;
    if (data && data.intervals && this.sample !== null) return data.intervals[this.sample].map((end) => end[k]);
    if (!interval) return null;
    const now = this.calibrated === this.model ? this.now : this.calibrated.infer(this.x),
      { left, right, y } = now.outputs[k],
      gain = interval.gain[k],
      reach = interval.reach[k],
      crisp = this.now.outputs[k].y;
    return [Math.min(y - gain * (y - left) - reach, crisp), Math.max(y + gain * (right - y) + reach, crisp)];
  }

  // Whether class k is in the calibrated set of the row of the data that is shown; null where there is none.
  inSet(k) {
    const { data } = this.data;
    return data && data.sets && this.sample !== null ? data.sets[this.sample][k] : null;
  }

  // A value of output k with the number of decimals that its scale needs.
  figure(value, k) {
    const { low, high } = this.data.outputs;
    return fixed(value, decimalsFor(low[k], high[k]));
  }

  // Largest change of the output over the range of input m, the other inputs held.
  swing(m) {
    const { low, high } = this.data.inputs;
    if (this.data.inputs.constant[m]) return 0;
    let least = Infinity,
      largest = -Infinity;
    this.model.sweep(this.x, this.now, [m], [evenly(low[m], high[m], 7)], this.output, (i, j, left, right, y) => {
      least = Math.min(least, y);
      largest = Math.max(largest, y);
    });
    return largest - least;
  }

  rank() {
    if (this.data.inputs.ranked && !this.ranked) {
      this.ranked = this.data.inputs.ranked.slice(); // by importance at first
      return;
    }
    const swings = this.data.inputs.names.map((_, m) => this.swing(m));
    this.ranked = swings.map((_, m) => m).sort((a, b) => swings[b] - swings[a] || a - b);
  }

  swings() {
    const found = new Map();
    for (const m of this.inputs.rows.keys()) found.set(m, this.swing(m));
    this.inputs.showSwings(found, Math.max(...found.values(), 0));
  }

  // Rebuild the panels for the inputs that match the filter.
  choose() {
    this.visible = this.inputs.matching();
    this.inputs.build();
    this.rules.first = 0;
    this.rules.build();
    this.rules.sentences();
    if (this.swingSoon) this.swingSoon();
  }

  // The true value of output k if a row of the data is shown, else null.
  truth(k) {
    const { data } = this.data;
    if (!data || !data.truth || this.sample === null || this.data.classifies) return null;
    return data.truth[this.sample][k];
  }

  moveOne(m, value, box) {
    const x = this.x.slice();
    x[m] = value;
    this.move(x, false, box);
  }

  move(x, ofSample = false, box = null) {
    this.x = x;
    if (!ofSample) {
      this.sample = null;
      byId("sample").value = "";
    }
    this.refresh(box);
  }

  pick(k) {
    this.follows = false;
    this.output = k;
    this.refresh(null);
    this.rules.build();
  }

  refresh(box) {
    this.compute();
    const other = this.follow();
    this.inputs.update(box);
    this.outputs.update();
    if (other) this.rules.build();
    else this.rules.update();
    this.response.update();
    this.swingSoon();
    this.pushes.soon();
    this.words();
  }

  // Number and true values of the row of the data that is shown.
  words() {
    const { sample } = this;
    const { data } = this.data;
    if (sample === null) {
      write(byId("sample-words"), "");
      return;
    }
    const values = data.truth ? data.truth[sample].map((v) => (typeof v === "number" ? number(v) : v)).join(", ") : null;
    write(byId("sample-words"), `row ${data.places[sample]} of the data${values === null ? "" : `, true: ${values}`}`);
  }
}

function begin() {
  const app = new App(JSON.parse(byId("system").textContent));
  const theme = byId("theme");
  theme.addEventListener("change", () => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !byId("finder").hidden && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId("filter").focus();
    }
  });
  // For the console and for tests: outputs of any point, computed as the page computes them.
  window.deepfls = {
    infer: (x) => app.model.infer(x).outputs,
    familiarity: (x) => app.model.familiarity(x),
    weights: (x, k) => {
      const now = app.system.infer(x),
        { left, right } = now.outputs[k];
      return app.system.weights(now.firing, now.consequents, k, left, right);
    },
    pushes: (x) => {
      const { inputs } = app.pushes;
      return [...app.pushes.pushes(inputs, app.data.inputs.reference, x)];
    },
    move: (x) => app.move(x.slice()),
    x: () => app.x.slice(),
  };
  document.documentElement.dataset.ready = "1";
}

begin();

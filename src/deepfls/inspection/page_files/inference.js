// The system in float64: firing, consequents, Karnik-Mendel type reduction. The formulas are those of docs/maths.md, the
// numerical constants those of the Python package, from the payload.

function average(weights, y, n) {
  let numerator = 0,
    denominator = 0;
  for (let p = 0; p < n; p++) {
    numerator += weights[p] * y[p];
    denominator += weights[p];
  }
  return numerator / denominator;
}

// The ends of the type-reduced set by Newton sweeps on the residual, separately for each end: no sort, and no loss of light
// rules beside heavy ones. An end is final when it no longer moves outwards.
function endPoints(low, up, y, n, maxSweeps) {
  let left = average(up, y, n),
    right = left;
  for (let sweep = 0; sweep < maxSweeps; sweep++) {
    let leftResidual = 0,
      leftSum = 0,
      rightResidual = 0,
      rightSum = 0;
    for (let p = 0; p < n; p++) {
      const leftWeight = y[p] < left ? up[p] : low[p],
        rightWeight = y[p] > right ? up[p] : low[p];
      leftResidual += leftWeight * (y[p] - left);
      leftSum += leftWeight;
      rightResidual += rightWeight * (y[p] - right);
      rightSum += rightWeight;
    }
    const newLeft = left + leftResidual / leftSum,
      newRight = right + rightResidual / rightSum;
    const moved = newLeft < left || newRight > right;
    if (newLeft < left) left = newLeft;
    if (newRight > right) right = newRight;
    if (!moved) break;
  }
  return [Math.min(left, right), Math.max(left, right)];
}

class System {
  constructor(data) {
    this.data = data;
    this.interval = data.kind !== "t1";
    // Planes of a General Type-2 system: shares in the crisp output and widths; sets and ends shown are those of width t.
    this.planes = data.alphas ? planeShares(data.alphas) : null;
    this.t = 1;
    this.P = data.centers.length;
    this.M = data.inputs.names.length;
    this.K = data.outputs.names.length;
    this.power = data.tnorm === "product" ? 1 : 1 / this.M; // of each grade in the firing
    const flat = (rows) => Float64Array.from(rows.flat(2));
    this.centers = flat(data.centers);
    this.upperSigmas = flat(data.upper_sigmas);
    this.lowerSigmas = this.interval ? flat(data.lower_sigmas) : this.upperSigmas;
    this.intercepts = flat(data.intercepts); // rules x outputs
    this.slopes = data.slopes ? flat(data.slopes) : null; // rules x outputs x inputs
    this.logHeights = data.log_heights ? flat(data.log_heights) : null;
    this.logHeight = new Float64Array(this.P); // of a rule, as it enters the lower firing
    if (this.logHeights) {
      for (let p = 0; p < this.P; p++) {
        for (let m = 0; m < this.M; m++) this.logHeight[p] += this.logHeights[p * this.M + m];
        this.logHeight[p] *= this.power;
      }
    }
  }

  // The term of input m at value v in the log-firing of rule p, with the lower or the upper widths; a value that is not
  // known, NaN, has grade 1 in every rule.
  term(sigmas, p, m, v) {
    if (Number.isNaN(v)) return 0;
    const d = (v - this.centers[p * this.M + m]) / sigmas[p * this.M + m];
    return -0.5 * this.power * d * d;
  }

  // Lower and upper grade of the set of rule p over input m, as they act in the firing.
  grades(p, m, v) {
    if (Number.isNaN(v)) return [1, 1];
    const i = p * this.M + m,
      up = (v - this.centers[i]) / this.upperSigmas[i],
      low = (v - this.centers[i]) / this.lowerSigmas[i];
    const t = this.planes ? this.t : 1,
      upper = Math.exp(-0.5 * this.power * (t * up * up + (1 - t) * low * low)),
      lower = Math.exp(this.power * ((this.logHeights ? t * this.logHeights[i] : 0) - 0.5 * low * low));
    return [Math.min(lower, upper), upper];
  }

  // Log-firing and consequents at x.
  fire(x) {
    const { P, M, K } = this,
      logLower = new Float64Array(P),
      logUpper = new Float64Array(P),
      consequents = new Float64Array(P * K);
    for (let p = 0; p < P; p++) {
      let upper = 0,
        lower = 0,
        height = this.logHeight[p];
      for (let m = 0; m < M; m++) {
        const i = p * M + m,
          up = (x[m] - this.centers[i]) / this.upperSigmas[i];
        if (Number.isNaN(up)) {
          if (this.logHeights) height -= this.power * this.logHeights[i];
          continue;
        }
        upper += up * up;
        if (this.interval) {
          const low = (x[m] - this.centers[i]) / this.lowerSigmas[i];
          lower += low * low;
        }
      }
      logUpper[p] = -0.5 * this.power * upper;
      logLower[p] = this.interval ? Math.min(-0.5 * this.power * lower + height, logUpper[p]) : logUpper[p];
      for (let k = 0; k < K; k++) {
        let sum = 0;
        if (this.slopes)
          for (let m = 0, i = (p * K + k) * M; m < M; m++, i++) sum += this.slopes[i] * this.known(x, p, m);
        consequents[p * K + k] = sum + this.intercepts[p * K + k];
      }
    }
    return { logLower, logUpper, consequents };
  }

  // Value of input m in the consequent of rule p: the center of its set where the value is not known.
  known(x, p, m) {
    return Number.isNaN(x[m]) ? this.centers[p * this.M + m] : x[m];
  }

  // Firing relative to the largest upper firing, into the arrays given or new ones; own is what "nt", "bmm" and "sm" need.
  relative({ logLower, logUpper }, into = null) {
    const { P } = this;
    const { low, up, own } = into || { low: new Float64Array(P), up: new Float64Array(P), own: new Float64Array(P) };
    if (this.planes) {
      const planes = this.planes.map(({ t }) => this.plane(logLower, logUpper, t, new Float64Array(P), new Float64Array(P)));
      if (into) into.planes = planes;
      return { ...this.plane(logLower, logUpper, this.t, low, up), own, planes };
    }
    const { log_floor: floor } = this.data.constants,
      method = this.data.type_reduction;
    let peak = -Infinity;
    let lowerPeak = -Infinity;
    for (let p = 0; p < P; p++) {
      peak = Math.max(peak, logUpper[p]);
      lowerPeak = Math.max(lowerPeak, logLower[p]);
    }
    for (let p = 0; p < P; p++) {
      up[p] = Math.exp(Math.max(logUpper[p] - peak, floor));
      low[p] = this.interval ? Math.exp(Math.max(logLower[p] - peak, floor)) : up[p];
      if (method === "nt") own[p] = low[p] + up[p];
      // Relative to the largest lower firing: all lower firing may vanish beside the upper firing.
      else if (method === "bmm" || method === "sm") own[p] = Math.exp(Math.max(logLower[p] - lowerPeak, floor));
    }
    return { low, up, own };
  }

  // Firing of the plane of width t relative to its largest upper firing; logarithms are linear in t.
  plane(logLower, logUpper, t, low, up) {
    const { P } = this,
      { log_floor: floor } = this.data.constants;
    let peak = -Infinity;
    for (let p = 0; p < P; p++) {
      const log = logLower[p] - this.logHeight[p];
      low[p] = log + t * this.logHeight[p];
      up[p] = log + t * (logUpper[p] - log);
      peak = Math.max(peak, up[p]);
    }
    for (let p = 0; p < P; p++) {
      low[p] = Math.exp(Math.max(low[p] - peak, floor));
      up[p] = Math.exp(Math.max(up[p] - peak, floor));
    }
    return { low, up };
  }

  // [y_left, y_right, y] of output k.
  reduce(firing, consequents, k) {
    const { P, K } = this;
    const y = new Float64Array(P);
    for (let p = 0; p < P; p++) y[p] = consequents[p * K + k];
    return this.reduceOne(firing, y, k);
  }

  // The same from the consequents of output k alone.
  reduceOne(firing, y, k) {
    const { P } = this;
    if (!this.interval) {
      const crisp = average(firing.up, y, P);
      return [crisp, crisp, crisp];
    }
    const sweeps = this.data.constants.max_sweeps,
      [left, right] = endPoints(firing.low, firing.up, y, P, sweeps);
    if (this.planes) {
      const ends = firing.planes.map(({ low, up }) => endPoints(low, up, y, P, sweeps));
      return [left, right, ends.reduce((sum, [a, b], i) => sum + 0.5 * this.planes[i].share * (a + b), 0)];
    }
    const method = this.data.type_reduction;
    if (method === "km") return [left, right, 0.5 * (left + right)];
    let crisp = average(firing.own, y, P);
    if (method !== "nt") {
      const mix = this.data.mix ? this.data.mix[k] : 0.5;
      crisp = mix * crisp + (1 - mix) * average(firing.up, y, P);
    }
    return [left, right, Math.min(Math.max(crisp, left), right)];
  }

  // Weights of the rules at y_left, at y_right and in y, for output k; each adds up to 1. A rule whose consequent equals an
  // end up to rounding counts as beyond it.
  weights(firing, consequents, k, left, right) {
    const shown = this.weightsAtEnds(firing, consequents, k, left, right);
    if (!this.planes) return shown;
    const y = Float64Array.from({ length: this.P }, (_, p) => consequents[p * this.K + k]);
    const parts = firing.planes.map((plane) => {
      const ends = endPoints(plane.low, plane.up, y, this.P, this.data.constants.max_sweeps);
      return this.weightsAtEnds(plane, consequents, k, ...ends).crisp;
    });
    const crisp = shown.crisp.map((_, p) => parts.reduce((sum, part, i) => sum + this.planes[i].share * part[p], 0));
    return { ...shown, crisp };
  }

  weightsAtEnds(firing, consequents, k, left, right) {
    const { P, K } = this,
      normalized = (w) => {
        const sum = w.reduce((a, b) => a + b, 0);
        return w.map((v) => v / sum);
      };
    const upper = normalized(firing.up);
    if (!this.interval) return { left: upper, right: upper, crisp: upper, leftUpper: null, rightUpper: null };
    let slack = 0;
    for (let p = 0; p < P; p++) slack += Math.abs(consequents[p * K + k]);
    slack *= this.data.constants.tolerance * Number.EPSILON;
    const leftUpper = Array.from(firing.up, (_, p) => consequents[p * K + k] <= left + slack);
    const rightUpper = Array.from(firing.up, (_, p) => consequents[p * K + k] >= right - slack);
    const atLeft = normalized(firing.up.map((f, p) => (leftUpper[p] ? f : firing.low[p])));
    const atRight = normalized(firing.up.map((f, p) => (rightUpper[p] ? f : firing.low[p])));
    let crisp;
    const method = this.data.type_reduction;
    if (method === "km") crisp = atLeft.map((w, p) => 0.5 * (w + atRight[p]));
    else crisp = normalized(firing.own);
    if (method === "bmm" || method === "sm") {
      const mix = this.data.mix ? this.data.mix[k] : 0.5;
      crisp = upper.map((w, p) => mix * crisp[p] + (1 - mix) * w);
    }
    return { left: atLeft, right: atRight, crisp, leftUpper, rightUpper };
  }

  infer(x) {
    const fired = this.fire(x),
      firing = this.relative(fired),
      outputs = [];
    for (let k = 0; k < this.K; k++) {
      const [left, right, y] = this.reduce(firing, fired.consequents, k);
      outputs.push({ left, right, y });
    }
    return { ...fired, firing, outputs };
  }

  // Changes of log-firing and consequents when input m moves from x to each of some values: one row per value.
  shifts(x, m, values, k) {
    const { P, K, M } = this;
    const n = values.length * P;
    const lower = new Float64Array(n);
    const upper = new Float64Array(n);
    const consequents = new Float64Array(n);
    for (let i = 0, at = 0; i < values.length; i++) {
      for (let p = 0; p < P; p++, at++) {
        upper[at] = this.term(this.upperSigmas, p, m, values[i]) - this.term(this.upperSigmas, p, m, x[m]);
        if (this.interval)
          lower[at] = this.term(this.lowerSigmas, p, m, values[i]) - this.term(this.lowerSigmas, p, m, x[m]);
        if (this.logHeights && Number.isNaN(x[m])) lower[at] += this.power * this.logHeights[p * M + m];
        if (this.slopes) consequents[at] = this.slopes[(p * K + k) * M + m] * (values[i] - this.known(x, p, m));
      }
    }
    return { lower, upper, consequents };
  }

  // Output k while one or two inputs vary from a fired point: visit(i, j, left, right, y) for every pair of values. Only the
  // terms that change are computed, into reused arrays: a surface takes thousands of inferences.
  sweep(x, fired, inputs, values, k, visit) {
    const { P, K } = this;
    const first = this.shifts(x, inputs[0], values[0], k);
    const second = inputs.length > 1 ? this.shifts(x, inputs[1], values[1], k) : null;
    const scratch = {
      logLower: new Float64Array(P),
      logUpper: new Float64Array(P),
      low: new Float64Array(P),
      up: new Float64Array(P),
      own: new Float64Array(P),
      y: new Float64Array(P),
    };
    const { logLower, logUpper, y } = scratch;
    for (let j = 0; j < (second ? values[1].length : 1); j++) {
      for (let i = 0; i < values[0].length; i++) {
        for (let p = 0; p < P; p++) {
          const a = i * P + p;
          const b = j * P + p;
          logUpper[p] = fired.logUpper[p] + first.upper[a] + (second ? second.upper[b] : 0);
          logLower[p] = this.interval
            ? Math.min(fired.logLower[p] + first.lower[a] + (second ? second.lower[b] : 0), logUpper[p])
            : logUpper[p];
          y[p] = fired.consequents[p * K + k] + first.consequents[a] + (second ? second.consequents[b] : 0);
        }
        this.relative(scratch, scratch);
        const [left, right, crisp] = this.reduceOne(scratch, y, k);
        visit(i, j, left, right, crisp);
      }
    }
  }
}

// Several systems with the same inputs and outputs: outputs and ends are their means, weighted by their shares.
class Model {
  constructor(data, parts) {
    this.systems = parts.map((part) => new System({ ...data, ...part }));
    this.shares = data.system_shares;
    this.bounds = data.bounds;
    this.familiar = data.familiar;
    this.interval = this.systems.some((s) => s.interval);
    this.planes = this.systems[0].planes;
    this.K = this.systems[0].K;
    this.M = this.systems[0].M;
    this.P = this.systems.reduce((sum, s) => sum + s.P, 0);
  }

  // A value of input m as the systems take it: values beyond the bounds are clipped.
  held(value, m) {
    return this.bounds ? Math.min(Math.max(value, this.bounds[0][m]), this.bounds[1][m]) : value;
  }

  // What each system gives at x, and the outputs of the model.
  infer(x) {
    const each = this.systems.map((s) => s.infer(x.map((v, m) => this.held(v, m))));
    const mean = (name, k) => this.shares.reduce((sum, share, i) => sum + share * each[i].outputs[k][name], 0);
    const outputs = each[0].outputs.map((only, k) =>
      each.length === 1 ? only : { left: mean("left", k), right: mean("right", k), y: mean("y", k) },
    );
    return { each, outputs };
  }

  // Output k while one or two inputs vary: visit(i, j, left, right, y) for every pair of values.
  sweep(x, now, inputs, values, k, visit) {
    const from = x.map((v, m) => this.held(v, m)),
      grids = values.map((grid, place) => (inputs.length > place ? grid.map((v) => this.held(v, inputs[place])) : grid)),
      run = (s, each) => this.systems[s].sweep(from, now.each[s], inputs, grids, k, each);
    if (this.systems.length === 1) {
      run(0, visit);
      return;
    }
    const width = grids[0].length,
      height = inputs.length > 1 ? grids[1].length : 1,
      sums = [0, 1, 2].map(() => new Float64Array(width * height));
    this.systems.forEach((_, s) =>
      run(s, (i, j, ...ends) => ends.forEach((end, place) => (sums[place][j * width + i] += this.shares[s] * end))),
    );
    for (let j = 0; j < height; j++)
      for (let i = 0; i < width; i++) visit(i, j, ...sums.map((sum) => sum[j * width + i]));
  }

  // How strongly the best-fitting rule fires at x, not clipped, as a share of what training rows had; null without it.
  familiarity(x) {
    if (!this.familiar) return null;
    return this.systems.reduce((sum, s, i) => {
      const best = Math.exp(Math.min(Math.max(...s.fire(x).logUpper), 0));
      return sum + this.shares[i] * Math.min(best / Math.max(this.familiar[i], 1e-300), 1);
    }, 0);
  }
}

// Width t of every plane of a General Type-2 system, and its share in the crisp output.
function planeShares(alphas) {
  const sum = alphas.reduce((a, b) => a + b, 0);
  return alphas.map((alpha) => ({ share: alpha / sum, t: Math.sqrt(Math.log(alpha) / Math.log(0.01)) }));
}

function softmax(scores) {
  const peak = Math.max(...scores),
    odds = scores.map((s) => Math.exp(s - peak)),
    sum = odds.reduce((a, b) => a + b, 0);
  return odds.map((o) => o / sum);
}

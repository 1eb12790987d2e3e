// The system in float64: firing, consequents, Karnik-Mendel type reduction. The same formulas as docs/maths.md.

const FLOOR = -600; // of a log-firing relative to the strongest rule's
const TOLERANCE = 4 * Number.EPSILON; // rounding of an end point, relative to the sum of the consequents' magnitudes

// The ends of the type-reduced set by Newton sweeps on the residual, each end apart: no sort, and a heavy rule hides no
// light one. An end stops when it no longer moves outwards.
function endPoints(low, up, y, n) {
  let numerator = 0,
    denominator = 0;
  for (let p = 0; p < n; p++) {
    numerator += up[p] * y[p];
    denominator += up[p];
  }
  let left = numerator / denominator,
    right = left;
  for (let sweep = 0; sweep < 2 * n + 4; sweep++) {
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

function average(weights, y, n) {
  let numerator = 0,
    denominator = 0;
  for (let p = 0; p < n; p++) {
    numerator += weights[p] * y[p];
    denominator += weights[p];
  }
  return numerator / denominator;
}

class System {
  constructor(data) {
    this.data = data;
    this.interval = data.kind === "it2";
    this.P = data.centers.length;
    this.M = data.inputs.names.length;
    this.K = data.outputs.names.length;
    this.share = data.tnorm === "product" ? 1 : 1 / this.M;
    const flat = (rows) => Float64Array.from(rows.flat(2));
    this.centers = flat(data.centers);
    this.upperSigmas = flat(data.upper_sigmas);
    this.lowerSigmas = this.interval ? flat(data.lower_sigmas) : this.upperSigmas;
    this.intercepts = flat(data.intercepts); // rules x outputs
    this.slopes = data.slopes ? flat(data.slopes) : null; // rules x outputs x inputs
    this.logHeights = data.log_heights ? flat(data.log_heights) : null;
    this.logHeight = new Float64Array(this.P); // of the whole rule
    if (this.logHeights) {
      for (let p = 0; p < this.P; p++) {
        for (let m = 0; m < this.M; m++) this.logHeight[p] += this.logHeights[p * this.M + m];
        this.logHeight[p] *= this.share;
      }
    }
  }

  // What input m at value v adds to the log-firing of rule p.
  upperTerm(p, m, v) {
    const d = (v - this.centers[p * this.M + m]) / this.upperSigmas[p * this.M + m];
    return -0.5 * this.share * d * d;
  }
  lowerTerm(p, m, v) {
    const d = (v - this.centers[p * this.M + m]) / this.lowerSigmas[p * this.M + m];
    return -0.5 * this.share * d * d;
  }

  // Grades of the set of rule p over input m, as they are drawn: the power of "htsk" comes after.
  grades(p, m, v) {
    const i = p * this.M + m,
      up = (v - this.centers[i]) / this.upperSigmas[i],
      low = (v - this.centers[i]) / this.lowerSigmas[i];
    const upper = Math.exp(-0.5 * up * up),
      lower = Math.exp((this.logHeights ? this.logHeights[i] : 0) - 0.5 * low * low);
    return [Math.min(lower, upper), upper];
  }

  // Log-firing and consequents at x.
  fire(x) {
    const { P, M, K } = this,
      logLower = new Float64Array(P),
      logUpper = new Float64Array(P),
      says = new Float64Array(P * K);
    for (let p = 0; p < P; p++) {
      let upper = 0,
        lower = 0;
      for (let m = 0; m < M; m++) {
        const i = p * M + m,
          up = (x[m] - this.centers[i]) / this.upperSigmas[i];
        upper += up * up;
        if (this.interval) {
          const low = (x[m] - this.centers[i]) / this.lowerSigmas[i];
          lower += low * low;
        }
      }
      logUpper[p] = -0.5 * this.share * upper;
      logLower[p] = this.interval ? Math.min(-0.5 * this.share * lower + this.logHeight[p], logUpper[p]) : logUpper[p];
      for (let k = 0; k < K; k++) {
        let sum = 0;
        if (this.slopes) for (let m = 0, i = (p * K + k) * M; m < M; m++, i++) sum += this.slopes[i] * x[m];
        says[p * K + k] = sum + this.intercepts[p * K + k];
      }
    }
    return { logLower, logUpper, says };
  }

  // Firing relative to the strongest rule, into the arrays given or new ones.
  relative({ logLower, logUpper }, into = null) {
    const { P } = this;
    const { low, up, own } = into || { low: new Float64Array(P), up: new Float64Array(P), own: new Float64Array(P) };
    const twoPeaks = this.interval && (this.data.type_reduction === "bmm" || this.data.type_reduction === "sm");
    let peak = -Infinity;
    let lowerPeak = -Infinity;
    for (let p = 0; p < P; p++) {
      peak = Math.max(peak, logUpper[p]);
      lowerPeak = Math.max(lowerPeak, logLower[p]);
    }
    for (let p = 0; p < P; p++) {
      up[p] = Math.exp(Math.max(logUpper[p] - peak, FLOOR));
      low[p] = this.interval ? Math.exp(Math.max(logLower[p] - peak, FLOOR)) : up[p];
      if (twoPeaks) own[p] = Math.exp(logLower[p] - lowerPeak); // relative to the strongest lower firing
    }
    return { low, up, own };
  }

  // [y_left, y_right, y] of output k.
  reduce(firing, says, k) {
    const { P, K } = this;
    const y = new Float64Array(P);
    for (let p = 0; p < P; p++) y[p] = says[p * K + k];
    return this.reduceOne(firing, y, k);
  }

  // The same from what the rules say of that output alone.
  reduceOne(firing, y, k) {
    const { P } = this;
    if (!this.interval) {
      const crisp = average(firing.up, y, P);
      return [crisp, crisp, crisp];
    }
    const [left, right] = endPoints(firing.low, firing.up, y, P);
    const method = this.data.type_reduction;
    if (method === "km") return [left, right, 0.5 * (left + right)];
    let crisp;
    if (method === "nt") {
      let numerator = 0;
      let denominator = 0;
      for (let p = 0; p < P; p++) {
        const weight = firing.low[p] + firing.up[p];
        numerator += weight * y[p];
        denominator += weight;
      }
      crisp = numerator / denominator;
    } else {
      const mix = this.data.mix ? this.data.mix[k] : 0.5;
      crisp = mix * average(firing.own, y, P) + (1 - mix) * average(firing.up, y, P);
    }
    return [left, right, Math.min(Math.max(crisp, left), right)];
  }

  // What every rule weighs at y_left, at y_right and in y, for output k; each adds up to 1.
  weights(firing, says, k, left, right) {
    const { P, K } = this,
      normalized = (w) => {
        const sum = w.reduce((a, b) => a + b, 0);
        return w.map((v) => v / sum);
      };
    const upper = normalized(firing.up);
    if (!this.interval) return { left: upper, right: upper, crisp: upper, leftUpper: null, rightUpper: null };
    let slack = 0;
    for (let p = 0; p < P; p++) slack += Math.abs(says[p * K + k]);
    slack *= TOLERANCE;
    const leftUpper = Array.from(firing.up, (_, p) => says[p * K + k] <= left + slack);
    const rightUpper = Array.from(firing.up, (_, p) => says[p * K + k] >= right - slack);
    const atLeft = normalized(firing.up.map((f, p) => (leftUpper[p] ? f : firing.low[p])));
    const atRight = normalized(firing.up.map((f, p) => (rightUpper[p] ? f : firing.low[p])));
    let crisp;
    const method = this.data.type_reduction;
    if (method === "km") crisp = atLeft.map((w, p) => 0.5 * (w + atRight[p]));
    else if (method === "nt") crisp = normalized(firing.up.map((f, p) => f + firing.low[p]));
    else {
      const mix = this.data.mix ? this.data.mix[k] : 0.5,
        lower = normalized(firing.own);
      crisp = upper.map((w, p) => mix * lower[p] + (1 - mix) * w);
    }
    return { left: atLeft, right: atRight, crisp, leftUpper, rightUpper };
  }

  infer(x) {
    const fired = this.fire(x),
      firing = this.relative(fired),
      outputs = [];
    for (let k = 0; k < this.K; k++) {
      const [left, right, y] = this.reduce(firing, fired.says, k);
      outputs.push({ left, right, y });
    }
    return { ...fired, firing, outputs };
  }

  // What an input at each of some values adds to log-firing and consequents, beyond what it adds at x: one row per value.
  shifts(x, m, values, k) {
    const { P, K, M } = this;
    const n = values.length * P;
    const lower = new Float64Array(n);
    const upper = new Float64Array(n);
    const says = new Float64Array(n);
    for (let i = 0, at = 0; i < values.length; i++) {
      for (let p = 0; p < P; p++, at++) {
        upper[at] = this.upperTerm(p, m, values[i]) - this.upperTerm(p, m, x[m]);
        if (this.interval) lower[at] = this.lowerTerm(p, m, values[i]) - this.lowerTerm(p, m, x[m]);
        if (this.slopes) says[at] = this.slopes[(p * K + k) * M + m] * (values[i] - x[m]);
      }
    }
    return { lower, upper, says };
  }

  // Outputs of k while one input or two vary from a fired point: visit(i, j, left, right, y) for every pair of values. Only
  // the terms that change are computed, into the same few arrays: a surface is thousands of inferences.
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
          y[p] = fired.says[p * K + k] + first.says[a] + (second ? second.says[b] : 0);
        }
        this.relative(scratch, scratch);
        const [left, right, crisp] = this.reduceOne(scratch, y, k);
        visit(i, j, left, right, crisp);
      }
    }
  }
}

function softmax(scores) {
  const peak = Math.max(...scores),
    odds = scores.map((s) => Math.exp(s - peak)),
    sum = odds.reduce((a, b) => a + b, 0);
  return odds.map((o) => o / sum);
}

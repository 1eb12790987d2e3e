// Training and data: error measures, learning curve, table of the inputs.

function buildRecords(app) {
  const { data, history, settings } = app.data;
  const facts = byId("facts");
  for (const [name, value] of settings) facts.append(el("dt", { text: name }), el("dd", { text: value }));
  if (data && data.metrics.length) {
    byId("metrics-panel").hidden = false;
    const heads = Object.keys(data.metrics[0].values),
      shares = new Set(["accuracy", "covered"]);
    byId("metrics").append(
      el(
        "thead",
        null,
        el(
          "tr",
          null,
          el("th", { scope: "col", text: "output" }),
          ...heads.map((h) => el("th", { scope: "col", class: "num", text: h })),
        ),
      ),
      el(
        "tbody",
        null,
        ...data.metrics.map((m) =>
          el(
            "tr",
            null,
            el("th", { scope: "row", title: m.name, text: m.name }),
            ...heads.map((h) => el("td", { class: "num", text: m.values[h] === null ? "–" : shares.has(h) ? percent(m.values[h]) : number(m.values[h], 4) })),
          ),
        ),
      ),
    );
    byId("metrics-rows").textContent =
      `On the ${data.rows.toLocaleString("en")} rows that this page was made with. The page does not know whether the model was trained on them.` +
      (data.intervals ? " Covered: share of the true values in their calibrated intervals; width: mean of these intervals." : "");
  }
  if (history.length > 1) {
    byId("history-panel").hidden = false;
    const view = chart(byId("history"), 220, (state) => drawHistory(state, history));
    view.root.setAttribute("aria-label", "Loss by epoch");
  }
  const summary = byId("summary");
  summary.addEventListener("toggle", () => {
    if (summary.open && !summary.dataset.built) {
      summary.dataset.built = "1";
      buildSummary(app);
    }
  });
}

// Values of a logarithmic axis from 10^low to 10^high: powers of ten, with 2 and 5 between or evenly spaced where few fit.
function logTicks(low, high) {
  const within = (v) => Math.log10(v) >= low && Math.log10(v) <= high;
  if (high - low < 0.8) return ticks(10 ** low, 10 ** high, 6).filter((v) => v > 0 && within(v));
  const step = Math.ceil((high - low) / 5),
    found = [];
  for (let power = Math.floor(low); power <= high; power++)
    if (power % step === 0) found.push(...(high - low > 2 ? [1] : [1, 2, 5]).map((v) => v * 10 ** power));
  return found.filter(within);
}

function drawHistory(state, history) {
  const lines = ["loss", "validation_loss"].filter((name) => history.some((row) => row[name] > 0));
  const logs = lines.flatMap((name) => history.map((row) => Math.log10(row[name])).filter(Number.isFinite));
  if (!logs.length) return;
  let low = Math.min(...logs),
    high = Math.max(...logs);
  const margin = 0.06 * (high - low) || 0.1;
  low -= margin;
  high += margin;
  const group = svg("g"),
    box = { left: 88, right: state.width - 16, top: 10, bottom: state.height - 40 };
  const first = history[0].epoch,
    last = history[history.length - 1].epoch;
  const X = (v) => box.left + ((v - first) / (last - first || 1)) * (box.right - box.left),
    Y = (v) => box.bottom - ((v - low) / (high - low)) * (box.bottom - box.top);
  for (const value of logTicks(low, high)) {
    const v = Math.log10(value);
    group.append(
      svg("line", { x1: box.left, x2: box.right, y1: Y(v), y2: Y(v), class: "grid" }),
      svg("text", { x: box.left - 6, y: Y(v) + 4, class: "tick end", text: brief(value, 3) }),
    );
  }
  for (const v of ticks(first, last, 6).filter(Number.isInteger))
    group.append(svg("text", { x: X(v), y: box.bottom + 16, class: "tick mid", text: String(Math.round(v)) }));
  group.append(
    svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 32, class: "tick mid", text: "epoch" }),
    svg("text", { x: 12, y: 95, transform: "rotate(-90 12 95)", class: "tick mid", text: "loss, logarithmic" }),
    svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }),
  );
  lines.forEach((name) => {
    const points = history.filter((row) => row[name] > 0).map((row) => [X(row.epoch), Y(Math.log10(row[name]))]);
    group.append(svg("path", { d: path(points), class: name === "loss" ? "curve" : "curve second" }));
  });
  if (lines.length > 1) {
    group.append(
      svg("text", { x: box.right, y: 20, class: "tick end strong", text: "training" }),
      svg("text", { x: box.right, y: 36, class: "tick end orange", text: "validation, dashed" }),
    );
  }
  state.root.replaceChildren(group);
}

function buildSummary(app) {
  const { inputs, data } = app.data,
    stats = data ? data.summary : null;
  const heads = ["input", "least", "largest", ...(stats ? ["mean", "spread"] : [])];
  const rows = inputs.names.map((name, m) => {
    const cells = [
      inputs.constant[m] ? inputs.start[m] : inputs.low[m],
      inputs.constant[m] ? inputs.start[m] : inputs.high[m],
    ];
    if (stats) {
      cells[0] = stats.least[m];
      cells[1] = stats.largest[m];
      cells.push(stats.mean[m], stats.spread[m]);
    }
    return el(
      "tr",
      null,
      el("th", { scope: "row", text: name || "(no name)" }),
      ...cells.map((v) => el("td", { class: "num", text: number(v) })),
    );
  });
  byId("summary-table").append(
    el("thead", null, el("tr", null, ...heads.map((h, i) => el("th", { scope: "col", class: i ? "num" : "", text: h })))),
    el("tbody", null, ...rows),
  );
  byId("summary-words").textContent = stats
    ? `Of the ${data.rows.toLocaleString("en")} rows this page was made with.`
    : "Of the rows the model was trained on.";
}

/* One step three ways: cached, the prefix computed again, and as in training. The row is the same. */

import { h, num } from "./dom.js";
import { keyLabels, rowLabels } from "./labels.js";
import { drawMatrix } from "./matrix.js";
import { set, state } from "./state.js";
import { nameOf, t } from "./texts.js";

function attentionNow(trace) {
  const paths = trace.record.model.attentions.filter((path) => path.startsWith("decoder") && path.endsWith("self_attention"));
  return paths[Math.min(state.layer, paths.length - 1)];
}

function view(trace, title, key, { value, rows, keys, first, path, mark }) {
  const labels = rowLabels(trace, "tgt", trace.array(`${path}.weights`).shape.at(-2));
  const names = keyLabels(trace, "tgt", trace.array(`${path}.weights`).shape.at(-1));
  return h("section", { class: rows > 4 ? "tile wide" : "tile" }, h("h3", {}, title), drawMatrix({
    name: title, key, scale: "share", rows: labels.slice(first, first + rows), cols: names.slice(0, keys),
    value, at: [mark, -1],
    hidden: (i, j) => { const why = trace.reason(path, first + i, j); return why && t(why); },
    choose: (row, col) => set({ view: "stage", stage: `${path}.weights`, row: first + row, col }), corner: "Q \\ K",
  }));
}

export function drawSteps(trace) {
  const total = trace.steps.length;
  const now = trace.steps[Math.min(state.t, total) - 1];
  const path = trace.record.views?.length ? attentionNow(trace) : null;
  const slider = h("label", {}, t("stepLabel"), h("input", {
    type: "range", min: 1, max: total, value: now?.t ?? 1, key: "slider", "aria-valuetext": t("step", state.t, total),
    oninput: (event) => set({ t: Number(event.target.value) }),
  }), h("output", {}, t("step", now?.t ?? 1, total)));
  if (!path || !now) return [slider, h("p", {}, t("notKept"))];
  const told = trace.record.views[now.t - 1];
  const weights = trace.array(`${path}.weights`);
  const head = Math.min(state.head, weights.shape[1] - 1);
  const row = now.t - 1 + trace.offset;
  const cached = `steps.${now.t}.${path}.weights`;
  const prefix = `steps.${now.t}.prefix.${path}.weights`;
  const views = [];
  const of = (array) => (i, j) => trace.at(array, head, i, j);
  if (trace.array(cached)) {
    const keys = trace.array(cached).shape.at(-1);
    views.push(view(trace, t("cached"), "cached", { value: of(cached), rows: 1, keys, first: row, path, mark: 0 }));
  } else views.push(h("section", { class: "tile" }, h("h3", {}, t("cached")), h("p", {}, t("notKept"))));
  if (trace.array(prefix)) {
    const [rows, keys] = trace.array(prefix).shape.slice(-2);
    const value = prefixValue(trace, { array: prefix, path, head, rows, row });
    views.push(view(trace, t("prefix", row + 1), "prefix", { value, rows: row + 1, keys, first: 0, path, mark: row }));
  }
  const [rows, keys] = weights.shape.slice(-2);
  views.push(view(trace, t("training"), "training", { value: of(`${path}.weights`), rows, keys, first: 0, path, mark: row }));
  const { cached_parallel: one, prefix_parallel: other } = told.differences ?? {};
  const where = one && trace.node(one.stage) ? nameOf(trace.node(one.stage)) : one?.stage;
  return [slider, h("p", { class: "place" }, `${nameOf(trace.node(`${path}.weights`))} · ${t("headN", head)}`),
    one ? h("p", { class: "badge", role: "status" }, t("difference", now.t, num(one.largest, 7), where, num(other?.largest ?? 0, 7))) : null,
    h("div", { class: "attention" }, views)];
}

/** Of the prefix the record keeps its last row; the others are rows of the parallel pass. */
function prefixValue(trace, { array, path, head, rows, row }) {
  return (i, j) => (rows > row ? trace.at(array, head, i, j)
    : i === row ? trace.at(array, head, rows - 1, j) : trace.at(`${path}.weights`, head, i, j));
}

/* One stage: its numbers, and the chosen one explained. Stages of an attention stand together, in the order of the formula. */

import { entropyOf, explain, softmaxRow } from "./calc.js";
import { button, h, headings, num, shown } from "./dom.js";
import { explanation } from "./explanation.js";
import { switchButton } from "./heads.js";
import { columnLabels, keyLabels, rowLabels, shapeText } from "./labels.js";
import { isLive } from "./live.js";
import { drawMatrix } from "./matrix.js";
import { drawWave } from "./sound.js";
import { set, state } from "./state.js";
import { formulaOf, nameOf, t } from "./texts.js";

const NAMES = { causal: "Causal", padding: "Padding" };
const PARTS = ["query", "key", "value", "scores", "mask", "weights", "mixed", "output"];

export function stageNow(trace) {
  return trace.node(state.stage) ?? trace.record.graph.nodes.find((node) => node.kind === "softmax" && node.array) ?? trace.record.graph.nodes[0];
}

function headButtons(trace, path) {
  const count = trace.node(`${path}.weights`)?.shape[1] ?? 1;
  return h("div", { class: "row", role: "group", "aria-label": t("head") }, Array.from({ length: count }, (_, at) =>
    button(t("headN", at), () => set({ head: at }), { "aria-pressed": String(at === state.head), key: `head:${at}` })));
}

function titled(node, here, body) {
  const wide = ["scores", "mask", "softmax"].includes(node.kind) ? " wide" : "";
  return h("section", { class: `tile${here ? " here" : ""}${wide}` },
    h("h3", {}, button(nameOf(node).split(" · ").at(-1), () => set({ stage: node.id, row: -1, col: -1 }), { class: "quiet", key: `part:${node.id}`, "aria-current": here ? "true" : null }),
      " ", h("code", {}, shapeText(node))), body);
}

/** Keys and values belong to the pieces that are looked at, all else to the queries. */
const namesOf = (node) => (/_attention\.(key|value)$/u.test(node.id) ? keyLabels : rowLabels);

/** The matrix of a stage: of the chosen head, where it has heads. */
function matrixOf(trace, node, here) {
  const path = trace.attentionOf(node.id);
  const square = ["scores", "mask", "softmax"].includes(node.kind) && path;
  const perHead = node.axes[1] === "heads" || node.kind === "mask";
  const head = Math.min(state.head, node.shape[1] - 1);
  const [rows, cols] = node.shape.slice(-2);
  const [rowAxis, colAxis] = node.axes.slice(-2);
  const without = !state.root && node.kind === "softmax" && path;
  const factor = !state.root && node.kind === "scores" ? Math.sqrt(trace.node(`${path}.query`).shape.at(-1)) : 1;
  const changed = without ? Array.from({ length: rows }, (_, i) => softmaxRow(trace, path, head, i, false).weights) : null;
  const value = changed ? (i, j) => changed[i][j]
    : (i, j) => factor * (perHead ? trace.at(node.array, head, i, j) : trace.at(node.array, i, j));
  const chosen = here || (square && PARTS.slice(3, 6).some((part) => state.stage === `${path}.${part}`));
  const vocabulary = colAxis === "target_vocab" || colAxis === "source_vocab";
  return drawMatrix({
    name: nameOf(node), key: `cell:${node.id}`, value, scale: ["softmax", "mask"].includes(node.kind) ? "share" : "signed",
    rows: namesOf(node)(trace, rowAxis, rows), digits: node.kind === "mask" ? 0 : 2,
    cols: square ? keyLabels(trace, colAxis, cols) : columnLabels(vocabulary ? "id" : colAxis, cols),
    hidden: square ? (i, j) => { const why = trace.reason(path, i, j); return why && t(why); } : undefined,
    at: chosen ? [state.row, state.col] : square ? [state.row, -1] : [-1, -1],
    choose: (row, col) => set({ stage: node.id, row, col }), corner: square ? "Q \\ K" : "", width: path && node.kind !== "merge" ? 230 : 620,
  });
}

function attentionView(trace, node, path) {
  const parts = trace.attention(path);
  const tiles = PARTS.map((part) => parts[part]).filter((each) => each?.array).map((each) => {
    const body = trace.array(each.array) ? matrixOf(trace, each, each.id === node.id) : h("p", {}, t("notKept"));
    return titled(each, each.id === node.id, body);
  });
  const head = Math.min(state.head, (parts.weights?.shape[1] ?? 1) - 1);
  const rows = parts.weights?.shape.at(-2) ?? 0;
  const mean = (root) => Array.from({ length: rows }, (_, i) => entropyOf(softmaxRow(trace, path, head, i, root).weights)).reduce((a, b) => a + b, 0) / rows;
  const width = Math.sqrt(parts.query?.shape.at(-1) ?? 1);
  const toggle = h("div", { class: "row" }, headButtons(trace, path),
    button(t("withoutRoot"), () => set({ root: state.root ? 0 : 1 }), { "aria-pressed": String(!state.root), key: "root" }), switchButton(path, head), maskButtons(parts.mask));
  const removed = parts.mask?.removed?.includes("causal") ? h("p", { class: "note", role: "status" }, t("removedCausal")) : null;
  const note = state.root || !parts.scores ? null : h("p", { class: "note", role: "status" }, t("rootNote", num(width, 2), num(mean(true), 3), num(mean(false), 3)));
  return [toggle, note, removed, h("div", { class: "attention" }, tiles)];
}

/** With a server, a mask can be taken away. */
function maskButtons(mask) {
  if (!mask || !isLive()) return null;
  const one = (name, here) => (here ? button(t(state[name] ? `remove${NAMES[name]}` : `restore${NAMES[name]}`), () => set({ [name]: state[name] ? 0 : 1 }), { "aria-pressed": String(!state[name]), key: `mask:${name}` }) : null);
  return [one("causal", mask.causal || mask.removed?.includes("causal")), one("padding", mask.padding.length || mask.removed?.includes("padding"))];
}

function plainView(trace, node) {
  if (node.kind === "one_hot") {
    const pieces = node.picked.map((id, at) => [id, node.axes[1] === "src" ? trace.sourcePieces(node.shape[1])[at] : trace.reads(at)]);
    return [h("ul", {}, pieces.map(([id, piece]) => h("li", {}, t("picked", id, shown(piece)))))];
  }
  if (!node.array) return [logitsNote(trace)];
  if (!trace.array(node.array)) return [h("p", {}, t("notKept"))];
  if (node.kind === "waveform") return [titled(node, true, drawWave(trace, node))];
  return [titled(node, true, matrixOf(trace, node, true))];
}

/** Probabilities are the softmax of the logits: the largest of the chosen step. */
function logitsNote(trace) {
  const step = trace.steps[state.t - 1];
  if (!step) return h("p", {}, t("none"));
  return h("table", {}, h("caption", {}, t("step", step.t, trace.steps.length)),
    headings([t("piece"), t("logit"), "exp(z − logΣexp)"]),
    step.top.slice(0, 10).map(([, piece, logProbability]) => h("tr", {}, h("th", { scope: "row" }, shown(piece)),
      h("td", {}, num(logProbability + step.log_sum)), h("td", {}, num(Math.exp(logProbability), 5)))));
}

export function drawStage(trace) {
  const node = stageNow(trace);
  if (!node) return [h("p", {}, t("none"))];
  const path = trace.attentionOf(node.id);
  const body = path && node.kind !== "add" && !node.norm ? attentionView(trace, node, path) : plainView(trace, node);
  const list = h("select", { "aria-label": t("stage"), key: "stage", onchange: (event) => set({ stage: event.target.value, row: -1, col: -1 }) },
    trace.record.graph.nodes.map((each) => h("option", { value: each.id, selected: each.id === node.id }, nameOf(each))));
  const inputs = node.inputs.map((id) => trace.node(id)).filter(Boolean);
  const about = h("dl", { class: "about" },
    h("div", {}, h("dt", {}, t("shape")), h("dd", { id: "shape" }, shapeText(node))),
    h("div", {}, h("dt", {}, t("formula")), h("dd", {}, formulaOf(node))),
    h("div", {}, h("dt", {}, t("inputs")), h("dd", {}, inputs.length ? inputs.map((each) => button(nameOf(each), () => set({ stage: each.id, row: -1, col: -1 }), { class: "quiet" })) : t("none"))));
  return [h("div", { class: "row" }, list), about, h("div", { class: "panes" }, h("div", { class: "canvas" }, body),
    h("aside", { class: "details", "aria-label": t("cell") }, h("h2", {}, t("cell")), details(trace, node)))];
}

function details(trace, node) {
  if (state.row < 0 || state.col < 0 || !node.array) return h("p", {}, t("pick"));
  const [rows, cols] = node.shape.slice(-2);
  if (state.row >= rows || state.col >= cols) return h("p", {}, t("pick"));
  const head = Math.min(state.head, node.axes[1] === "heads" ? node.shape[1] - 1 : state.head);
  const row = namesOf(node)(trace, node.axes.at(-2), rows)[state.row];
  const square = ["scores", "mask", "softmax"].includes(node.kind);
  const col = square ? keyLabels(trace, node.axes.at(-1), cols)[state.col] : columnLabels(node.axes.at(-1), cols)[state.col];
  const found = explain(trace, node, { head, row: state.row, col: state.col, root: Boolean(state.root) });
  const place = `${node.axes[1] === "heads" ? `${t("headN", head)}, ` : ""}${square ? t("looksAt", row, col) : `${row} × ${col}`}`;
  const traced = node.axes[1] === "heads" ? trace.at(node.array, head, state.row, state.col) : trace.at(node.array, state.row, state.col);
  return [h("output", { id: "number" }, num(traced, 5)), explanation(found, place)];
}

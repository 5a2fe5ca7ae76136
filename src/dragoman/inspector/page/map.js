/* The architecture as the paper draws it: two columns, and the memory's arrow into every cross-attention. */

import { button, h, s, saveSvg } from "./dom.js";
import { shapeText } from "./labels.js";
import { set, state } from "./state.js";
import { nameOf, t } from "./texts.js";

const WIDE = 300;
const HIGH = 58;
export const NARROW = matchMedia("(max-width: 44rem)");
const STEP = 78;
const LEFT = { encoder: 74, decoder: 488 };

/** The boxes of a column from the bottom up: {id, name, formula, kind}. */
function boxesOf(trace, stack, layer) {
  const nodes = trace.record.graph.nodes.filter((node) => node.stack === stack);
  const boxes = [];
  const embedding = nodes.filter((node) => node.layer === null && !node.norm && ["embed", "scale", "position", "add"].includes(node.kind));
  const add = (node, name, formula, kind) => boxes.push({ node, name, formula, kind });
  const table = embedding.find((node) => node.kind === "embed");
  const position = embedding.find((node) => node.kind === "position");
  const scaled = embedding.some((node) => node.kind === "scale");
  const sum = embedding.findLast((node) => node.kind === "add" || node.kind === "scale" || node.kind === "embed");
  if (table) add(table, t("embed"), scaled ? "E[id] · √d_model" : "E[id]", "embed");
  const heard = (kind) => nodes.findLast((node) => node.kind === kind);
  if (heard("normalise")) add(heard("normalise"), t("normalise"), "(log mel − μ) / σ", "position");
  for (const node of nodes.filter(({ kind }) => kind === "gate")) add(node, nameOf(node).split(" · ").at(-1), "conv(x), a · σ(b)", "embed");
  if (position) add(position, t("position"), "sin, cos (pos / 10000^(2i/d))", "position");
  if (sum && heard("gate")) add(sum, t("add_sound"), `x · √d${position ? " + PE" : ""}`, "add");
  else if (sum && sum !== table) add(sum, t("embedding"), `x = E[id]${scaled ? "·√d" : ""}${position ? " + PE" : ""}`, "add");
  for (const node of nodes.filter((node) => node.layer === layer)) {
    const sub = /(self_attention|cross_attention|feed_forward)/u.exec(node.id)?.[1];
    const causal = trace.node(`${trace.attentionOf(node.id)}.mask`)?.causal;
    if (node.norm || node.kind === "norm") add(node, t("norm"), "(x − μ) / √(σ² + ε) · γ + β", "norm");
    else if (node.kind === "softmax") add(node, t(causal ? "masked_self_attention" : sub), "softmax(QKᵀ / √d_k, masked) V", "attention");
    else if (node.kind === "linear" && node.id.endsWith("outer")) add(node, t("feed_forward"), "f(x W₁ + b₁) W₂ + b₂", "feed");
    else if (node.kind === "add") add(node, t("residual"), "x + sublayer(x)", "add");
  }
  const last = nodes.find((node) => node.layer === null && (node.kind === "memory" || node.id === "memory"));
  if (last) add(last, t("memory"), last.norm ? "LayerNorm(x)" : "x", "memory");
  if (stack === "encoder" && trace.node("ctc")) add(trace.node("ctc"), t("ctc"), "x W + b", "logits");
  if (stack === "decoder") {
    const end = trace.node("decoder.output");
    if (end) add(end, t("output_norm"), end.norm ? "LayerNorm(x)" : "x", "norm");
    for (const [id, name, formula] of [["generator", "logits", "x Wᵀ"], ["probabilities", "softmax", "exp(z) / Σ exp(z)"]]) {
      if (trace.node(id)) add(trace.node(id), t(name), formula, "logits");
    }
  }
  return boxes;
}

function open(node) { set({ view: "stage", stage: node.id, row: -1, col: -1 }); }

function box(item, x, y) {
  const { node, name, formula, kind } = item;
  const label = `${name}: ${formula}, ${shapeText(node)}`;
  const group = s("g", { class: `box ${kind}`, role: "link", tabindex: 0, key: `box:${node.id}`, "aria-label": label },
    s("rect", { x, y, width: WIDE, height: HIGH, rx: 7 }),
    s("text", { x: x + WIDE / 2, y: y + 17, "text-anchor": "middle", class: "name" }, name),
    s("text", { x: x + WIDE / 2, y: y + 33, "text-anchor": "middle", class: "formula" }, formula),
    s("text", { x: x + WIDE / 2, y: y + 49, "text-anchor": "middle", class: "shape" }, shapeText(node)));
  group.addEventListener("click", () => open(node));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(node); }
  });
  return group;
}

const arrow = (d, kind = "") => s("path", { d, class: `edge ${kind}`, "marker-end": "url(#tip)", fill: "none" });

/** Residuals bend round what they skip: from below the sublayer's first box to its sum. */
function skips(items, x, y) {
  const paths = [];
  let from = null;
  items.forEach((item, at) => {
    if (item.node.layer === null) return;
    if (from === null) from = at;
    if (item.kind === "add") {
      const low = y(from) + HIGH + 10;
      const high = y(at) + HIGH / 2;
      paths.push(arrow(`M${x + WIDE / 2} ${low} H${x - 18} V${high} H${x - 3}`, "skip"));
      from = at + 1;
      if (items[from]?.kind === "norm" && items[from - 2]?.kind !== "norm" && !/\.norm$/u.test(items[from].node.id)) from += 1;
    }
  });
  return paths;
}

/** The figure; `layer` is the one that is drawn of the stack's N. */
export function figure(trace, layer) {
  const columns = ["encoder", "decoder"].map((stack) => {
    const count = 1 + Math.max(-1, ...trace.record.graph.nodes.filter((node) => node.stack === stack && node.layer !== null).map((node) => node.layer));
    return { stack, count, layer: Math.min(layer, count - 1), items: boxesOf(trace, stack, Math.min(layer, count - 1)) };
  }).filter(({ items }) => items.length);
  const tall = Math.max(1, ...columns.map(({ items }) => items.length));
  // On a narrow screen the decoder stands on the encoder.
  const stacked = columns.length > 1 && NARROW.matches;
  const height = stacked ? columns.reduce((sum, { items }) => sum + items.length * STEP + 52, 0) : tall * STEP + 52;
  const wide = columns.length > 1 && !stacked ? 818 : stacked ? 390 : 418;
  let floor = height;
  const parts = [];
  let memory = null;
  for (const column of columns) {
    const x = stacked ? 50 : columns.length > 1 ? LEFT[column.stack] : LEFT.encoder;
    const bottom = floor;
    const y = (at) => bottom - 40 - (at + 1) * STEP + 14;
    const inner = column.items.map((item, at) => [item, at]).filter(([item]) => item.node.layer !== null).map(([, at]) => at);
    if (inner.length) {
      const top = y(inner.at(-1)) - 9;
      parts.push(s("rect", { x: x - 30, y: top, width: WIDE + 42, height: y(inner[0]) + HIGH + 14 - top, rx: 12, class: "block" }),
        s("text", { x: stacked ? x - 30 : x - 36, y: stacked ? top - 5 : top + 24, "text-anchor": stacked ? "start" : "end", class: "times" }, `${column.count}×`));
    }
    parts.push(s("text", { x: x + WIDE / 2, y: bottom - 6, "text-anchor": "middle", class: "title" },
      `${t(column.stack)} · ${t("layerOf", column.layer, column.count)}`));
    column.items.forEach((item, at) => {
      parts.push(box(item, x, y(at)));
      if (at && item.kind !== "position") parts.push(arrow(`M${x + WIDE / 2} ${y(at - 1)} V${y(at) + HIGH + 3}`));
      if (item.kind === "position" && at) {
        // What the position is added to goes round its box.
        const side = x + WIDE + 14;
        parts.push(arrow(`M${x + WIDE} ${y(at - 1) + HIGH / 2} H${side} V${y(at + 1) + HIGH / 2} H${x + WIDE + 3}`));
      }
      if (item.kind === "memory") memory = { x: x + WIDE, y: y(at) + HIGH / 2 };
      if (memory && item.kind === "attention" && item.node.id.includes("cross_attention")) {
        const middle = stacked ? x + WIDE + 30 : 431;
        const end = stacked ? x + WIDE + 3 : x - 3;
        parts.push(arrow(`M${memory.x} ${memory.y} H${middle} V${y(at) + HIGH / 2} H${end}`, "memory-edge"));
        parts.push(s("text", { x: memory.x - 4, y: memory.y - HIGH / 2 - 8, "text-anchor": "end", class: "note" }, t("memoryArrow")));
      }
    });
    parts.push(...skips(column.items, x, y));
    if (stacked) floor -= column.items.length * STEP + 52;
  }
  const tip = s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0 8 4 0 8z", class: "tip" }));
  return s("svg", { viewBox: `0 0 ${wide} ${height}`, width: wide, height, class: stacked ? "figure stacked" : "figure", role: "group", "aria-label": t("map") }, s("defs", {}, tip), parts);
}

export function drawMap(trace) {
  const picture = figure(trace, state.layer);
  const count = 1 + Math.max(0, ...trace.record.graph.nodes.map((node) => node.layer ?? 0));
  const layers = Array.from({ length: count }, (_, at) => button(t("layer", at), () => set({ layer: at }),
    { "aria-pressed": String(at === state.layer), key: `layer:${at}` }));
  const all = h("details", {}, h("summary", {}, t("stages")), h("ul", { class: "stages" }, trace.record.graph.nodes.map((node) =>
    h("li", {}, button(node.id, () => open(node), { class: "quiet" }), " ", h("code", {}, shapeText(node))))));
  return [h("div", { class: "row" }, layers, button(t("saveSvg"), () => saveSvg(picture, `${t("pictureName")}.svg`))),
    h("div", { class: "scroll" }, picture), all];
}

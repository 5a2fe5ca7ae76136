/* What stands for a piece: its place among the others, its neighbours, its position, and their sum. */

import { h, num, s, shown } from "./dom.js";
import { columnLabels, rowLabels } from "./labels.js";
import { drawMatrix } from "./matrix.js";
import { set, state } from "./state.js";
import { t } from "./texts.js";

const SIZE = 420;

function chart(side, chosen) {
  const xs = side.map.map(([, , x]) => x);
  const ys = side.map.map(([, , , y]) => y);
  const scale = (values, value) => 30 + (SIZE - 60) * (value - Math.min(...values)) / (Math.max(...values) - Math.min(...values) || 1);
  const own = new Set(side.pieces.map(({ id }) => id));
  const near = new Set(chosen?.nearest.map(([id]) => id));
  const points = side.map.map(([id, piece, x, y]) => {
    const kind = id === chosen?.id ? "point chosen" : own.has(id) ? "point own" : near.has(id) ? "point near" : "point";
    const labelled = kind !== "point";
    return s("g", { class: kind }, s("circle", { cx: scale(xs, x), cy: SIZE - scale(ys, y), r: labelled ? 4 : 1.6 }),
      labelled ? s("text", { x: scale(xs, x) + 6, y: SIZE - scale(ys, y) + 4 }, shown(piece)) : null);
  });
  return s("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, class: "figure points", role: "img", "aria-label": t("mapOf") }, points);
}

function clocks(trace, row) {
  const node = trace.record.graph.nodes.find((each) => each.kind === "position" && each.array);
  const values = node && trace.record.model.positions === "interleaved" ? trace.row(node.array, Math.min(row, node.shape.at(-2) - 1)) : null;
  if (!values) return null;
  const pairs = Math.min(16, values.length / 2);
  const hands = Array.from({ length: pairs }, (_, at) => {
    const pair = Math.floor(at * (values.length / 2) / pairs);
    const [x, y] = [24 + (at % 8) * 50, 24 + Math.floor(at / 8) * 66];
    return s("g", { class: "clock" }, s("circle", { cx: x, cy: y, r: 19 }), s("line", { x1: x, y1: y, x2: x + 17 * values[2 * pair], y2: y - 17 * values[2 * pair + 1] }),
      s("text", { x, y: y + 34, "text-anchor": "middle" }, `${2 * pair}, ${2 * pair + 1}`));
  });
  return h("section", {}, h("h2", {}, t("clocks", row)), h("p", { class: "note" }, t("clocksNote")),
    h("div", { class: "scroll" }, s("svg", { viewBox: "0 0 400 134", width: 400, height: 134, class: "figure", role: "img", "aria-label": t("clocks", row) }, hands)));
}

function strips(trace, row) {
  const sum = trace.record.graph.nodes.find((each) => each.kind === "add" && each.layer === null && each.array);
  if (!sum) return null;
  const parts = [...sum.inputs.map((id) => trace.node(id)), sum].filter((node) => node?.array && trace.array(node.array));
  const at = Math.min(row, sum.shape.at(-2) - 1);
  return h("section", {}, h("h2", {}, `${t("strips")}: ${rowLabels(trace, sum.axes.at(-2), sum.shape.at(-2))[at]}`), drawMatrix({
    name: t("strips"), key: "sum", tiles: true, rows: parts.map((node, place) => `${["", "+ ", "= "][place] ?? ""}${t(["piece", "position", "sum"][place] ?? node.kind)}`), cols: columnLabels("d_model", sum.shape.at(-1)),
    value: (i, j) => trace.at(parts[i].array, at, j), scale: "signed", at: [-1, -1], width: 760,
    choose: (i, col) => set({ view: "stage", stage: parts[i].id, row: at, col }),
  }));
}

export function drawEmbeddings(trace) {
  const told = trace.record.embeddings;
  const sides = ["source", "target"].filter((side) => told?.[side]);
  if (!sides.length) return [h("p", {}, t("none"))];
  const row = Math.max(0, state.row);
  const parts = sides.map((name) => {
    const side = told[name];
    const chosen = side.pieces[Math.min(row, side.pieces.length - 1)];
    return h("section", { class: "tile" }, h("h2", {}, t(`${name}Side`)),
      h("div", { class: "row" }, side.pieces.map((piece, at) => h("button", { type: "button", "aria-pressed": String(piece === chosen), key: `near:${name}:${at}`, onclick: () => set({ row: at }) }, shown(piece.piece)))),
      h("div", { class: "scroll" }, chart(side, chosen)),
      chosen ? h("table", {}, h("caption", {}, t("nearest", shown(chosen.piece))), chosen.nearest.map(([, piece, cosine]) => h("tr", {}, h("th", { scope: "row" }, shown(piece)), h("td", {}, num(cosine, 3))))) : null);
  });
  return [h("div", { class: "attention" }, parts), strips(trace, row), clocks(trace, row)];
}

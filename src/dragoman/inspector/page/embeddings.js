/* What stands for a piece: its place among the others, its neighbours, its position, and their sum. */

import { alibiSlopes } from "./calc.js";
import { button, h, num, s, saveSvg, shown } from "./dom.js";
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

/** The hands of a position: [first column, second column, sine, cosine] of each pair, or null where there are none. */
function handsOf(trace, row) {
  const { positions } = trace.record.model;
  const node = trace.record.graph.nodes.find((each) => each.kind === "position" && each.array);
  if (positions.startsWith("rotary")) {
    const width = trace.sizes.d_k;
    return Array.from({ length: width / 2 }, (_, pair) => {
      const angle = row / 10000 ** (2 * pair / width);
      return [2 * pair, 2 * pair + 1, Math.sin(angle), Math.cos(angle)];
    });
  }
  if (!node || !["interleaved", "concatenated"].includes(positions)) return null;
  const values = trace.row(node.array, Math.min(row, node.shape.at(-2) - 1));
  const half = values.length / 2;
  return Array.from({ length: half }, (_, pair) => {
    const [one, other] = positions === "interleaved" ? [2 * pair, 2 * pair + 1] : [pair, pair + half];
    return [one, other, values[one], values[other]];
  });
}

function clocks(trace, row) {
  const every = handsOf(trace, row);
  if (!every?.length) return distances(trace);
  const count = Math.min(16, every.length);
  const faces = Array.from({ length: count }, (_, at) => {
    const [one, other, sine, cosine] = every[Math.floor(at * every.length / count)];
    const [x, y] = [24 + (at % 8) * 50, 24 + Math.floor(at / 8) * 66];
    return s("g", { class: "clock" }, s("circle", { cx: x, cy: y, r: 19 }), s("line", { x1: x, y1: y, x2: x + 17 * sine, y2: y - 17 * cosine }),
      s("text", { x, y: y + 34, "text-anchor": "middle" }, `${one}, ${other}`));
  });
  const turned = trace.record.model.positions.startsWith("rotary");
  const picture = s("svg", { viewBox: "0 0 400 134", width: 400, height: 134, class: "figure", role: "img", "aria-label": t("clocks", row) }, faces);
  return h("section", {}, h("h2", {}, t("clocks", row)), h("p", { class: "note" }, t(turned ? "clocksTurn" : "clocksNote")),
    h("div", { class: "scroll" }, picture), button(t("saveSvg"), () => saveSvg(picture, "positions.svg"), { key: "save:clocks", "aria-label": `${t("saveSvg")}: ${t("clocks", row)}` }));
}

/** Schemes that enter the scores: what each distance brings. */
function distances(trace) {
  const { positions } = trace.record.model;
  if (positions === "alibi") {
    const slopes = alibiSlopes(trace.sizes.num_heads);
    return h("section", {}, h("h2", {}, t("byDistance")), h("p", { class: "note" }, t("alibiNote")), drawMatrix({
      name: t("byDistance"), key: "alibi", scale: "signed", at: [-1, -1], choose: () => {}, corner: "", rows: slopes.map((_, head) => t("headN", head)),
      cols: Array.from({ length: 9 }, (_, at) => `${at}`), value: (head, distance) => -slopes[head] * distance || 0,
    }));
  }
  const node = positions === "relative" ? trace.record.graph.nodes.find((each) => each.kind === "scores" && each.parameters.length) : null;
  const table = node && trace.array(node.parameters[0]);
  if (!table) return null;
  const most = (table.shape[0] - 1) / 2;
  return h("section", {}, h("h2", {}, t("byDistance")), h("p", { class: "note" }, t("relativeNote")), drawMatrix({
    name: t("byDistance"), key: "relative", scale: "signed", tiles: true, at: [-1, -1], choose: () => {}, width: 560, rows: Array.from({ length: table.shape[0] }, (_, at) => `${at - most}`),
    cols: columnLabels("d_k", table.shape[1]), value: (i, j) => table.data[i * table.shape[1] + j],
  }));
}

function strips(trace, row) {
  const sum = trace.record.graph.nodes.find((each) => each.kind === "add" && each.layer === null && each.array);
  if (!sum) return null;
  const parts = [...sum.inputs.map((id) => trace.node(id)), sum].filter((node) => node?.array && trace.array(node.array));
  const at = Math.min(row, sum.shape.at(-2) - 1);
  return h("section", {}, h("h2", {}, `${rowLabels(trace, sum.axes.at(-2), sum.shape.at(-2))[at]} · ${t("strips")}`), drawMatrix({
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
    const picture = chart(side, chosen);
    return h("section", { class: "tile" }, h("h2", {}, t(`${name}Side`)),
      h("div", { class: "row" }, side.pieces.map((piece, at) => h("button", { type: "button", "aria-pressed": String(piece === chosen), key: `near:${name}:${at}`, onclick: () => set({ row: at }) }, shown(piece.piece)))),
      h("div", { class: "scroll" }, picture), button(t("saveSvg"), () => saveSvg(picture, `${name}.svg`), { key: `save:${name}`, "aria-label": `${t("saveSvg")}: ${t("mapOf")}, ${t(`${name}Side`)}` }),
      chosen ? h("table", {}, h("caption", {}, t("nearest", shown(chosen.piece))), chosen.nearest.map(([, piece, cosine]) => h("tr", {}, h("th", { scope: "row" }, shown(piece)), h("td", {}, num(cosine, 3))))) : null);
  });
  return [h("div", { class: "attention" }, parts), strips(trace, row), clocks(trace, row)];
}

/* What rows and columns of an array are called: one convention everywhere. */

import { num, shown } from "./dom.js";
import { t } from "./texts.js";

/** Names of the queries of an axis: a source piece, or what a row reads and writes. */
export function rowLabels(trace, axis, size) {
  if (axis === "src") return trace.sourcePieces(size).slice(0, size).map(shown);
  const step = { frames: 1, "own frames": 1, "frames/2": 2 }[axis];
  if (step) return Array.from({ length: size }, (_, at) => `${num(at * step * trace.record.sound.seconds_frame, 2)} s`);
  if (axis === "tgt") return Array.from({ length: size }, (_, at) => t("reads", shown(trace.reads(at)), shown(trace.writes(at))));
  return Array.from({ length: size }, (_, at) => `${at}`);
}

/** Names of the keys of an axis: the pieces that are looked at. */
export function keyLabels(trace, axis, size) {
  if (axis === "tgt") return Array.from({ length: size }, (_, at) => shown(trace.reads(at)));
  return rowLabels(trace, axis, size);
}

export function columnLabels(axis, size) {
  return Array.from({ length: size }, (_, at) => `${axis}[${at}]`);
}

/** `[batch=1, heads=4, src=7, d_k=32]` */
export function shapeText(node) {
  return `[${node.axes.map((axis, at) => (/^\d+$/u.test(axis) ? axis : `${axis}=${node.shape[at]}`)).join(", ")}]`;
}

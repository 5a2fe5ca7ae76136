/* The pieces, always in sight: a click on one of the output chooses the step. */

import { h, num, percent, shown } from "./dom.js";
import { drawSound } from "./sound.js";
import { set, state } from "./state.js";
import { t } from "./texts.js";

export function drawStrip(trace) {
  const { record } = trace;
  const parts = [];
  if (record.sound) parts.push(h("h2", {}, t("sound")), drawSound(trace));
  else if (record.source) {
    const covered = record.summaries?.coverage ?? [];
    parts.push(h("h2", {}, t("source")), h("ol", { class: "pieces" }, record.source.pieces.map((piece, at) =>
      h("li", { class: piece.unknown ? "piece unknown" : "piece" }, h("b", { dir: "auto" }, shown(piece.text)), h("small", {}, `${piece.id}`),
        covered[at] === undefined ? null : h("small", { title: t("coverage") }, `Σ ${num(covered[at], 2)}`)))));
  }
  parts.push(h("h2", {}, t("output")), h("ol", { class: "pieces" }, record.steps.map((step) => {
    const piece = step.writes.piece;
    const probability = Math.exp(step.log_probability);
    const chosen = step.t === state.t;
    const label = `${t("step", step.t, record.steps.length)}: ${shown(piece)}, ${t("probability")} ${percent(probability)}, ${t("entropy")} H = ${num(step.entropy, 2)}, ${t("rank")} #${step.rank}`;
    return h("li", {}, h("button", {
      type: "button", class: chosen ? "piece chosen" : "piece", "aria-pressed": String(chosen), key: `step:${step.t}`, onclick: () => set({ t: step.t }),
      "aria-label": label, title: label,
    }, h("b", { dir: "auto" }, shown(piece)), h("small", {}, percent(probability)), h("small", {}, `H ${num(step.entropy, 2)}`), h("small", {}, `#${step.rank}`)));
  })));
  return parts;
}

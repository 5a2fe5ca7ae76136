/* Where the model was unsure, what it left out, and what it thinks of a reference. */

import { bar, h, headings, num, percent, shown } from "./dom.js";
import { set, state } from "./state.js";
import { isLive } from "./live.js";
import { t, verdictOf } from "./texts.js";
import { told } from "./words.js";

function stepTable(title, steps) {
  const total = steps.reduce((sum, step) => sum + step.log_probability, 0);
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, title),
    headings([t("piece"), t("logProbability"), t("probability"), t("entropy"), t("rank")]),
    steps.map((step) => h("tr", { class: step.rank > 1 ? "unsure" : "" },
      h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", key: `judge:${title}:${step.t}`, "aria-pressed": String(step.t === state.t), onclick: () => set({ t: step.t }) }, shown(step.writes.piece))),
      h("td", {}, num(step.log_probability)), h("td", {}, percent(Math.exp(step.log_probability))), h("td", {}, num(step.entropy, 3)), h("td", {}, `${step.rank}`))),
    h("tr", { class: "sum" }, h("th", { scope: "row" }, t("total")), h("td", {}, num(total)), h("td", {}), h("td", {}), h("td", {}))));
}

function flagLines(trace) {
  const { flags } = trace.record.summaries;
  const source = (at) => shown(trace.record.source.pieces[at].text);
  const output = (at) => shown(trace.record.output.pieces[at].text);
  const lines = [];
  for (const [name, piece] of [["uncovered", source], ["overcovered", source], ["unknown_source", source], ["unknown_output", output]]) {
    if (flags[name]?.length) lines.push(t(name, flags[name].map(piece).join(" ")));
  }
  if (flags.looping) lines.push(t("looping"));
  if (flags.cut) lines.push(t("cut"));
  if (trace.record.source?.truncated) lines.push(t("truncated"));
  lines.push(...trace.record.notes.map(told));
  return lines;
}

export function drawJudging(trace) {
  const { record } = trace;
  const covered = record.summaries?.coverage ?? [];
  const lines = record.summaries?.flags ? flagLines(trace) : [];
  return [
    h("section", {}, h("h2", {}, t("flags")), lines.length ? h("ul", {}, lines.map((line) => h("li", {}, line))) : h("p", {}, t("noFlags"))),
    stepTable(t("perPiece"), record.steps),
    covered.length && record.source && !record.sound ? h("section", {}, h("h2", {}, t("coverage")), h("p", { class: "note" }, t("coverageNote")),
      h("div", { class: "scroll" }, h("table", {}, covered.map((value, at) => h("tr", { class: value < 0.2 || value > 2 ? "unsure" : "" },
        h("th", { scope: "row" }, shown(record.source.pieces[at]?.text ?? "<pad>")), h("td", {}, num(value, 2)), h("td", {}, bar(50 * Math.min(value, 4)))))))) : null,
    h("section", {}, h("h2", {}, t("reference")), record.reference ? stepTable(record.reference.text, record.reference.steps) : h("p", {}, t(isLive() ? "typeReference" : "noReference")),
      record.verdict ? h("p", { class: "place" }, t("verdictIs", verdictOf(record.verdict))) : null),
  ];
}

/* Two systems side by side: what they write, and the first stage at which their numbers part. */

import { others, systemName } from "./ask.js";
import { bar, button, h, headings, num, shown } from "./dom.js";
import { isLive } from "./live.js";
import { set, state } from "./state.js";
import { nameOf, nodeOf, say, t } from "./texts.js";
import { told } from "./words.js";

const LEAST = 1e-5;

function chooser() {
  return h("div", { class: "row", role: "group", "aria-label": t("ask_against") }, others().map(([value, text]) =>
    button(text, () => set({ against: state.against === value ? "" : value }), { "aria-pressed": String(state.against === value), key: `against:${value}` })));
}

const otherName = (against) => (["greedy", "int8"].includes(against.name) ? systemName(against.name)
  : against.what_if.convention === against.name ? t("conventionOf", against.name) : t("modelNamed", against.name));

function outputs(trace, against) {
  const { record } = trace;
  const total = record.steps.reduce((sum, step) => sum + step.log_probability, 0);
  const row = (letter, name, search, text, sum) => h("tr", {}, h("th", { scope: "row" }, `${letter}: ${name}`), h("td", {}, search), h("td", { dir: "auto", class: "words" }, text), h("td", {}, num(sum)));
  return h("div", { class: "scroll" }, h("table", { id: "outputs" }, h("caption", {}, t("bothOutputs")),
    headings([t("system"), t("search"), t("output"), t("sum")]),
    row("A", record.model.name, told(record.search.name), record.output.text, total), row("B", otherName(against), told(against.search), against.output.text, against.sum)));
}

function verdict(trace, against) {
  const lines = [];
  const step = against.steps.find(({ t: at }) => at === against.apart);
  lines.push(h("p", { id: "apart" }, step ? t("outputsPart", step.t, shown(step.one ?? "–"), shown(step.other ?? "–")) : t("outputsSame")));
  const first = against.stages.find(({ stage }) => stage === against.first);
  if (!against.same_input) lines.push(h("p", { id: "first" }, t("otherPieces")));
  else if (!first) lines.push(h("p", { id: "first" }, t("numbersSame")));
  else {
    const node = trace.node(first.stage);
    const text = first.largest === null ? t("otherShape") : t("firstPart", num(first.largest, 5), num(first.one, 5), num(first.other, 5), percentOf(first));
    lines.push(h("p", { id: "first", class: "badge" }, t("numbersPart"), " ", opener(trace, first, node), " ", text));
  }
  return lines;
}

const percentOf = ({ largest, size }) => (size ? `${num(100 * largest / size, 1)}%` : "–");

function opener(trace, told, node) {
  const [, head, row, col] = told.place.length === 4 ? told.place : [0, 0, ...told.place.slice(1)];
  return button(nameOf(node), () => set({ view: "stage", stage: node.id, head: told.place.length === 4 ? head : state.head, row: row ?? -1, col: col ?? -1 }), { class: "quiet", key: `apart:${node.id}` });
}

function stepRows(against) {
  const cell = (value) => (value === null ? "–" : num(value));
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, t("stepByStep")),
    headings([t("stepLabel"), "A", t("logProbability"), "B", t("logProbability")]),
    against.steps.map((step) => h("tr", { class: step.one === step.other ? "" : "unsure" }, h("th", { scope: "row" }, `${step.t}`),
      h("td", {}, step.one === null ? "–" : shown(step.one)), h("td", {}, cell(step.log_probability)),
      h("td", {}, step.other === null ? "–" : shown(step.other)), h("td", {}, cell(step.other_log_probability))))));
}

function stageRows(trace, against) {
  if (!against.stages.length) return null;
  const most = Math.max(LEAST, ...against.stages.map(({ largest }) => largest ?? 0));
  const wide = (value) => (value < LEAST ? 0 : Math.max(2, 110 * Math.log(value / LEAST) / Math.log(most / LEAST || 2)));
  const rows = against.stages.map((told) => h("tr", { class: told.stage === against.first ? "unsure" : "" },
    h("th", { scope: "row" }, opener(trace, told, trace.node(told.stage))), h("td", {}, told.largest === null ? t("otherShape") : num(told.largest, 5)),
    h("td", {}, told.largest === null ? "–" : percentOf(told)), h("td", {}, told.one === null ? "–" : num(told.one, 4)), h("td", {}, told.other === null ? "–" : num(told.other, 4)), h("td", {}, bar(wide(told.largest ?? 0)))));
  const only = [["only_one", "A"], ["only_other", "B"]].filter(([name]) => against[name].length)
    .map(([name, letter]) => h("p", { class: "note" }, t("onlyIn", letter, against[name].length), " ", against[name].slice(0, 6).map((id) => nameOf(trace.node(id) ?? nodeOf(id))).join(say("; ", "；")) + (against[name].length > 6 ? " …" : "")));
  return h("section", {}, h("h2", {}, t("stageByStage")), h("p", { class: "note" }, t("sameInput")), only,
    h("div", { class: "scroll" }, h("table", { id: "parted" }, headings([t("stage"), t("largestDifference"), t("ofSize"), "A", "B", ""]), rows)));
}

export function drawCompare(trace) {
  const { against } = trace.record;
  const choice = isLive() ? chooser() : null;
  if (!against) return [choice, h("p", {}, isLive() ? t("chooseOther") : t("noOther"))];
  return [choice, outputs(trace, against), ...verdict(trace, against), stepRows(against), stageRows(trace, against)];
}

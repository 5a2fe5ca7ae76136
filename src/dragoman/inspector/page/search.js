/* The beam as a tree with every candidate, the greedy path over it, and what sampling would leave of a step. */

import { bar, button, h, headings, num, percent, s, saveSvg, shown } from "./dom.js";
import { isLive } from "./live.js";
import { pathIds } from "./question.js";
import { set, state } from "./state.js";
import { say, t } from "./texts.js";
import { told } from "./words.js";

const COLUMN = 128;
const ROW = 26;

/** Candidates that stand in the tree: with `all` every one, else those that went on, ended, or were greedy's. */
function standing(beam, all) {
  const parents = new Set(beam.events.map(({ parent }) => parent));
  const greedy = new Set(beam.greedy_events);
  return beam.events.filter((event) => all || event.fate !== "pruned" || parents.has(event.id) || greedy.has(event.id));
}

function placed(events) {
  const places = new Map();
  const byStep = new Map();
  for (const event of events) {
    const column = byStep.get(event.step) ?? [];
    column.push(event);
    byStep.set(event.step, column);
  }
  let most = 0;
  for (const [step, column] of byStep) {
    column.forEach((event, at) => places.set(event.id, { x: 40 + (step - 1) * COLUMN, y: 24 + at * ROW }));
    most = Math.max(most, column.length);
  }
  return { places, width: 60 + byStep.size * COLUMN, height: most * ROW + 30 };
}

function tree(beam, chosen) {
  const events = standing(beam, Boolean(state.show));
  const { places, width, height } = placed(events);
  const greedy = new Set((beam.greedy_events ?? []).filter(Boolean));
  const edges = events.map((event) => {
    const to = places.get(event.id);
    const from = event.parent ? places.get(event.parent) : { x: -70, y: 24 };
    if (!from) return null;
    const start = event.parent ? from.x + 98 : 4;
    return s("path", { d: `M${start} ${from.y} C${start + 14} ${from.y} ${to.x - 20} ${to.y} ${to.x - 4} ${to.y}`, fill: "none", class: `branch ${event.fate}${greedy.has(event.id) ? " greedy" : ""}` });
  });
  const nodes = events.map((event) => {
    const { x, y } = places.get(event.id);
    const choose = () => set({ stage: `beam:${event.id}` });
    const label = `${event.id} ${shown(event.piece)}, ${t("sum")} ${num(event.sum, 3)}, ${t(event.fate)}`;
    const group = s("g", { class: `candidate ${event.fate}${greedy.has(event.id) ? " greedy" : ""}${chosen?.id === event.id ? " chosen" : ""}`, role: "button", tabindex: 0, "aria-label": label, key: `beam:${event.id}` },
      s("rect", { x: x - 4, y: y - 11, width: 104, height: 22, rx: 5 }),
      s("text", { x: x + 2, y: y + 4 }, [...shown(event.piece)].slice(0, 9).join("")),
      s("text", { x: x + 96, y: y + 4, "text-anchor": "end", class: "small" }, num(event.sum, 2)));
    group.addEventListener("click", choose);
    group.addEventListener("keydown", (press) => {
      if (press.key === "Enter" || press.key === " ") { press.preventDefault(); choose(); }
    });
    return group;
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "figure tree", role: "group", "aria-label": t("beamTree") }, edges, nodes);
}

/** Score = sum ÷ divisor + reward, with the numbers in it. */
export function arithmetic({ sum, divisor, added, score }) {
  return `${num(sum)} ÷ ${num(divisor)}${added ? ` + ${num(added)}` : ""} = ${num(score)}`;
}

function candidate(beam, event) {
  if (!event) return null;
  const parent = beam.events.find(({ id }) => id === event.parent);
  const before = parent ? `${num(parent.sum)} ${event.log_probability < 0 ? "−" : "+"} ${num(Math.abs(event.log_probability))} = ` : "";
  const line = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const force = isLive() ? button(t("forceThis"), () => set({ forced: pathIds(beam, event).join("."), prefix: "", stage: "" }), { key: "force" }) : null;
  return h("div", { class: "row" }, h("dl", { class: "about", id: "candidate" }, line(t("candidate"), `${event.id} “${shown(event.piece)}”`),
    line(t("parent"), parent ? `${parent.id} “${shown(parent.piece)}”` : "<s>"), line(t("sum"), `${before}${num(event.sum)}`),
    line(t("score"), arithmetic(event)), line(t("fate"), t(event.fate)), line(t("why"), told(event.why))), force);
}

function greedyNote(trace) {
  const { beam } = trace.record;
  const pieces = beam.greedy.map((id, at) => beam.events.find((event) => event.id === beam.greedy_events?.[at])?.piece ?? `#${id}`);
  const last = beam.events.find((event) => event.id === beam.greedy_events?.at(-1));
  const best = beam.final[0];
  const parted = beam.greedy_events?.findIndex((id) => id === null) ?? -1;
  const ends = trace.record.output?.pieces.at(-1)?.id;
  const same = best && beam.greedy.filter((id) => id !== ends).join() === best.ids.join();
  return h("div", {}, h("p", { class: "greedy-text" }, t("greedyPath", pieces.map(shown).join(" "))),
    parted >= 0 ? h("p", {}, t("greedyOff", parted + 1)) : null,
    same ? h("p", {}, t("greedySame")) : last && best ? h("p", {}, t("greedyOther", num(last.sum), num(best.sum), best.sum > last.sum ? t("beamHigher") : "")) : null);
}

/** What temperature, top-k and top-p leave of the logits: the pieces by probability, before and after. */
export function sampled(logits, { temperature, k, p }) {
  const order = Array.from(logits, (_, id) => id).sort((a, b) => logits[b] - logits[a]);
  const share = (ids, heat) => {
    const most = logits[order[0]];
    const powers = ids.map((id) => Math.exp((logits[id] - most) / heat));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  };
  const before = share(order, 1);
  const warm = share(order, temperature);
  let left = k > 0 ? Math.min(k, order.length) : order.length;
  if (p < 1) {
    // top-p after top-k: as many of what is left as together reach p.
    const whole = warm.slice(0, left).reduce((a, b) => a + b, 0);
    let sum = 0;
    let count = 0;
    while (count < left && sum < p * whole) sum += warm[count++];
    left = Math.max(1, count);
  }
  return { order, before, after: share(order.slice(0, left), temperature), left };
}

/** With a server, a piece can be written in place of the one that was. */
function forcing(trace, id, piece) {
  if (!isLive() || trace.record.model.family !== "transformer") return piece;
  const ids = [...trace.steps.slice(0, state.t - 1).map((step) => step.writes.id), id];
  return button(piece, () => set({ forced: ids.join("."), prefix: "" }), { class: "quiet", key: `piece:${id}`, "aria-label": t("forcePiece", piece, state.t) });
}

function samplingView(trace) {
  const logits = trace.logits(state.t);
  const step = trace.steps[state.t - 1];
  if (!logits || !step) return null;
  const names = new Map(step.top.map(([id, piece]) => [id, piece]));
  const { order, before, after, left } = sampled(logits, state);
  const control = (name, key, range) => h("label", {}, t(name), h("input", {
    type: "range", ...range, value: state[key], key: `control:${key}`, oninput: (event) => set({ [key]: Number(event.target.value) }),
  }), h("output", {}, num(state[key], key === "k" ? 0 : 2)));
  return h("section", {}, h("h2", {}, t("sampling", state.t)), h("div", { class: "row" },
    control("temperature", "temperature", { min: 0.1, max: 3, step: 0.05 }), control("topK", "k", { min: 0, max: 20, step: 1 }), control("topP", "p", { min: 0.05, max: 1, step: 0.05 })),
  h("p", { role: "status" }, t("left_n", left, order.length)),
  h("div", { class: "scroll" }, h("table", {}, headings([t("piece"), t("logit"), t("before"), t("after"), ""]),
    order.slice(0, 12).map((id, at) => h("tr", { class: at < left ? "" : "gone" }, h("th", { scope: "row" }, forcing(trace, id, shown(names.get(id) ?? `#${id}`))),
      h("td", {}, num(logits[id])), h("td", {}, percent(before[at])), h("td", {}, after[at] === undefined ? "0" : percent(after[at])), h("td", {}, bar(120 * (after[at] ?? 0))))))));
}

export function drawSearch(trace) {
  const { beam, search } = trace.record;
  if (!beam) return [h("p", {}, t("noBeam")), samplingView(trace)];
  const chosen = beam.events.find((event) => `beam:${event.id}` === state.stage);
  const picture = tree(beam, chosen);
  const best = h("div", { class: "scroll" }, h("table", {}, h("caption", {}, t("finalSet")),
    headings([t("text"), t("sum"), t("length"), t("score")]),
    beam.final.map((row) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, row.text), h("td", {}, num(row.sum)), h("td", {}, `${row.length}`), h("td", {}, arithmetic(row))))));
  return [h("p", { class: "place" }, `${told(search.name)}${say(": ", "：")}${told(search.formula)}`),
    h("div", { class: "row" }, button(t("allCandidates"), () => set({ show: state.show ? 0 : 1 }), { "aria-pressed": String(Boolean(state.show)), key: "all" }),
      button(t("saveSvg"), () => saveSvg(picture, "beam.svg"))),
    h("div", { class: "scroll" }, picture), candidate(beam, chosen), greedyNote(trace), best, h("p", {}, t("stop", told(beam.stop))), samplingView(trace)];
}

/* The frame: what is looked at is drawn anew at each change, and the focus stays where it was. */

import { drawAsk, drawPresets } from "./ask.js";
import { isDark } from "./colors.js";
import { drawCompare } from "./compare.js";
import { inPage } from "./data.js";
import { button, h, saveDrawn } from "./dom.js";
import { drawEmbeddings } from "./embeddings.js";
import { drawHeads } from "./heads.js";
import { drawJudging } from "./judging.js";
import { about, ask, fetchAhead, isLive } from "./live.js";
import { drawMap, NARROW } from "./map.js";
import { pictureOf } from "./picture.js";
import { body } from "./question.js";
import { drawQuiz, forgetAnswers } from "./quiz.js";
import { drawSearch } from "./search.js";
import { drawStage, stageNow } from "./stage.js";
import { keep, kept, listen, set, state } from "./state.js";
import { drawSteps } from "./steps.js";
import { drawStrip } from "./strip.js";
import { choose, lang, t } from "./texts.js";
import { drawTour } from "./tour.js";

const VIEWS = { map: drawMap, stage: drawStage, steps: drawSteps, search: drawSearch, heads: drawHeads, judging: drawJudging, embeddings: drawEmbeddings, compare: drawCompare, tour: drawTour, quiz: drawQuiz };
const byId = (id) => document.getElementById(id);
let presets = [];
let trace = null;
let offer = null;
let problem = null;
let asking = null;
let asked = "";
let drawing = 0;
let loaded = false;

function words() {
  document.documentElement.lang = lang() === "zh" ? "zh-Hans" : "en";
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  byId("interface-language").textContent = t("otherLanguage");
  byId("theme").setAttribute("aria-pressed", String(isDark()));
}

const viewNow = () => (Object.hasOwn(VIEWS, state.view) ? state.view : "map");

/** A view as elements; null if it needs numbers that are still to be fetched. */
function content() {
  if (!trace) return isLive() || !loaded ? [] : [h("p", { role: "alert" }, t("noRecord"))];
  const waits = () => trace.store?.wanted.size > 0;
  try {
    const parts = [...drawStrip(trace), [VIEWS[viewNow()](trace)].flat().filter(Boolean)];
    return waits() ? null : parts;
  } catch (error) {
    if (waits()) return null;
    throw error;
  }
}

/** Draw everything; where numbers are missing, the former view stays until they are there. */
async function draw() {
  const mine = ++drawing;
  words();
  frame();
  const of = trace;
  let parts = content();
  while (!parts) {
    await of.store.load();
    if (mine !== drawing) return;
    parts = content();
  }
  place(parts);
}

function frame() {
  const current = viewNow();
  const focus = document.activeElement?.dataset?.key;
  byId("views").replaceChildren(...Object.keys(VIEWS).map((name) =>
    button(t(name), () => set({ view: name }), { key: `view:${name}`, "aria-current": name === current ? "page" : null })));
  if (byId("view").dataset.view !== current) byId("views").scrollLeft = byId("views").querySelector("[aria-current]").offsetLeft - 60;
  if (focus?.startsWith("view:")) byId("views").querySelector(`[data-key="${focus}"]`)?.focus({ preventScroll: true });
  byId("ask").hidden = !isLive() && presets.length < 2;
  if (isLive()) drawAsk(byId("ask"), { about: offer, trace, problem, busy: asking !== null, lang: lang() });
  else if (presets.length > 1) drawPresets(byId("ask"), presets);
  byId("view").setAttribute("aria-busy", String(asking !== null));
}

function place(parts) {
  const focus = document.activeElement?.dataset?.key;
  const cell = focus?.startsWith("cell:");
  byId("strip").hidden = !trace;
  if (!trace) {
    byId("view").replaceChildren(...parts);
    return;
  }
  const { model } = trace.record;
  byId("model-line").textContent = `${model.name} · ${model.family} · ${t("parameters", model.parameters.toLocaleString("en"))}`;
  byId("strip").replaceChildren(...parts.slice(0, -1));
  byId("view").dataset.view = viewNow();
  byId("view").replaceChildren(...parts.at(-1));
  if (!focus || document.activeElement?.dataset?.key === focus) return;
  const keyed = [...document.querySelectorAll("[data-key]")];
  const wanted = cell ? `${focus.split(":").slice(0, 2).join(":")}:` : focus;
  (keyed.find(({ dataset }) => dataset.key === wanted) ?? keyed.find(({ dataset }) => dataset.key === focus))?.focus({ preventScroll: !cell });
}

/** Ask anew where something else is asked now; the last question wins. */
async function follow() {
  if (!isLive()) {
    trace = presets[Math.min(Math.max(0, state.preset), presets.length - 1)]?.trace ?? null;
    return;
  }
  const wanted = JSON.stringify(body());
  if (wanted === asked || !state.text.trim()) return;
  asked = wanted;
  asking?.abort();
  const mine = asking = new AbortController();
  try {
    const found = await ask(body(), mine.signal);
    if (mine !== asking) return;
    [trace, problem] = [found, null];
    forgetAnswers();
    if (state.t > trace.steps.length) state.t = Math.max(1, trace.steps.length);
  } catch (error) {
    if (mine !== asking) return;
    problem = error;
  }
  asking = null;
  await draw();
  if (trace && !problem) fetchAhead(trace);
}

async function begin() {
  if (!isLive()) {
    presets = await inPage();
    loaded = true;
    await follow();
    await draw();
    return;
  }
  draw();
  const first = state.text.trim() ? follow() : null; // what stands in the address need not wait for the offer
  try {
    offer = await about();
    if (!state.text.trim() && offer.example) set({ text: offer.example }, true);
    else draw();
  } catch (error) {
    problem = error;
    draw();
  }
  await (first ?? follow());
}

function changed() {
  follow();
  draw();
}

const KEYS = {
  ArrowLeft: () => set({ t: Math.max(1, state.t - 1) }),
  ArrowRight: () => set({ t: Math.min(trace.steps.length || 1, state.t + 1) }),
  ArrowUp: () => layer(1),
  ArrowDown: () => layer(-1),
  "[": () => set({ head: Math.max(0, state.head - 1) }),
  "]": () => set({ head: Math.min((trace.sizes.num_heads ?? 1) - 1, state.head + 1) }),
};

/** A layer up or down; in the view of a stage it is the same stage of that layer. */
function layer(by) {
  const next = Math.max(0, state.layer + by);
  const changes = {};
  if (trace.record.graph.nodes.some((node) => node.layer === next)) changes.layer = next;
  const node = stageNow(trace);
  if (state.view === "stage" && node && node.layer !== null) {
    const other = node.id.replace(/layers\.\d+/u, `layers.${node.layer + by}`);
    if (!trace.node(other)) return;
    Object.assign(changes, { stage: other, layer: node.layer + by });
  }
  set(changes);
}

addEventListener("keydown", (event) => {
  if (!trace || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const number = "1234567890".indexOf(event.key);
  if (event.key.length === 1 && number >= 0) set({ view: Object.keys(VIEWS)[number] });
  else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

byId("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  keep("theme", theme);
  draw();
});
byId("interface-language").addEventListener("click", () => {
  choose(lang() === "zh" ? "en" : "zh");
  keep("inspector-language", lang());
  draw();
});
byId("picture").addEventListener("click", () => saveDrawn(pictureOf(byId("view")), `${viewNow()}.svg`));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("view").focus();
});
NARROW.addEventListener("change", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("newkey", () => {
  asked = "";
  problem = null;
  begin();
});
const theme = kept("theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
listen(changed);
begin();

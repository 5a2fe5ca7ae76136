/* The frame: what is looked at is drawn anew at each change, and the focus stays where it was. */

import { inPage } from "./data.js";
import { button, h } from "./dom.js";
import { drawEmbeddings } from "./embeddings.js";
import { drawHeads } from "./heads.js";
import { drawJudging } from "./judging.js";
import { drawMap, NARROW } from "./map.js";
import { drawQuiz } from "./quiz.js";
import { drawSearch } from "./search.js";
import { drawStage, stageNow } from "./stage.js";
import { keep, kept, listen, set, state } from "./state.js";
import { drawSteps } from "./steps.js";
import { drawStrip } from "./strip.js";
import { isDark } from "./colors.js";
import { choose, lang, t } from "./texts.js";
import { drawTour } from "./tour.js";

const VIEWS = { map: drawMap, stage: drawStage, steps: drawSteps, search: drawSearch, heads: drawHeads, judging: drawJudging, embeddings: drawEmbeddings, tour: drawTour, quiz: drawQuiz };
const byId = (id) => document.getElementById(id);
const trace = inPage();

function words() {
  document.documentElement.lang = lang() === "zh" ? "zh-Hans" : "en";
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  byId("interface-language").textContent = t("otherLanguage");
  byId("theme").setAttribute("aria-pressed", String(isDark()));
}

function draw() {
  const focus = document.activeElement?.dataset?.key;
  const cell = focus?.startsWith("cell:");
  words();
  const current = Object.hasOwn(VIEWS, state.view) ? state.view : "map";
  byId("views").replaceChildren(...Object.keys(VIEWS).map((name) =>
    button(t(name), () => set({ view: name }), { key: `view:${name}`, "aria-current": name === current ? "page" : null })));
  if (byId("view").dataset.view !== current) byId("views").scrollLeft = byId("views").querySelector("[aria-current]").offsetLeft - 60;
  if (!trace) {
    byId("view").replaceChildren(h("p", { role: "alert" }, t("noRecord")));
    return;
  }
  const { model } = trace.record;
  byId("model-line").textContent = `${model.name} · ${model.family} · ${t("parameters", model.parameters.toLocaleString("en"))}`;
  byId("strip").replaceChildren(...drawStrip(trace));
  byId("view").dataset.view = current;
  byId("view").replaceChildren(...[VIEWS[current](trace)].flat().filter(Boolean));
  if (!focus) return;
  const keyed = [...document.querySelectorAll("[data-key]")];
  const wanted = cell ? `${focus.split(":").slice(0, 2).join(":")}:` : focus;
  (keyed.find(({ dataset }) => dataset.key === wanted) ?? keyed.find(({ dataset }) => dataset.key === focus))?.focus({ preventScroll: !cell });
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
  const number = Number(event.key);
  if (number >= 1 && number <= Object.keys(VIEWS).length) set({ view: Object.keys(VIEWS)[number - 1] });
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
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("view").focus();
});
NARROW.addEventListener("change", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const theme = kept("theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
listen(draw);
draw();

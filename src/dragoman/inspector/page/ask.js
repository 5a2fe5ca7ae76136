/* The bar in which one asks: text, target, what if. It stays while views are drawn anew, so that typing goes on. */

import { button, h, shown } from "./dom.js";
import { useKey } from "./live.js";
import { changes, NOTHING, sounds } from "./question.js";
import { set, state } from "./state.js";
import { nameOf, t } from "./texts.js";

const MOST_BYTES = 8 << 20; // of a recording
const WAIT = 120; // milliseconds after the last letter
let timer = 0;
let offer = { models: [], systems: [], limits: { beam_size: 16, characters: 10_000 } };

function typed(name) {
  return (event) => {
    const { value } = event.target;
    clearTimeout(timer);
    timer = setTimeout(() => set({ [name]: value, ...(name === "text" ? { forced: "" } : {}) }, true), WAIT);
  };
}

function field(name, more = {}) {
  return h("label", { class: more.class ?? "field" }, t(more.label ?? `ask_${name}`), h("input", {
    type: "text", id: `ask-${name}`, value: state[name], oninput: typed(name), autocomplete: "off", spellcheck: "false", dir: "auto",
    maxlength: offer.limits.characters, placeholder: more.placeholder ?? null,
  }));
}

function select(name, values, label, none) {
  const known = values.some(([value]) => value === state[name]) || !state[name] ? values : [...values, [state[name], state[name]]];
  return h("label", { class: "field" }, label, h("select", { id: `ask-${name}`, onchange: (event) => set({ [name]: event.target.value, ...(name === "model" ? { from: "", to: "" } : {}) }) },
    none === null ? null : h("option", { value: "" }, none), known.map(([value, text]) => h("option", { value, selected: value === state[name] }, text))));
}

const box = (name) => h("label", { class: "check" }, h("input", {
  type: "checkbox", id: `ask-${name}`, checked: Boolean(state[name]), onchange: (event) => set({ [name]: event.target.checked ? 1 : 0 }),
}), t(`ask_${name}`));

export const systemName = (name) => (["greedy", "int8"].includes(name) ? t(`system_${name}`) : name);

/** What can be set beside the model: systems of the same weights, and other models. */
export function others() {
  const own = state.model || offer.models[0]?.name;
  return [...offer.systems.filter((name) => !modelNow().listens || ["greedy", "int8"].includes(name)).map((name) => [name, systemName(name)]), ...offer.models.filter(({ name }) => name !== own).map(({ name }) => [name, t("modelNamed", name)])];
}

const modelNow = () => offer.models.find(({ name }) => name === state.model) ?? offer.models[0] ?? { family: "transformer" };

/** A field for a file of sound, for a model that listens. */
function recording() {
  const told = h("span", { id: "ask-recording", dir: "auto" }, state.text);
  return h("label", { class: "field long" }, t("ask_sound"), " ", told, h("input", { type: "file", id: "ask-sound", accept: "audio/*,.wav,.flac,.ogg,.mp3", onchange: async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    if (file.size > MOST_BYTES) {
      told.textContent = t("soundTooLarge", MOST_BYTES >> 20);
      return;
    }
    let letters = "";
    for (const byte of new Uint8Array(await file.arrayBuffer())) letters += String.fromCharCode(byte);
    sounds.set(file.name, btoa(letters));
    set({ text: file.name, forced: "" }, true);
  } }));
}

function form() {
  const conventions = offer.systems.filter((name) => !["greedy", "int8"].includes(name)).map((name) => [name, name]);
  const models = offer.models.map(({ name }) => [name, name]);
  const open = changes().some(({ name }) => !["target", "against", "off", "forced"].includes(name));
  // Only what translates has a target, and only it a batch with padding; gaps are filled without a search.
  const { family, listens, sources, targets } = modelNow();
  const languages = (name, codes) => (codes?.length > 1 ? select(name, codes.map((code) => [code, code]), t(`ask_${name}`), t("own")) : null);
  const [pair, searches] = [family === "transformer", family !== "masked"];
  const beam = h("label", { class: "field short" }, t("ask_beam"), h("input", {
    type: "number", id: "ask-beam", min: 1, max: offer.limits.beam_size, value: state.beam || "", placeholder: t("own"),
    onchange: (event) => set({ beam: Math.max(0, Math.min(offer.limits.beam_size, Math.floor(Number(event.target.value)) || 0)) }),
  }));
  return h("form", { id: "ask-form", onsubmit: (event) => event.preventDefault() },
    h("div", { class: "fields" }, models.length > 1 ? select("model", models.slice(1), t("ask_model"), models[0][0]) : null, listens ? recording() : field("text", { class: "field long" }), pair ? field("target") : null,
      languages("from", sources), languages("to", targets)),
    h("details", { open }, h("summary", {}, t("whatIf")), h("div", { class: "fields" }, pair ? [field("prefix"), listens ? null : field("beside")] : null, searches ? beam : null,
      listens ? null : select("convention", conventions, t("ask_convention"), t("own")), select("precision", [["int8", "int8"]], t("ask_precision"), "float32"),
      select("against", others(), t("ask_against"), t("nobody")), box("causal"), pair && !listens ? box("padding") : null)));
}

function keyForm(problem) {
  if (![401, 403].includes(problem?.status)) return null;
  const input = h("input", { type: "password", id: "ask-key", autocomplete: "off" });
  return h("form", { onsubmit: (event) => { event.preventDefault(); useKey(input.value); dispatchEvent(new Event("newkey")); } },
    h("label", { class: "field" }, t("keyLabel"), input), h("button", { type: "submit" }, t("keySend")));
}

function chip({ name, value, undo }, trace) {
  let text = t(`changed_${name}`, value);
  if (name === "off") {
    const [path, head] = [value.slice(0, value.lastIndexOf(":")), Number(value.slice(value.lastIndexOf(":") + 1))];
    const node = trace?.node(`${path}.weights`);
    text = t("changed_off", node ? nameOf(node).split(" · ").slice(0, 3).join(" · ") : path, head);
  }
  if (name === "forced") text = t("changed_forced", trace?.steps.slice(0, String(value).split(".").length).map((step) => shown(step.writes.piece)).join(" ") ?? "");
  if (name === "against") text = t("changed_against", systemName(value));
  return button(`${text} ×`, () => set(undo), { class: "chip", "aria-label": `${t("undo")}: ${text}` });
}

let drawnFor = "";

/** Draw the bar; fields are made anew only where the words or the offer changed. */
export function drawAsk(place, { about, trace, problem, busy, lang }) {
  if (about) offer = about;
  const now = `${lang} ${state.model} ${JSON.stringify(offer)}`;
  if (now !== drawnFor) {
    drawnFor = now;
    place.replaceChildren(form(), h("div", { id: "ask-changes", class: "row" }), h("div", { id: "ask-told" }));
  }
  for (const name of ["text", "target", "prefix", "beside", "convention", "precision", "against", "model", "from", "to"]) {
    const input = document.getElementById(`ask-${name}`);
    if (input && document.activeElement !== input && input.value !== state[name]) input.value = state[name];
  }
  const named = document.getElementById("ask-recording");
  if (named) named.textContent = state.text;
  for (const name of ["causal", "padding"]) {
    const mark = document.getElementById(`ask-${name}`);
    if (mark) mark.checked = Boolean(state[name]);
  }
  const beam = document.getElementById("ask-beam");
  if (beam && document.activeElement !== beam) beam.value = state.beam || "";
  const made = changes();
  document.getElementById("ask-changes").replaceChildren(...made.map((one) => chip(one, trace)),
    ...(made.length > 1 ? [button(t("undoAll"), () => set(NOTHING), { class: "chip" })] : []));
  const told = document.getElementById("ask-told");
  if (!told.contains(document.activeElement)) {
    told.replaceChildren(...[
      problem ? h("p", { role: "alert", class: "badge off" }, problemText(problem)) : null, keyForm(problem),
      h("p", { role: "status", class: "note" }, busy ? t("computing") : trace || problem ? "" : t(modelNow().listens ? "soundChosen" : "typeSomething")),
    ].filter(Boolean));
  }
}

function problemText(problem) {
  if (problem.status === 0) return t("noServer");
  const known = { 401: "needsKey", 403: "wrongKey", 429: "tooMuchUsed", 503: "overloaded", 504: "tooSlow" }[problem.status];
  return known ? t(known) : `${t("refused")}: ${problem.message}${problem.hint ? ` (${problem.hint})` : ""}`;
}

/** In a file: what was traced besides, to choose from. */
export function drawPresets(place, presets) {
  place.replaceChildren(h("h2", {}, t("whatIf")), h("div", { class: "row" }, presets.map(({ name }, at) =>
    button(at ? t(`preset_${name}`) : t("asItIs"), () => set({ preset: at }), { "aria-pressed": String(at === state.preset), key: `preset:${at}` }))));
}

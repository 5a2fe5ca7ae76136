/** Which language into which, and by which model: the selects above the panes. */

import { recall, remember } from "./storage.js";
import { languageName, onLanguage, say } from "./texts.js";

const AUTO = "auto";
const BY_NAME = "model:";
/** So many models are named in the footer. */
const NAMED = 6;
const sourceSelect = document.querySelector("#source-language");
const targetSelect = document.querySelector("#target-language");
const modelSelect = document.querySelector("#model");
const swapButton = document.querySelector("#swap");

/** @type {{name: string, source: string, target: string, engine: string}[]} */
let models = [];
/** Those that listen to sounds. @type {{name: string, source: string, target: string, engine: string}[]} */
let listeners = [];
/** Pairs whose languages are known. @type {{source: string, target: string, models: string[], pivot: ?string}[]} */
let pairs = [];
/** The language that the server found in the last text. @type {string | null} */
let detected = null;

/**
 * @param {{models: object[], pairs: object[]}} answer of `/v1/models`
 */
export function offerLanguages(answer) {
  models = answer.models.filter(({ reads }) => reads !== "sound");
  listeners = answer.models.filter(({ reads }) => reads === "sound");
  pairs = answer.pairs.filter(({ source, target }) => source !== "und" && target !== "und");
  const [source, target] = (recall("pair") ?? "").split(" ");
  fillSelects(source || defaultSource(), target || "");
}

/** @returns {string} detection where there is something to detect */
function defaultSource() {
  const sources = new Set(pairs.map((pair) => pair.source));
  return sources.size > 1 ? AUTO : "";
}

/** Models that can only be chosen by name. */
function namedModels() {
  return models.filter(({ source, target }) => source === "und" || target === "und");
}

/** Fill both selects again, and keep this choice where it is possible. @param {string} source @param {string} target */
function fillSelects(source, target) {
  const sources = unique(pairs.map((pair) => pair.source));
  const options = byName(sources).map((code) => new Option(languageName(code), code));
  if (sources.length > 1) options.unshift(new Option(detectText(), AUTO));
  const named = namedModels().map(({ name }) => new Option(name, BY_NAME + name));
  if (named.length) {
    const group = document.createElement("optgroup");
    group.label = say("byName");
    group.append(...named);
    options.push(group);
  }
  sourceSelect.replaceChildren(...options);
  choose(sourceSelect, source);
  fillTargets(target);
}

/** @param {string} target the choice to keep */
function fillTargets(target) {
  const source = sourceSelect.value;
  const fixed = source.startsWith(BY_NAME);
  const reachable = pairs.filter((pair) => source === AUTO || pair.source === source).map((pair) => pair.target);
  const options = byName(unique(reachable)).map((code) => new Option(languageName(code), code));
  targetSelect.replaceChildren(...(fixed ? [new Option(say("asTheModel"), "")] : options));
  targetSelect.disabled = fixed;
  choose(targetSelect, target || document.documentElement.lang.slice(0, 2));
  fillModels();
}

/** More than one model for a pair: then there is something to choose. */
function fillModels() {
  const [source, target] = [sourceSelect.value, targetSelect.value];
  const names = models.filter((model) => model.source === source && model.target === target).map(({ name }) => name);
  const before = modelSelect.value;
  modelSelect.replaceChildren(...names.map((name) => new Option(name, name)));
  choose(modelSelect, before);
  document.querySelector("#model-choice").hidden = names.length < 2;
  swapButton.disabled = !reversePair();
}

/** @param {HTMLSelectElement} select @param {string} value taken where it is on offer, else the first */
function choose(select, value) {
  select.value = value;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

function unique(codes) {
  return [...new Set(codes)];
}

/** @param {string[]} codes @returns {string[]} in the order of their names */
function byName(codes) {
  return codes.sort((a, b) => languageName(a).localeCompare(languageName(b), document.documentElement.lang));
}

function detectText() {
  return detected ? say("detected", { language: languageName(detected) }) : say("detect");
}

function findPair(source, target) {
  return pairs.find((pair) => pair.source === source && pair.target === target);
}

function reversePair() {
  const source = sourceSelect.value === AUTO ? detected : sourceSelect.value;
  return source ? findPair(targetSelect.value, source) : undefined;
}

/** @returns {{source: string | null, target: string | null, model: string | null}} as a request wants it */
export function chosenLanguages() {
  const source = sourceSelect.value;
  if (source.startsWith(BY_NAME)) return { source: null, target: null, model: source.slice(BY_NAME.length) };
  const model = modelSelect.options.length > 1 ? modelSelect.value : null;
  return { source: source || null, target: targetSelect.value || null, model };
}

/** @returns {{source: string, target: string}} for lang=; "" where nobody knows */
export function spokenLanguages() {
  const { source, target, model } = chosenLanguages();
  const named = models.find(({ name }) => name === model);
  const known = (code) => (!code || code === "und" ? "" : code);
  return {
    source: known(source === AUTO ? detected : (source ?? named?.source)),
    target: known(target ?? named?.target),
  };
}

/** @param {string} source the language that the server found */
export function tellDetected(source) {
  if (sourceSelect.value !== AUTO || source === "und") return;
  detected = source;
  sourceSelect.options[0].text = detectText();
  swapButton.disabled = !reversePair();
}

/** @param {string[]} names @returns {string} models with their engines, for the footer */
export function describeModels(names) {
  const described = names.slice(0, NAMED).map((name) => {
    const engine = [...models, ...listeners].find((model) => model.name === name)?.engine;
    return engine ? `${name} (${engine})` : name;
  });
  return [...described, ...(names.length > NAMED ? ["…"] : [])].join(", ");
}

/** @returns {string[]} */
export function modelNames() {
  return [...models, ...listeners].map(({ name }) => name);
}

/** @returns {boolean} whether there is a model that reads texts */
export function canTranslate() {
  return models.length > 0;
}

/** @returns {object[]} the models that listen to sounds */
export function listeningModels() {
  return listeners;
}

/** @param {string} code the language of a text that comes @returns {boolean} whether it can be translated from */
export function chooseSource(code) {
  if (code === "und" || sourceSelect.value === code) return true;
  if (!pairs.some(({ source }) => source === code)) return false;
  if (sourceSelect.value !== AUTO) fillSelects(code, targetSelect.value);
  return true;
}

/**
 * @param {{onChange: () => void, onSwap: () => void}} callbacks
 */
export function watchLanguages({ onChange, onSwap }) {
  const changed = () => {
    swapButton.disabled = !reversePair();
    remember("pair", `${sourceSelect.value} ${targetSelect.value}`);
    onChange();
  };
  sourceSelect.addEventListener("change", () => {
    fillTargets(targetSelect.value);
    changed();
  });
  targetSelect.addEventListener("change", () => {
    fillModels();
    changed();
  });
  modelSelect.addEventListener("change", changed);
  swapButton.addEventListener("click", () => {
    const pair = reversePair();
    fillSelects(pair.source, pair.target);
    onSwap();
    changed();
  });
  onLanguage(() => fillSelects(sourceSelect.value, targetSelect.value));
}

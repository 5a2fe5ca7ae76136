/** Which language into which, and by which model: the selects above the panes. */

import { Chooser, watchChoosers } from "./chooser.js";
import { recall, remember } from "./storage.js";
import { languageName, onLanguage, say, takeNames } from "./texts.js";

const AUTO = "auto";
const BY_NAME = "model:";
/** So many models are named in the footer. */
const NAMED = 6;
const sourceSelect = document.querySelector("#source-language");
const targetSelect = document.querySelector("#target-language");
const modelSelect = document.querySelector("#model");
const swapButton = document.querySelector("#swap");

/** @typedef {{name: string, source: string, target: string, sources: string[], targets: string[], engine: string}} Model */

/** Those for one pair of languages come first. @type {Model[]} */
let models = [];
/** Those that listen to sounds. @type {Model[]} */
let listeners = [];
/** Pairs whose languages are known, but for those of models for many languages. @type {{source: string, target: string, models: string[], pivot: ?string}[]} */
let pairs = [];
const choosers = [sourceSelect, targetSelect].map((select) => new Chooser(select));
/** The language that the server found in the last text. @type {string | null} */
let detected = null;

/**
 * @param {{models: object[], pairs: object[]}} answer of `/v1/models`
 */
export function offerLanguages(answer) {
  for (const { sources, targets } of answer.models) takeNames([...(sources ?? []), ...(targets ?? [])]);
  models = answer.models.filter(({ reads }) => reads !== "sound").map(withCodes);
  models.sort((one, other) => isMany(one) - isMany(other));
  listeners = answer.models.filter(({ reads }) => reads === "sound");
  pairs = answer.pairs.filter(({ source, target }) => source !== "und" && target !== "und");
  const [source, target] = (recall("pair") ?? "").split(" ");
  fillSelects(source || defaultSource(), target || "");
}

/** @returns {Model} with its languages as codes alone */
function withCodes(model) {
  const codes = (side, usual) => (side ?? [{ language: usual }]).map(({ language }) => language);
  return { ...model, sources: codes(model.sources, model.source), targets: codes(model.targets, model.target) };
}

/** @param {Model} model @returns {boolean} whether it is for more than one pair of languages */
function isMany({ sources, targets }) {
  return sources.length > 1 || targets.length > 1;
}

/** @returns {string} detection where there is something to detect */
function defaultSource() {
  return allSources().length > 1 ? AUTO : "";
}

/** Models that can only be chosen by name. */
function namedModels() {
  return models.filter(({ sources, targets }) => sources.includes("und") || targets.includes("und"));
}

/** Models for many languages, all of them known. */
function manyModels() {
  return models.filter((model) => isMany(model) && !namedModels().includes(model));
}

/** @returns {string[]} what can be translated from */
function allSources() {
  return unique([...pairs.map(({ source }) => source), ...manyModels().flatMap(({ sources }) => sources)]);
}

/** @param {string} source or detection @returns {string[]} what can be translated to from it */
function targetsOf(source) {
  const reads = (one) => source === AUTO || one === source;
  const reached = pairs.filter((pair) => reads(pair.source)).map(({ target }) => target);
  const many = manyModels().filter(({ sources }) => sources.some(reads));
  return unique([...reached, ...many.flatMap(({ targets }) => targets).filter((target) => target !== source)]);
}

/** Fill both selects again, and keep this choice where it is possible. @param {string} source @param {string} target */
function fillSelects(source, target) {
  const sources = allSources();
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
  const named = source.startsWith(BY_NAME) ? models.find(({ name }) => BY_NAME + name === source) : undefined;
  const codes = named ? named.targets.filter(() => named.targets.length > 1) : targetsOf(source);
  const options = byName(codes).map((code) => new Option(languageName(code), code));
  targetSelect.replaceChildren(...(options.length ? options : [new Option(say("asTheModel"), "")]));
  targetSelect.disabled = !options.length;
  choose(targetSelect, target, document.documentElement.lang, ...models.map((model) => model.target));
  fillModels();
}

/** More than one model for a pair: then there is something to choose. */
function fillModels() {
  const [source, target] = [sourceSelect.value, targetSelect.value];
  const fitting = models.filter(({ sources, targets }) => sources.includes(source) && targets.includes(target));
  const names = fitting.map(({ name }) => name);
  const before = modelSelect.value;
  modelSelect.replaceChildren(...names.map((name) => new Option(name, name)));
  choose(modelSelect, names.includes(before) ? before : "");
  document.querySelector("#model-choice").hidden = names.length < 2;
  swapButton.disabled = !reversePair();
  for (const chooser of choosers) chooser.refresh();
}

/** @param {HTMLSelectElement} select @param {string[]} values the first that is on offer is taken, else the first of all */
function choose(select, ...values) {
  const codes = [...select.options].map(({ value }) => value);
  const base = (code) => code.split("-")[0];
  const like = (value) => codes.find((code) => code === value) ?? codes.find((code) => base(code) === base(value));
  const found = values.filter(Boolean).map(like).find(Boolean);
  select.selectedIndex = Math.max(0, codes.indexOf(found));
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

/** @returns {string[] | undefined} the way back: source and target */
function reversePair() {
  const source = sourceSelect.value === AUTO ? detected : sourceSelect.value;
  return source && targetsOf(targetSelect.value).includes(source) ? [targetSelect.value, source] : undefined;
}

/** @returns {{source: string | null, target: string | null, model: string | null}} as a request wants it */
export function chosenLanguages() {
  const source = sourceSelect.value;
  if (source.startsWith(BY_NAME)) return { source: null, target: targetSelect.value || null, model: source.slice(BY_NAME.length) };
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
  for (const chooser of choosers) chooser.refresh();
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
  if (!allSources().includes(code)) return false;
  if (sourceSelect.value !== AUTO) fillSelects(code, targetSelect.value);
  return true;
}

/**
 * @param {{onChange: () => void, onSwap: () => void}} callbacks
 */
export function watchLanguages({ onChange, onSwap }) {
  watchChoosers();
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
    fillSelects(...reversePair());
    onSwap();
    changed();
  });
  onLanguage(() => fillSelects(sourceSelect.value, targetSelect.value));
}

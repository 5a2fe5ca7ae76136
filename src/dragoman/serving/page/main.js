/** The page: what happens at what. */

import { readAlternatives, readModels, translate } from "./api.js";
import { watchDocuments } from "./documents.js";
import {
  canTranslate, chooseSource, chosenLanguages, describeModels, listeningModels, modelNames, offerLanguages, spokenLanguages, tellDetected, watchLanguages,
} from "./languages.js";
import { closeMenu, openMenu, watchMenu } from "./menu.js";
import { clearError, explain, showError, showMessage, showNotes, watchNotices, whisper } from "./notices.js";
import { Output } from "./output.js";
import { offerSounds, watchSounds } from "./sounds.js";
import { focusSource, markSource, setSourceLanguage, setSourceText, sourceText, watchSource } from "./source.js";
import { recall, remember } from "./storage.js";
import { beginLanguage, languageName, onLanguage, percent, say, sayAll, toggleLanguage } from "./texts.js";
import { Translating } from "./translating.js";
import { countCharacters, placeWords, plainWords, textOf } from "./words.js";

const find = (id) => document.getElementById(id);
const detail = find("word-detail");

let limits = { characters: 10000, document_bytes: 10 * 2 ** 20 };
/** What the output shows; null before there is anything. @type {import("./translating.js").Done | null} */
let shown = null;
/** The views before each choice of another word, last choice last. @type {import("./words.js").View[]} */
let choices = [];
/** The models of the last translation. @type {string[]} */
let used = [];
/** What wrote the text down, where it was not translated. @type {string[]} */
let heardBy = [];

const output = new Output(find("output"), { onOpen: openWord, onPoint: pointAt });
const translating = new Translating({ onGrowing: showGrowing, onDone: showDone, onError: showFailure });

function job() {
  return { text: sourceText(), languages: chosenLanguages(), limit: limits.characters };
}

/** @param {boolean} [atOnce] without waiting for more typing */
function translateText(atOnce = false) {
  tellCount();
  closeMenu();
  clearError();
  if (!sourceText().trim() || !canTranslate()) return showNothing();
  if (atOnce) translating.now(job());
  else translating.later(job());
  return undefined;
}

function showNothing() {
  translating.stop();
  forget();
  used = heardBy = [];
  output.clear();
  showNotes([]);
  showProgress(0, 0);
  arrange();
}

/** What is known of the last translation holds no more. */
function forget() {
  shown = null;
  choices = [];
  detail.textContent = "";
}

/** The text while it grows, with the paragraphs that are done. */
function showGrowing(settled, tentative, done, total) {
  clearError({ answered: true });
  forget();
  setSpoken();
  output.showGrowing(settled, tentative);
  showProgress(done, total);
  arrange();
}

/** @param {import("./translating.js").Done} done */
function showDone(done) {
  clearError({ answered: true });
  forget();
  shown = done;
  used = [...new Set(done.translations.flatMap(({ models }) => models ?? []))];
  if (done.translations.length) tellDetected(done.translations[0].source);
  setSpoken();
  output.show(done.view);
  showNotes(done.translations);
  showProgress(0, 0);
  arrange();
}

/** @param {Error} error */
function showFailure(error) {
  showProgress(0, 0);
  output.settle({ stale: true });
  showError(error, () => translateText(true));
}

function setSpoken() {
  const { source, target } = spokenLanguages();
  setSourceLanguage(source);
  output.setLanguage(target);
}

/** @param {number} done @param {number} total */
function showProgress(done, total) {
  find("progress").hidden = total < 2;
  find("progress-bar").max = Math.max(1, total);
  find("progress-bar").value = done;
  find("progress-text").textContent = total ? say("part", { done: done + 1, total }) : "";
}

/** Show the buttons that have something to do, and all that depends on whether there is a translation. */
function arrange() {
  const written = find("output").textContent !== "";
  find("empty").hidden = written || sourceText() !== "";
  find("copy").hidden = !written;
  find("undo").hidden = !choices.length;
  find("clear").hidden = sourceText() === "";
  const key = used.length ? "modelLine" : heardBy.length ? "modelLineSpeech" : "modelsReady";
  const names = [used, heardBy, modelNames()].find(({ length }) => length) ?? [];
  find("model-line").textContent = names.length ? say(key, { models: describeModels(names) }) : "";
}

function tellCount() {
  const count = countCharacters(sourceText());
  const limit = limits.characters;
  find("count").textContent = say(count > limit ? "countLong" : "count", { count, limit });
  find("clear").hidden = count === 0;
  find("empty").hidden = count > 0 || find("output").textContent !== "";
}

/** @param {import("./output.js").Place | null} place the word that is pointed at */
function pointAt(place) {
  const segment = place && shown?.view.segments[place.segment];
  const word = segment?.words[place.word];
  // While somebody edits, the marks would be those of the text before.
  const fresh = word && shown.source === sourceText();
  markSource(fresh ? word.sources : []);
  detail.textContent = word ? describe(segment, word) : "";
}

/** @returns {string} what is known of a word */
function describe(segment, { start, end, probability, sources }) {
  const values = {
    word: segment.text.slice(start, end),
    source: sources.map(([from, to]) => shown.source.slice(from, to)).join(" … "),
    percent: probability === null ? "" : percent(probability),
  };
  if (probability === null) return values.source ? say("detailOnlyFrom", values) : "";
  return say(values.source ? "detailFrom" : "detail", values);
}

/** @returns {object} the languages of a segment as they turned out, for requests about it */
function settledLanguages({ language }) {
  const { target, model } = chosenLanguages();
  return { source: language, target, model };
}

/** Show the alternatives of a word. @param {import("./output.js").Place} place @param {HTMLElement} anchor */
function openWord(place, anchor) {
  const segment = shown?.view.segments[place.segment];
  if (!segment) return;
  // Without the blank at its end: to the model that belongs to the next word.
  const prefix = segment.text.slice(0, segment.words[place.word].start).trimEnd();
  const ask = async (signal) => {
    const body = { text: segment.source, ...settledLanguages(segment), prefix, count: 5 };
    const found = await readAlternatives(body, signal);
    return found.filter(({ text }) => text !== segment.text);
  };
  openMenu(anchor, ask, ({ text }) => takeAlternative(place, text), explain);
}

/** @param {import("./output.js").Place} place @param {string} text what the segment reads from now on */
async function takeAlternative(place, text) {
  const segment = shown.view.segments[place.segment];
  choices.push(shown.view);
  const taken = { ...segment, text, words: plainWords(text) };
  showSegment(place.segment, taken);
  whisper(say("taken", { text }));
  const view = shown.view;
  try {
    // The same text once more as a forced beginning: that tells its words and where they come from.
    const request = { text: segment.source, ...settledLanguages(segment), prefixes: [text], words: true };
    const again = await translate({ ...request, split_sentences: false });
    const [only] = again.segments;
    if (shown?.view !== view || again.segments.length !== 1 || only.text !== text) return;
    const at = shown.translations.some(({ pivot }) => pivot) ? null : segment.at;
    showSegment(place.segment, { ...taken, words: placeWords(text, segment.source, only.words, at) });
  } catch {
    // A busy server may not answer: the words stay without probabilities.
  }
}

/** @param {number} index @param {import("./words.js").Segment} segment what stands there from now on */
function showSegment(index, segment) {
  showView({ ...shown.view, segments: shown.view.segments.with(index, segment) });
}

/** @param {import("./words.js").View} view */
function showView(view) {
  shown = { ...shown, view };
  output.show(view);
  arrange();
}

function undoChoice() {
  const view = choices.pop();
  if (view && shown) showView(view);
  if (!choices.length) find("copy").focus();
}

async function copyOutput() {
  const text = shown ? textOf(shown.view) : find("output").textContent;
  try {
    await navigator.clipboard.writeText(text);
    whisper(say("copied"));
    detail.textContent = say("copied");
  } catch {
    // Without https a browser lends no clipboard. What is selected can be copied by hand.
    getSelection().selectAllChildren(find("output"));
    detail.textContent = say("notCopied");
  }
}

function clearAll() {
  setSourceText("");
  translateText();
  focusSource();
}

/** What was said becomes the text, after what stands there. @param {object} transcript as the server tells it */
function takeTranscript(transcript) {
  const { text, target, model } = transcript;
  const before = sourceText().trimEnd();
  setSourceText(before ? `${before}\n${text}` : text);
  if (canTranslate() && chooseSource(target)) return translateText(true);
  showNothing();
  tellCount();
  heardBy = [model];
  arrange();
  const notes = [];
  if (canTranslate()) notes.push(() => say("notTranslated", { language: languageName(target) }));
  if (transcript.truncated) notes.push(() => say("truncatedSpeech"));
  if (!transcript.finished) notes.push(() => say("unfinishedSpeech"));
  showNotes([], notes);
  return undefined;
}

/** Where no model reads texts, what is for them is not shown. */
function showParts() {
  const translates = canTranslate() || !listeningModels().length;
  for (const id of ["languages", "output-pane", "legend", "documents", "count"]) find(id).hidden = !translates;
  find("source").dataset.placeholder = translates ? "placeholder" : "placeholderSpeech";
  for (const [id, key] of [["source-title", "sourceTitle"], ["source-help", "sourceHelp"]]) {
    find(id).dataset.text = translates ? key : `${key}Speech`;
  }
  find("source").dataset.label = find("source-title").dataset.text;
  find("empty-said").hidden = !listeningModels().length;
  sayAll();
}

/** The translation becomes the text to translate. */
function swapTexts() {
  if (!shown) return;
  setSourceText(textOf(shown.view));
}

function watchSettings() {
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const tell = () => find("theme").setAttribute("aria-pressed", String(dark()));
  find("theme").addEventListener("click", () => {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    remember("theme", theme);
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
  const marks = find("uncertain");
  const mark = () => document.body.classList.toggle("marked", marks.checked);
  marks.checked = recall("uncertain") !== "no";
  marks.addEventListener("change", () => {
    remember("uncertain", marks.checked ? "yes" : "no");
    mark();
  });
  mark();
}

/** The button that changes the language says so in the other language. */
function tellLanguageButton() {
  const button = find("interface-language");
  button.textContent = say("otherLanguage");
  button.lang = document.documentElement.lang.startsWith("zh") ? "en" : "zh-Hans";
}

async function begin() {
  try {
    const answer = await readModels();
    limits = { ...limits, ...answer.limits };
    clearError({ answered: true });
    offerLanguages(answer);
    offerSounds(listeningModels(), answer.limits);
    showParts();
    if (!answer.models.length) showMessage(() => say("errorNoModels"));
    setSpoken();
    translateText();
    arrange();
  } catch (error) {
    showError(error, begin);
  }
}

beginLanguage();
tellLanguageButton();
onLanguage(() => {
  tellLanguageButton();
  tellCount();
  arrange();
  detail.textContent = "";
});
watchSettings();
watchMenu(() => output.pointAtFocus());
watchNotices();
watchSource({ onEdit: () => translateText(), onEnter: () => translateText(true) });
watchLanguages({ onChange: () => translateText(true), onSwap: swapTexts });
watchSounds({ onSaid: takeTranscript });
watchDocuments({ languages: chosenLanguages, largest: () => limits.document_bytes });
find("interface-language").addEventListener("click", toggleLanguage);
find("copy").addEventListener("click", copyOutput);
find("undo").addEventListener("click", undoChoice);
find("clear").addEventListener("click", clearAll);
tellCount();
begin();

/** What is said: recorded with the microphone or taken from a file, written down by a model that listens. */

import { transcribe } from "./api.js";
import { LiveWords } from "./live.js";
import { clearError, showError, showMessage, whisper } from "./notices.js";
import { MicrophoneError, Recorder } from "./recorder.js";
import { recall, remember } from "./storage.js";
import { fileSize, languageName, languageTag, onLanguage, say } from "./texts.js";

const find = (id) => document.getElementById(id);
const [button, fileButton, input, select] = ["record", "choose-sound", "sound-file", "listener"].map(find);
/** A smaller one is shown as nothing: of the loudest that there is. */
const QUIETEST = 0.001;
const SUFFIXES = /\.(wav|flac|ogg|oga|opus|mp3|aiff?|au)$/i;

/** @type {{name: string, source: string, target: string}[]} */
let models = [];
let limits = { audio_bytes: 25 * 2 ** 20, audio_seconds: 600 };
/** @type {Recorder | null} */
let recorder = null;
/** What tells words meanwhile. @type {LiveWords | null} */
let live = null;
/** What the button and the line beside it say now. @type {"ready" | "asking" | "recording" | "writing"} */
let state = "ready";
/** Is told what was said. @type {(transcript: object) => void} */
let onSaid = () => {};

/** @param {File} file @returns {boolean} whether it is to be listened to here */
export function isSound({ name, type }) {
  return models.length > 0 && (type.startsWith("audio/") || SUFFIXES.test(name));
}

/** @param {object[]} listening the models that listen @param {object} told the limits of the server */
export function offerSounds(listening, told) {
  models = listening;
  limits = { ...limits, ...told };
  const before = select.value || recall("listener");
  select.replaceChildren(...models.map(({ name, source }) => new Option(label(name, source), name)));
  select.value = before;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  arrange();
}

function label(name, source) {
  return source === "und" ? name : `${name} (${languageName(source)})`;
}

/** @param {{onSaid: (transcript: object) => void}} callbacks */
export function watchSounds(callbacks) {
  onSaid = callbacks.onSaid;
  button.addEventListener("click", () => {
    if (state === "recording") stop();
    else if (state === "ready") start();
  });
  fileButton.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    const [file] = input.files;
    // The same file may be chosen again.
    input.value = "";
    if (file) takeSound(file);
  });
  select.addEventListener("change", () => remember("listener", select.value));
  onLanguage(() => {
    for (const option of select.options) {
      option.text = label(option.value, models.find(({ name }) => name === option.value).source);
    }
    arrange();
  });
}

async function start() {
  clearError();
  const made = new Recorder({ onHeard: hear, onGone: stop });
  state = "asking";
  arrange();
  try {
    await made.start();
  } catch (error) {
    state = "ready";
    arrange();
    return fail(error, start);
  }
  recorder = made;
  live = new LiveWords(select.value, made.rate, showWords);
  state = "recording";
  hear({ level: 0, seconds: 0 });
  arrange();
  whisper(say("recordingBegun"));
  return undefined;
}

/** @returns {number} seconds that the server takes of a recording */
function longest() {
  const bytes = (limits.audio_bytes - 2 ** 10) / 2;
  // One that runs to the limit must not be refused for its last block.
  return Math.min(limits.audio_seconds, bytes / (recorder?.rate ?? 48_000)) - 0.1;
}

/** @param {{level: number, seconds: number}} heard */
function hear({ level, seconds }) {
  // By how many decibels it is above the quietest, as ears have it.
  const decibels = 1 - Math.log(Math.max(level, QUIETEST)) / Math.log(QUIETEST);
  find("level").value = decibels;
  find("recorded").textContent = clock(seconds);
  if (!recorder) return;
  live?.hear(recorder.parts, recorder.count);
  if (seconds >= longest()) stop();
}

/** @param {{stable: string, tentative: string}} words what was said so far; the second part may still change */
function showWords({ stable, tentative }) {
  if (state !== "recording") return;
  const rest = document.createElement("span");
  rest.className = "tentative";
  rest.textContent = tentative && stable ? ` ${tentative}` : tentative;
  find("sound-state").replaceChildren(stable, rest);
}

/** @param {number} seconds @returns {string} */
function clock(seconds) {
  const [minutes, rest] = [Math.floor(seconds / 60), Math.floor(seconds % 60)];
  return `${minutes.toLocaleString(languageTag())}:${String(rest).padStart(2, "0")}`;
}

async function stop() {
  const made = recorder;
  if (!made) return;
  recorder = null;
  live?.end();
  live = null;
  state = "writing";
  arrange();
  await write(await made.stop(), "recording.wav");
}

/** @param {File} file a sound */
export async function takeSound(file) {
  clearError();
  if (state !== "ready") return showMessage(() => say("soundBusy"));
  if (file.size > limits.audio_bytes) {
    return showMessage(() => say("soundTooLarge", { name: file.name, size: fileSize(limits.audio_bytes) }));
  }
  return write(file, file.name);
}

/** @param {Blob} sound @param {string} name */
async function write(sound, name) {
  state = "writing";
  arrange();
  try {
    const transcript = await transcribe(sound, name, select.value);
    clearError({ answered: true });
    if (transcript.text) onSaid(transcript);
    else showMessage(() => say("nothingSaid"));
  } catch (error) {
    fail(error, () => write(sound, name));
  } finally {
    state = "ready";
    arrange();
  }
}

/** @param {Error} error @param {() => void} retry */
function fail(error, retry) {
  if (error instanceof MicrophoneError) showMessage(() => say(error.key));
  else showError(error, retry);
}

/** Show what can be done now. */
function arrange() {
  const idle = state === "ready";
  button.hidden = models.length === 0;
  fileButton.hidden = models.length === 0 || state === "recording";
  select.parentElement.hidden = models.length < 2 || !idle;
  // Who has just stopped keeps the focus: a button that is disabled would lose it.
  button.setAttribute("aria-disabled", String(state === "asking" || state === "writing"));
  button.classList.toggle("recording", state === "recording");
  find("record-text").textContent = say(state === "recording" ? "stopRecording" : "record");
  find("meter").hidden = state !== "recording";
  find("sound-state").textContent = idle || state === "recording" ? "" : say(state === "asking" ? "micAsking" : "writing");
}

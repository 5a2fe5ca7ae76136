/** What went wrong and what is to be known about a translation, told in words. */

import { ApiError, useKey } from "./api.js";
import { languageName, onLanguage, say } from "./texts.js";
import { recall } from "./storage.js";

const box = document.querySelector("#error");
const text = document.querySelector("#error-text");
const wait = document.querySelector("#error-wait");
const form = document.querySelector("#key-form");
const keyField = document.querySelector("#key");
const retryButton = document.querySelector("#retry");
const notes = document.querySelector("#notes");
/** A longer wait than this is told, not waited for, in seconds. */
const LONGEST_WAIT = 300;
/** What the server's codes are called here. */
const CODES = {
  wrong_sound: "errorSound",
  sound_too_long: "errorSoundTooLong",
  no_pair: "errorNoPair",
  no_language: "errorNoPair",
  other_pair: "errorNoPair",
  which_pair: "errorNoPair",
  format: "errorFormat",
  not_utf8: "errorNotUtf8",
  wrong_key: "errorWrongKey",
  too_many_requests: "errorUsedUp",
  quota_exceeded: "errorUsedUp",
  failed: "errorInside",
  model_failed: "errorInside",
};
/** After so many tries in a row the page waits for a person. */
const TRIES = 10;

let timer = 0;
let tries = 0;
/** What to do again. @type {() => void} */
let again = () => {};
/** Tell the error once more, in the language of now. @type {() => void} */
let tellAgain = () => {};
/** @type {(() => string)[]} */
let told = [];

/** @param {Error} error @returns {string} */
export function explain(error) {
  if (!(error instanceof ApiError)) return say("errorInside");
  const { status, code, message, hint } = error;
  if (status === 0) return say("errorOffline");
  if (code in CODES) return say(CODES[code]);
  if (status === 401) return say(recall("key", "sessionStorage") ? "errorWrongKey" : "errorKey");
  if (status === 429 || status === 503) return say("errorBusy");
  if (status === 504) return say("errorTime");
  if (status === 413) return say("errorTooLong");
  if (message) return say("error", { message: `${message} ${hint}`.trim() });
  return say("errorPlain", { status: String(status) });
}

/**
 * Tell what went wrong. Where the server is only busy, the page tries again by itself when it was asked to.
 *
 * @param {Error} error
 * @param {() => void} retry
 */
export function showError(error, retry) {
  clearInterval(timer);
  again = retry;
  const { status, retryAfter } = error;
  form.hidden = status !== 401 && error.code !== "wrong_key";
  retryButton.hidden = !form.hidden || (status >= 400 && status < 500 && status !== 429);
  // Shown before it is filled: only a change of what is shown is read out.
  box.hidden = false;
  tellAgain = () => (text.textContent = explain(error));
  tellAgain();
  wait.textContent = "";
  const willing = (status === 429 || status === 503) && retryAfter && retryAfter <= LONGEST_WAIT;
  if (willing && (tries += 1) <= TRIES) countDown(retryAfter);
}

/** @param {number} seconds until the next try */
function countDown(seconds) {
  let left = seconds;
  const tell = () => (wait.textContent = say("errorWait", { seconds: left }));
  tell();
  timer = setInterval(() => {
    left -= 1;
    tell();
    if (left > 0) return;
    clearInterval(timer);
    again();
  }, 1000);
}

/** All is well again. @param {{answered?: boolean}} [options] whether the server has answered since the last error */
export function clearError({ answered = false } = {}) {
  clearInterval(timer);
  if (answered) tries = 0;
  box.hidden = true;
}

/** @param {() => string} tell an error that nothing can be done about here */
export function showMessage(tell) {
  clearInterval(timer);
  box.hidden = false;
  form.hidden = retryButton.hidden = true;
  wait.textContent = "";
  tellAgain = () => (text.textContent = tell());
  tellAgain();
}

/** Listen to the buttons of the notices. */
export function watchNotices() {
  retryButton.addEventListener("click", () => {
    tries = 0;
    clearError();
    again();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(keyField.value);
    keyField.value = "";
    clearError();
    again();
  });
  onLanguage(() => {
    tellAgain();
    tellNotes();
  });
}

/** @param {object[]} translations what is to be known about them @param {(() => string)[]} [more] to be told besides */
export function showNotes(translations, more = []) {
  told = [...more];
  const pivoted = translations.find(({ pivot }) => pivot);
  if (pivoted) {
    const { pivot, source, target } = pivoted;
    told.push(() =>
      say("pivot", { language: languageName(pivot), source: languageName(source), target: languageName(target) }),
    );
  }
  if (translations.some(({ truncated }) => truncated)) told.push(() => say("truncated"));
  const unknown = translations.reduce((sum, translation) => sum + (translation.unknown ?? 0), 0);
  if (unknown) told.push(() => say("unknown", { count: unknown }));
  if (translations.some(({ finished }) => finished === false)) told.push(() => say("unfinished"));
  tellNotes();
}

function tellNotes() {
  const lines = told.map((tell) => {
    const line = document.createElement("p");
    line.textContent = tell();
    return line;
  });
  notes.replaceChildren(...lines);
}

/** @param {string} message said by screen readers, shown nowhere */
export function whisper(message) {
  document.querySelector("#said").textContent = message;
}

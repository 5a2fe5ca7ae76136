/** One translation at a time: a newer one ends the one before it. */

import { translateStreamed } from "./api.js";
import { splitParagraphs, trimmed } from "./paragraphs.js";
import { countCharacters, joinViews, layOut, textOf } from "./words.js";

/** Typing pauses for so long before a request is worth it, in milliseconds. */
const PAUSE = 250;
/** Parts of a text that is too long for one request: short enough to see it grow, in characters. */
const PART = 2000;
/** Paragraphs whose translation is kept, so that an edit of a long text costs the edited paragraph. */
const KEPT = 500;

/**
 * @typedef {{text: string, languages: object, limit: number}} Job
 * @typedef {{source: string, view: import("./words.js").View, translations: object[]}} Done
 */

export class Translating {
  /**
   * @param {{
   *   onGrowing: (settled: string, tentative: string, done: number, total: number) => void,
   *   onDone: (done: Done) => void,
   *   onError: (error: Error) => void,
   * }} callbacks
   */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.timer = 0;
    this.controller = new AbortController();
    /** @type {Map<string, object>} */
    this.kept = new Map();
  }

  /** @param {Job} job translated when nothing newer comes for a moment */
  later(job) {
    this.stop();
    this.timer = setTimeout(() => this.now(job), PAUSE);
  }

  /** Forget what waits and abort what runs. */
  stop() {
    clearTimeout(this.timer);
    this.controller.abort();
  }

  /** @param {Job} job translated at once */
  async now(job) {
    this.stop();
    const { signal } = (this.controller = new AbortController());
    const whole = countCharacters(job.text) <= job.limit;
    try {
      await this.#all(job, whole ? [job.text] : splitParagraphs(job.text, Math.min(job.limit, PART)), signal);
    } catch (error) {
      if (!signal.aborted) this.#failed(error, job, signal);
    }
  }

  /** A text may be within the limit and have too many sentences for one request: then in parts. */
  async #failed(error, job, signal) {
    const parts = splitParagraphs(job.text, Math.min(job.limit, PART));
    if (error.status !== 413) return this.callbacks.onError(error);
    if (parts.length === 1) return this.callbacks.onError(error);
    try {
      await this.#all(job, parts, signal);
    } catch (second) {
      if (!signal.aborted) this.callbacks.onError(second);
    }
  }

  /** @param {Job} job @param {string[]} parts of its text @param {AbortSignal} signal */
  async #all(job, parts, signal) {
    const views = [];
    const translations = [];
    let settled = "";
    let at = 0;
    for (const [index, part] of parts.entries()) {
      const { before, text, after } = trimmed(part);
      const head = settled + before;
      const grow = ({ stable, tentative }) => {
        if (!signal.aborted) this.callbacks.onGrowing(head + stable, tentative, index, parts.length);
      };
      if (text) {
        const translation = await this.#one(text, job.languages, parts.length > 1, signal, grow);
        if (signal.aborted) return;
        translations.push(translation);
        const { segments, tail } = layOut(translation, text, at + before.length);
        views.push({ segments: [], tail: before }, { segments, tail: tail + after });
      } else {
        views.push({ segments: [], tail: part });
      }
      at += part.length;
      settled = textOf(joinViews(views));
    }
    this.callbacks.onDone({ source: job.text, view: joinViews(views), translations });
  }

  /** @returns {Promise<object>} the translation of one part, perhaps one from before */
  async #one(text, languages, keep, signal, onProgress) {
    const key = JSON.stringify([languages, text]);
    const before = this.kept.get(key);
    if (before) return before;
    const translation = await translateStreamed({ text, ...languages, words: true }, signal, onProgress);
    if (keep) this.kept.set(key, translation);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    return translation;
  }
}

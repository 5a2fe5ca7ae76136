/** Words while they are spoken: what the microphone hears is sent piece by piece, as samples of 16 bits. */

import { beginLive, sendLive } from "./api.js";

/** Seconds of sound in a piece at least. */
const EVERY = 0.8;
/** And at most, so that one that had to wait still fits into a request. */
const MOST = 8;

/** One recording. What goes wrong here is not told: the whole recording is written down at its end anyway. */
export class LiveWords {
  /**
   * @param {string} model that listens
   * @param {number} rate samples a second
   * @param {(words: {stable: string, tentative: string}) => void} onWords all that was said so far
   */
  constructor(model, rate, onWords) {
    this.model = model;
    this.rate = rate;
    this.onWords = onWords;
    this.sent = 0;
    this.isBusy = false;
    this.isOver = false;
  }

  /** @param {Float32Array[]} parts all that was heard @param {number} count samples of it */
  async hear(parts, count) {
    if (this.isBusy || this.isOver || count - this.sent < EVERY * this.rate) return;
    this.isBusy = true;
    try {
      this.id ??= (await beginLive(this.model, Math.round(this.rate))).id;
      const end = Math.min(count, this.sent + Math.floor(MOST * this.rate));
      const samples = between(parts, this.sent, end);
      this.sent = end;
      this.#tell(await sendLive(this.id, samples));
    } catch {
      this.isOver = true;
    }
    this.isBusy = false;
  }

  /** Let the server forget it. */
  end() {
    if (this.id && !this.isOver) sendLive(this.id, new Int16Array(0), true).catch(() => {});
    this.isOver = true;
  }

  #tell({ text, stable, tentative, heard }) {
    if (this.isOver || !heard) return;
    this.onWords({ stable: [text, stable].filter(Boolean).join(" "), tentative });
  }
}

/**
 * @param {Float32Array[]} parts
 * @param {number} start
 * @param {number} end
 * @returns {Int16Array} the samples between two places
 */
function between(parts, start, end) {
  const found = new Int16Array(end - start);
  let place = 0;
  for (const part of parts) {
    const [from, to] = [Math.max(0, start - place), Math.min(part.length, end - place)];
    for (let index = from; index < to; index++) {
      found[place + index - start] = Math.round(Math.max(-1, Math.min(1, part[index])) * 32767);
    }
    place += part.length;
    if (place >= end) break;
  }
  return found;
}

/** The microphone: recorded as it is, without the browser's changes for calls, and given as a WAV file of 16 bits. */

/** Why there is no recording; the page has words for each. */
export class MicrophoneError extends Error {
  /** @param {"micInsecure" | "micRefused" | "micMissing" | "micBusy" | "micFailed"} key which words */
  constructor(key) {
    super(key);
    this.key = key;
  }
}

const KEYS = {
  NotAllowedError: "micRefused",
  SecurityError: "micRefused",
  NotFoundError: "micMissing",
  OverconstrainedError: "micMissing",
  NotReadableError: "micBusy",
  AbortError: "micBusy",
};

/** Whoever models were trained on was not made louder or quieter by a browser. */
const AS_IT_IS = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };

/** Milliseconds for the last block. */
const PATIENCE = 1000;

/** One recording. */
export class Recorder {
  /**
   * @param {{onHeard: (state: {level: number, seconds: number}) => void, onGone: () => void}} callbacks how loud it is,
   *   from 0 to 1, and how long; the microphone was taken away
   */
  constructor({ onHeard, onGone }) {
    this.onHeard = onHeard;
    this.onGone = onGone;
    /** @type {Float32Array[]} */
    this.parts = [];
    this.count = 0;
  }

  /** Begin, once the browser allows it. Throws a MicrophoneError. */
  async start() {
    // Pages without TLS that are not of this machine have no microphone, and no worklets.
    if (!navigator.mediaDevices?.getUserMedia) throw new MicrophoneError("micInsecure");
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ audio: AS_IT_IS });
      for (const track of this.stream.getTracks()) track.onended = () => this.onGone();
      this.context = new AudioContext();
      await this.context.audioWorklet.addModule(new URL("capture.js", import.meta.url));
      this.node = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0, channelCount: 1 });
      this.node.port.onmessage = ({ data }) => this.#hear(data);
      this.context.createMediaStreamSource(this.stream).connect(this.node);
      await this.context.resume();
    } catch (error) {
      this.#release();
      throw error instanceof MicrophoneError ? error : new MicrophoneError(KEYS[error.name] ?? "micFailed");
    }
  }

  /** @returns {number} samples a second */
  get rate() {
    return this.context.sampleRate;
  }

  #hear({ samples, last }) {
    this.parts.push(samples);
    this.count += samples.length;
    let loudest = 0;
    for (const sample of samples) loudest = Math.max(loudest, Math.abs(sample));
    if (last) this.ended?.();
    else this.onHeard({ level: loudest, seconds: this.count / this.rate });
  }

  /** @returns {Promise<Blob>} what was heard, as a WAV file */
  async stop() {
    const ended = new Promise((done) => (this.ended = done));
    this.node.port.postMessage("stop");
    // Where the browser has stopped the sound's thread, nothing more comes.
    await Promise.race([ended, new Promise((go) => setTimeout(go, PATIENCE))]);
    const rate = this.rate;
    this.#release();
    return wavFile(this.parts, this.count, rate);
  }

  /** Give the microphone back. */
  #release() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.context?.close();
  }
}

/**
 * @param {Float32Array[]} parts samples, one part after the other
 * @param {number} count of all of them
 * @param {number} rate samples a second
 * @returns {Blob} one channel of 16 bits
 */
export function wavFile(parts, count, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const word = (at, text) => [...text].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      at += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}

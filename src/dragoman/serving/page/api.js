/** The server's own HTTP interface, `/v1/...`. Addresses are relative: the page also works under a path of a proxy. */

import { recall, remember } from "./storage.js";
import { readEvents } from "./stream.js";

/** In a stream the status is sent before anything can go wrong; then the code tells it. */
const STATUSES = { too_much: 413, overloaded: 503, closing: 503, ending: 503, failed: 503, too_slow: 504 };

/** What went wrong, in parts that the page can tell in words. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status; 0 where there was no answer at all
   * @param {{code?: string, message?: string, hint?: string}} [error] what the server said
   * @param {number | null} [retryAfter] seconds that the server asks to wait
   */
  constructor(status, error = {}, retryAfter = null) {
    super(error.message ?? "");
    this.status = status;
    this.code = error.code ?? "";
    this.hint = error.hint ?? "";
    this.retryAfter = retryAfter;
  }
}

/** @param {string} key the key that the server asks for, kept as long as the tab */
export function useKey(key) {
  remember("key", key.trim(), "sessionStorage");
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>} an answer that is no error
 */
async function send(path, options) {
  const headers = new Headers(options.headers);
  const key = recall("key", "sessionStorage");
  if (key) headers.set("Authorization", `Bearer ${encodeHeader(key)}`);
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0);
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await errorOf(response), seconds(response.headers.get("Retry-After")));
}

/** A header holds Latin-1 only; a key with other characters is wrong anyway, and the server is to say so. */
function encodeHeader(key) {
  return key.replace(/[^\x20-\x7e]/g, "?");
}

/** @param {Response} response */
async function errorOf(response) {
  try {
    const { error } = await response.json();
    return typeof error === "object" && error ? error : { message: String(error ?? "") };
  } catch {
    // A proxy's page, or nothing: its status is all there is to tell.
    return {};
  }
}

/** @param {string | null} header seconds, or a date */
function seconds(header) {
  if (header === null) return null;
  const wait = /^\d+$/.test(header.trim()) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(wait) ? Math.max(1, Math.ceil(wait)) : null;
}

/** @param {string} path @param {object} body @param {AbortSignal} [signal] */
function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return send(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** @returns {Promise<{models: object[], pairs: object[], limits: object}>} */
export async function readModels() {
  return (await send("v1/models", {})).json();
}

/**
 * Translate one text and hear of it while it grows.
 *
 * @param {object} body
 * @param {AbortSignal} signal
 * @param {(progress: {stable: string, tentative: string}) => void} onProgress
 * @returns {Promise<object>} the translation with its segments and words
 */
export async function translateStreamed(body, signal, onProgress) {
  const response = await post("v1/translate/stream", body, signal);
  try {
    for await (const { name, data } of readEvents(response.body)) {
      if (name === "progress") onProgress(data);
      if (name === "result") return data;
      if (name === "error") throw new ApiError(STATUSES[data.error?.code] ?? 500, data.error);
    }
  } catch (error) {
    // The connection broke while the answer came.
    throw error instanceof TypeError && !signal.aborted ? new ApiError(0) : error;
  }
  throw new ApiError(0);
}

/** @param {object} body @param {AbortSignal} [signal] @returns {Promise<object>} the first translation */
export async function translate(body, signal) {
  const { translations } = await (await post("v1/translate", body, signal)).json();
  return translations[0];
}

/** @param {object} body @param {AbortSignal} signal @returns {Promise<object[]>} other next words, likeliest first */
export async function readAlternatives(body, signal) {
  const { alternatives } = await (await post("v1/alternatives", body, signal)).json();
  return alternatives;
}

/**
 * @param {Blob} sound a file
 * @param {string} name of it
 * @param {string} model that listens
 * @returns {Promise<object>} what is said in it, with its languages
 */
export async function transcribe(sound, name, model) {
  const form = new FormData();
  form.append("model", model);
  form.append("file", sound, name);
  return (await send("v1/transcribe", { method: "POST", body: form })).json();
}

/** @param {string} model that listens @param {number} rate samples a second @returns {Promise<{id: string}>} */
export async function beginLive(model, rate) {
  return (await send(`v1/transcribe/live?${new URLSearchParams({ model, rate })}`, { method: "POST" })).json();
}

/** @param {string} id @param {Int16Array} samples @param {boolean} [last] @returns {Promise<object>} what is known now */
export async function sendLive(id, samples, last = false) {
  const headers = { "Content-Type": "application/octet-stream" };
  const path = `v1/transcribe/live/${encodeURIComponent(id)}${last ? "?last=true" : ""}`;
  return (await send(path, { method: "POST", headers, body: samples })).json();
}

/**
 * @param {File} file
 * @param {{source: string | null, target: string | null, model: string | null}} languages
 * @param {AbortSignal} signal
 * @returns {Promise<{id: string, key: string}>}
 */
export async function sendDocument(file, languages, signal) {
  const form = new FormData();
  form.append("file", file);
  for (const [name, value] of Object.entries(languages)) if (value !== null) form.append(name, value);
  return (await send("v1/documents", { method: "POST", body: form, signal })).json();
}

/** @param {{id: string, key: string}} ticket @param {AbortSignal} signal */
export async function readDocumentStatus({ id, key }, signal) {
  const query = new URLSearchParams({ key });
  return (await send(`v1/documents/${encodeURIComponent(id)}?${query}`, { signal })).json();
}

/** @param {{id: string, key: string}} ticket @param {AbortSignal} signal @returns {Promise<Blob>} */
export async function readDocumentResult({ id, key }, signal) {
  const query = new URLSearchParams({ key });
  return (await send(`v1/documents/${encodeURIComponent(id)}/result?${query}`, { signal })).blob();
}

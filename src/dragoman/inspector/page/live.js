/* A server behind the page: it traces what is asked, and has the arrays that are wanted by name. */

import { safetensors, Trace } from "./data.js";
import { kept, keep } from "./state.js";

const MOST_AT_ONCE = 40_000; // characters of an address
const AHEAD = 6_000_000; // bytes that are fetched before anybody asks

export const isLive = () => !document.getElementById("record") && /^https?:$/u.test(location.protocol);

export class AskError extends Error {
  constructor(status, { message, hint } = {}) {
    super(message ?? "");
    this.status = status;
    this.hint = hint ?? "";
  }
}

export function useKey(key) { keep("dragoman.key", key.trim(), "sessionStorage"); }

async function send(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = kept("dragoman.key", "sessionStorage");
  if (key) headers.set("Authorization", `Bearer ${key.replace(/[^\x20-\x7e]/gu, "?")}`);
  let response;
  try {
    response = await fetch(new URL(`api${path}`, document.baseURI), { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError(0);
  }
  if (response.ok) return response;
  let told = {};
  try { ({ error: told } = await response.json()); } catch { /* a proxy's page: its status is all there is to tell */ }
  throw new AskError(response.status, typeof told === "object" && told ? told : {});
}

/** What may be asked: {models, systems, example, limits}. */
export async function about() { return (await send("")).json(); }

/** The arrays of a trace: those that came with it, and the others as soon as they are wanted. */
class Store {
  constructor(id, file, table) {
    this.id = id;
    this.files = [file];
    this.table = table;
    this.wanted = new Set();
    this.lost = new Set();
  }

  get(name) {
    for (const file of this.files) {
      const array = file(name);
      if (array) return array;
    }
    if (Object.hasOwn(this.table, name) && !this.lost.has(name)) this.wanted.add(name);
    return null;
  }

  /** Fetch what was wanted; what cannot be had is not asked for again. */
  async load() {
    const names = [...this.wanted];
    this.wanted.clear();
    while (names.length) {
      const some = [];
      let size = 0;
      while (names.length && size < MOST_AT_ONCE) {
        size += names.at(-1).length + 3;
        some.push(names.pop());
      }
      await this.fetched(some, new URLSearchParams({ names: some.join(",") }));
    }
  }

  async fetched(names, query) {
    try {
      const response = await send(`/trace/${encodeURIComponent(this.id)}/arrays?${query}`);
      this.files.push(safetensors(new Uint8Array(await response.arrayBuffer())));
    } catch {
      for (const name of names) this.lost.add(name);
    }
  }

  /** Operands and single steps, so that nobody waits for them; parameters are large and wait to be asked for. */
  async ahead(parameters) {
    const sizes = { float32: 4, float16: 2, bool: 1 };
    const names = [];
    let left = AHEAD;
    for (const [name, { level, dtype, shape }] of Object.entries(this.table)) {
      const bytes = shape.reduce((product, size) => product * size, sizes[dtype] ?? 8);
      if (level < 2 || parameters.has(name) || this.files.some((file) => file(name))) continue;
      left -= bytes;
      if (left < 0) break;
      names.push(name);
    }
    const wanted = this.wanted;
    this.wanted = new Set(names);
    await this.load();
    for (const name of wanted) this.wanted.add(name);
  }
}

/** Ask for a trace. */
export async function ask(body, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await send("/trace", { method: "POST", headers, body: JSON.stringify(body), signal });
  const file = safetensors(new Uint8Array(await response.arrayBuffer()));
  const { id, record: told } = file.told;
  const record = JSON.parse(told);
  const store = new Store(id, file, record.arrays);
  const trace = new Trace(record, (name) => store.get(name));
  trace.store = store;
  return trace;
}

/** Fetch in the background what the views are about to want. */
export function fetchAhead(trace) {
  const parameters = new Set(trace.record.graph.nodes.flatMap((node) => node.parameters));
  return trace.store?.ahead(parameters);
}

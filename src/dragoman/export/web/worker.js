/**
 * Reads the model and translates, off the page's own thread. It is told `{number, lines, greedy}`, or a `{number}` alone;
 * a newer number ends what is being translated. It tells `{kind}`: `loading`, `ready`, `line`, `done`, or `failed`.
 */

import { Network } from "./network.js";
import { search } from "./search.js";
import { Tokenizer } from "./tokenizer.js";

const RUNTIME = new URL("../node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs", import.meta.url);

class Superseded extends Error {}

/** An error of which the page knows what to say. */
class Trouble extends Error {
  constructor(why, what) {
    super(`${why}: ${what}`);
    Object.assign(this, { why, what });
  }
}

let newest = 0;

/** Fetch a file beside the page, telling how far it has come. */
async function fetched(path, loaded) {
  let answer;
  try {
    answer = await fetch(new URL(`../${path}`, import.meta.url));
  } catch {
    throw new Trouble("file", path);
  }
  if (!answer.ok) throw new Trouble("file", `${path} (${answer.status})`);
  const parts = [];
  const reader = answer.body.getReader();
  for (let part; !(part = await reader.read()).done; ) {
    parts.push(part.value);
    loaded(part.value.length);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function opened() {
  const plain = (path) => fetched(path, () => {}).then((data) => JSON.parse(new TextDecoder().decode(data)));
  const facts = await plain("web/model.json");
  const { default: none, ...ort } = await import(RUNTIME).catch(() => {
    throw new Trouble("runtime", "onnxruntime-web");
  });
  let done = 0;
  const loaded = (bytes) => {
    done += bytes;
    postMessage({ kind: "loading", done, total: facts.bytes });
  };
  const [source, target, ...graphs] = await Promise.all(
    [facts.source.file, facts.target.file, facts.encoder, facts.decoder].map((path) => fetched(path, loaded)),
  );
  const tokenizers = [[source, facts.source], [target, facts.target]].map(
    ([data, side]) => new Tokenizer(JSON.parse(new TextDecoder().decode(data)), side),
  );
  let sessions;
  try {
    // One after the other: the runtime is started once.
    sessions = [];
    for (const data of graphs) sessions.push(await ort.InferenceSession.create(data, { executionProviders: ["wasm"] }));
  } catch (error) {
    throw new Trouble("session", error.message);
  }
  return { facts, tokenizers, network: new Network(ort, ...sessions, facts.shape) };
}

/** Let messages come in, and stop what a newer request ends. */
function breath(number) {
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      if (number === newest) resolve();
      else reject(new Superseded());
    };
    port2.postMessage(null);
  });
}

async function translated(model, text, greedy, going) {
  const { facts, network, tokenizers: [source, target] } = model;
  const ids = text.trim() ? source.encode(text.toWellFormed()) : [];
  if (!ids.length) return { text: "", cut: false };
  const kept = ids.slice(0, facts.longest_source);
  const options = greedy ? { ...facts.search, beam_size: 1, length_penalty: 0 } : facts.search;
  const found = await search(network, kept, options, facts.frame, going);
  return { text: target.decode(found), cut: kept.length < ids.length };
}

const ready = opened();
ready.then(
  () => postMessage({ kind: "ready" }),
  (error) => postMessage({ kind: "failed", why: error.why ?? "other", what: error.what ?? error.message }),
);

// Promises keep the order of requests: one waits until the one before has ended or has been ended.
let before = Promise.resolve();

async function answer({ number, lines, greedy }) {
  try {
    const model = await ready;
    for (const [at, line] of lines.entries()) {
      await breath(number);
      postMessage({ kind: "line", number, at, ...(await translated(model, line, greedy, () => breath(number))) });
    }
    postMessage({ kind: "done", number });
  } catch (error) {
    if (!(error instanceof Superseded)) postMessage({ kind: "failed", number, why: "other", what: error.message });
  }
}

onmessage = ({ data }) => {
  newest = data.number;
  if (data.lines) before = before.then(() => answer(data));
};

/** The page: a text goes to the worker, its translation comes back line by line. */

import { choose, current, recall, remember, say } from "./texts.js";

const [source, output, button, copy, status, progress, search, error, theme] = [
  "source", "output", "translate", "copy", "status", "progress", "search", "error", "theme",
].map((id) => document.getElementById(id));
const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });

const facts = await (await fetch(new URL("./model.json", import.meta.url))).json();
let number = 0;
let busy = false;
let ready = false;
let found = [];
let cut = [];
let started = 0;
// What was said last, so that it can be said in the other language.
let told = ["starting", {}];
let trouble = null;

function nameOf(code, fallback) {
  if (!code) return fallback;
  try {
    return new Intl.DisplayNames([current()], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function tell(key, values = {}) {
  told = [key, values];
  // What changes many times a second nobody wants to hear.
  status.ariaLive = key === "loading" || key === "working" ? "off" : "polite";
  status.textContent = say(key, values);
}

function complain() {
  error.hidden = trouble === null;
  if (trouble === null) return;
  const { why, what } = trouble;
  error.querySelector("p").textContent = say(why === "other" ? "failed" : why, { what });
  error.querySelector("pre").hidden = why !== "runtime";
}

function show() {
  const { source: from, target: to } = facts;
  document.documentElement.lang = current() === "zh" ? "zh-Hans" : "en";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
  document.querySelector("h1").textContent = from.language && to.language
    ? say("title", { source: nameOf(from.language), target: nameOf(to.language) }) : facts.name;
  document.title = `${document.querySelector("h1").textContent} · ${facts.name}`;
  source.placeholder = say("placeholder");
  search.options[0].textContent = facts.search.beam_size > 1 ? say("beam", { count: facts.search.beam_size }) : say("greedy");
  if (search.options[1]) search.options[1].textContent = say("greedy");
  button.textContent = say(busy ? "stop" : "translate");
  button.disabled = !ready;
  copy.disabled = busy || !found.some(Boolean);
  output.dataset.empty = say("empty");
  tell(...told);
  complain();
}

function finish(key, values) {
  busy = false;
  if (key) tell(key, values);
  show();
}

function translate() {
  const lines = source.value.split(/\r?\n/u);
  [found, cut, busy, started, trouble] = [lines.map(() => ""), [], true, performance.now(), null];
  number += 1;
  output.textContent = "";
  tell("working", { at: 1, count: lines.length });
  show();
  worker.postMessage({ number, lines, greedy: search.value === "greedy" });
}

function stop() {
  number += 1;
  worker.postMessage({ number });
  finish("stopped");
}

const heard = {
  loading: ({ done, total }) => {
    progress.value = done / total;
    const [have, all] = [done, total].map((bytes) => (bytes / 1e6).toFixed(1));
    if (done < total) tell("loading", { done: have, total: all });
    else tell("starting");
  },
  ready: () => {
    [ready, progress.hidden] = [true, true];
    finish("ready");
  },
  line: ({ at, text, cut: wasCut }) => {
    found[at] = text;
    if (wasCut) cut.push(at + 1);
    output.textContent = found.join("\n").replace(/\n+$/u, "");
    if (at + 1 < found.length) tell("working", { at: at + 2, count: found.length });
  },
  done: () => {
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    output.textContent = found.join("\n");
    finish("done", { count: found.length, seconds });
    if (cut.length) status.textContent += ` ${say("cut", { lines: cut.join(", ") })}`;
  },
  failed: (message) => {
    [trouble, progress.hidden] = [message, true];
    told = ["nothing", {}];
    finish();
  },
};

worker.addEventListener("message", ({ data }) => {
  if (data.number === undefined || data.number === number) heard[data.kind](data);
});
worker.addEventListener("error", (event) => heard.failed({ why: "other", what: event.message ?? "worker.js" }));
button.addEventListener("click", () => (busy ? stop() : translate()));
source.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing || !ready) return;
  event.preventDefault();
  translate();
});
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(output.textContent);
    tell("copied");
  } catch {
    getSelection().selectAllChildren(output);
    tell("notCopied");
  }
});
theme.addEventListener("click", () => {
  const chosen = theme.getAttribute("aria-pressed") === "true" ? "light" : "dark";
  paint(chosen);
  remember("theme", chosen);
});
document.getElementById("language").addEventListener("click", () => {
  choose(current() === "en" ? "zh" : "en");
  show();
});

function paint(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.setAttribute("aria-pressed", String(dark));
}

if (facts.search.beam_size === 1) search.options[1].remove();
source.lang = facts.source.language ?? "";
output.lang = facts.target.language ?? "";
paint(recall("theme"));
document.getElementById("unopened").hidden = true;
document.getElementById("work").hidden = false;
show();

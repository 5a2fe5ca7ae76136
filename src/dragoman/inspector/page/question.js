/* What is asked of the model, as the state has it, and as the server wants it. */

import { set, state } from "./state.js";

const headsOff = () => (state.off ? state.off.split(",") : []);

/** The recordings that were chosen in the page, in base64, by their names. */
export const sounds = new Map();

/** The request for a trace. */
export function body() {
  const asked = { text: state.text };
  if (sounds.has(state.text)) asked.audio = sounds.get(state.text);
  for (const name of ["target", "beside"]) if (state[name].trim()) asked[name] = state[name];
  for (const name of ["model", "convention", "against"]) if (state[name]) asked[name] = state[name];
  if (state.from) asked.source_language = state.from;
  if (state.to) asked.target_language = state.to;
  if (state.precision === "int8") asked.precision = "int8";
  if (state.forced) asked.prefix_ids = state.forced.split(".").map(Number);
  else if (state.prefix) asked.prefix = state.prefix;
  if (state.beam > 0) asked.beam_size = state.beam;
  if (state.length > 0) asked.max_length = state.length;
  if (state.penalty >= 0 && state.beam !== 1) asked.length_penalty = state.penalty;
  if (state.off) asked.heads_off = headsOff();
  if (!state.causal) asked.causal_mask = false;
  if (!state.padding) asked.padding_mask = false;
  return asked;
}

export const isOff = (path, head) => headsOff().includes(`${path}:${head}`);

export function toggleHead(path, head) {
  const one = `${path}:${head}`;
  const others = headsOff().filter((other) => other !== one);
  set({ off: (isOff(path, head) ? others : [...others, one]).join(",") });
}

/** Changes that are one value each, as they are where nothing is changed. */
const SINGLE = { target: "", forced: "", prefix: "", beside: "", convention: "", precision: "", causal: 1, padding: 1, beam: 0, against: "", from: "", to: "" };

/** Everything that was changed, as {name, value?, undo}: the values that undo it. */
export function changes() {
  const found = headsOff().map((one) => ({ name: "off", value: one, undo: { off: headsOff().filter((other) => other !== one).join(",") } }));
  for (const [name, start] of Object.entries(SINGLE)) {
    if (state[name] !== start) found.push({ name, value: state[name], undo: { [name]: start } });
  }
  return found;
}

export const NOTHING = { ...SINGLE, off: "", length: 0, penalty: -1 };

/** Ids from the beginning of the beam to a candidate, without the end. */
export function pathIds(beam, event) {
  const ids = [];
  for (let at = event; at; at = beam.events.find(({ id }) => id === at.parent)) ids.unshift(at);
  return ids.filter((one) => one.fate !== "finished").map(({ token }) => token);
}

/* What is looked at. It stands in the address, so that a link leads to a view, a stage, a head, a cell, a step. */

const START = { view: "map", stage: "", head: 0, row: -1, col: -1, t: 1, layer: 0, root: 1, sort: "entropy", show: 0, stop: 0, temperature: 1, k: 0, p: 1, preset: 0,
  // What is asked of the model.
  text: "", target: "", prefix: "", forced: "", beside: "", model: "", convention: "", precision: "", against: "", from: "", to: "", off: "", beam: 0, length: 0, penalty: -1, causal: 1, padding: 1 };
const listeners = new Set();

function read() {
  const found = new URLSearchParams(location.hash.slice(1));
  const state = { ...START };
  for (const [name, start] of Object.entries(START)) {
    const value = found.get(name);
    if (value === null) continue;
    if (typeof start === "string") state[name] = value;
    else if (Number.isFinite(Number(value))) state[name] = Number(value);
  }
  return state;
}

export const state = read();

export function set(changes, quietly = false) {
  const before = `${state.view} ${state.stage}`;
  Object.assign(state, changes);
  const pairs = Object.entries(state).filter(([name, value]) => value !== START[name]);
  const address = `#${new URLSearchParams(pairs)}`;
  try {
    // A new view is a step back; a new cell is not.
    if (before === `${state.view} ${state.stage}` || quietly) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  } catch {
    // A frame without an address of its own has none to change.
  }
  for (const listener of listeners) listener(state);
}

export function listen(listener) { listeners.add(listener); }

addEventListener("popstate", () => {
  if (location.hash === "#view") return;
  Object.assign(state, read());
  for (const listener of listeners) listener(state);
});

export function keep(name, value, store = "localStorage") {
  try { window[store].setItem(name, value); } catch { /* a page from disk may have no store */ }
}

export function kept(name, store = "localStorage") {
  try { return window[store].getItem(name); } catch { return null; }
}

/**
 * What the page remembers: choices in localStorage, the key of the server in sessionStorage, so that it goes with the
 * tab. A browser may forbid both; then nothing is remembered and all else works.
 */

const PREFIX = "dragoman.";

/**
 * @param {string} name
 * @param {"localStorage" | "sessionStorage"} [store]
 * @returns {string | null} what was written under this name
 */
export function recall(name, store = "localStorage") {
  try {
    return window[store].getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {string} value
 * @param {"localStorage" | "sessionStorage"} [store]
 */
export function remember(name, value, store = "localStorage") {
  try {
    window[store].setItem(PREFIX + name, value);
  } catch {
    // Nothing is lost but the memory of it.
  }
}

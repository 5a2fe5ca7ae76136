/** Other words for one place of the translation, in a menu under the word. */

import { percent, say } from "./texts.js";

const menu = document.querySelector("#menu");
const title = document.querySelector("#menu-title");
const items = document.querySelector("#menu-items");
const status = document.querySelector("#menu-status");

/** Aborts the request of the menu that is open. @type {AbortController | null} */
let asking = null;

/**
 * @param {HTMLElement} anchor the word
 * @param {(signal: AbortSignal) => Promise<object[]>} ask
 * @param {(alternative: object) => void} onTake
 * @param {(error: Error) => string} explain
 */
export async function openMenu(anchor, ask, onTake, explain) {
  closeMenu();
  const controller = new AbortController();
  asking = controller;
  title.textContent = say("menuTitle", { word: anchor.textContent });
  items.replaceChildren();
  items.hidden = true;
  status.textContent = say("menuWait");
  menu.showPopover();
  place(anchor);
  try {
    const found = await ask(controller.signal);
    if (controller.signal.aborted) return;
    status.textContent = found.length ? "" : say("menuNone");
    items.hidden = !found.length;
    items.replaceChildren(...found.map((alternative) => item(alternative, onTake)));
    items.firstElementChild?.focus();
  } catch (error) {
    if (controller.signal.aborted) return;
    status.textContent = explain(error);
  }
  place(anchor);
}

/** Close it, whatever it was doing. */
export function closeMenu() {
  asking?.abort();
  asking = null;
  if (menu.matches(":popover-open")) menu.hidePopover();
}

/**
 * Listen to keys and to the browser, which closes the menu at Escape and at a click elsewhere.
 *
 * @param {() => void} onClose
 */
export function watchMenu(onClose) {
  menu.addEventListener("toggle", () => {
    if (menu.matches(":popover-open")) return;
    asking?.abort();
    onClose();
  });
  items.addEventListener("keydown", (event) => {
    const all = [...items.children];
    const at = all.indexOf(document.activeElement);
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    if (event.key in moves) {
      event.preventDefault();
      all.at(moves[event.key] % all.length).focus();
    } else if (event.key === "Tab") {
      closeMenu();
    }
  });
}

/** @param {object} alternative @param {(alternative: object) => void} onTake @returns {HTMLElement} */
function item(alternative, onTake) {
  const button = document.createElement("button");
  button.type = "button";
  button.role = "menuitem";
  button.tabIndex = -1;
  const word = document.createElement("b");
  word.textContent = alternative.word || say("menuEnd");
  const share = document.createElement("span");
  share.className = "share";
  share.textContent = percent(alternative.probability);
  const whole = document.createElement("span");
  whole.className = "whole";
  whole.dir = "auto";
  whole.textContent = alternative.text;
  button.append(word, " ", share, " ", whole);
  button.addEventListener("click", () => {
    closeMenu();
    onTake(alternative);
  });
  return button;
}

/** Under the word, inside the window's width. By the object model: the content policy forbids style attributes. */
function place(anchor) {
  const word = anchor.getClientRects()[0] ?? anchor.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  const left = Math.max(8, Math.min(word.left, width - menu.offsetWidth - 8));
  menu.style.left = `${left + scrollX}px`;
  menu.style.top = `${word.bottom + scrollY + 4}px`;
}

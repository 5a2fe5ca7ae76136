/**
 * The translation: plain text while it grows, then words that can be pointed at and opened. All words together are one
 * stop of the Tab key; arrow keys go among them.
 */

import { gradeOf } from "./words.js";

/** @typedef {{segment: number, word: number}} Place which word of which segment */

export class Output {
  /**
   * @param {HTMLElement} element
   * @param {{onOpen: (place: Place, anchor: HTMLElement) => void, onPoint: (place: Place | null) => void}} callbacks
   *   a word was clicked; a word is pointed at or focused, or none any more
   */
  constructor(element, { onOpen, onPoint }) {
    this.element = element;
    this.onOpen = onOpen;
    this.onPoint = onPoint;
    element.addEventListener("click", (event) => this.#open(event));
    element.addEventListener("keydown", (event) => this.#key(event));
    for (const name of ["pointerover", "focusin"]) element.addEventListener(name, (event) => this.#point(event.target));
    element.addEventListener("pointerleave", () => this.pointAtFocus());
    element.addEventListener("focusout", ({ relatedTarget }) => {
      // While its menu is open a word stays marked.
      if (!relatedTarget?.closest("[popover]")) this.#point(relatedTarget);
    });
  }

  /** @param {string} language for lang=; "" where nobody knows */
  setLanguage(language) {
    this.element.lang = language;
  }

  /**
   * @param {string} settled text that will not change
   * @param {string} tentative text that may
   */
  showGrowing(settled, tentative) {
    const tail = document.createElement("span");
    tail.className = "tentative";
    tail.textContent = tentative;
    this.element.setAttribute("aria-busy", "true");
    this.element.replaceChildren(settled, tail);
  }

  /** @param {import("./words.js").View} view the focus stays at its place */
  show({ segments, tail }) {
    const focused = this.element.contains(document.activeElement) ? placeOf(document.activeElement) : null;
    const nodes = [];
    for (const [index, segment] of segments.entries()) {
      nodes.push(segment.lead);
      let done = 0;
      for (const [number, word] of segment.words.entries()) {
        nodes.push(segment.text.slice(done, word.start), this.#word(segment, index, number));
        done = word.end;
      }
      nodes.push(segment.text.slice(done));
    }
    this.element.replaceChildren(...nodes.filter((node) => node !== ""), tail);
    this.#words()[0]?.setAttribute("tabindex", "0");
    this.settle();
    if (focused) this.#focus(focused);
  }

  /** Nothing more comes. @param {{stale?: boolean}} [options] whether this is not the translation of the text beside it */
  settle({ stale = false } = {}) {
    this.element.setAttribute("aria-busy", "false");
    this.element.classList.toggle("stale", stale);
  }

  clear() {
    this.show({ segments: [], tail: "" });
  }

  /** Mark the word that has the focus, or none. */
  pointAtFocus() {
    this.#point(document.activeElement);
  }

  /** @param {Place} place the word to focus, or the last one before it */
  #focus({ segment, word }) {
    const words = this.#words();
    const before = words.filter(
      ({ dataset }) => dataset.segment < segment || (Number(dataset.segment) === segment && dataset.word <= word),
    );
    this.#go(before.at(-1) ?? words[0], { preventScroll: true });
  }

  /** A span and not a button: a button is a box of its own, that neither breaks nor selects as text does. */
  #word({ text, words }, segment, number) {
    const { start, end, probability } = words[number];
    const element = document.createElement("span");
    const grade = gradeOf(probability);
    element.className = grade ? `word grade-${grade}` : "word";
    element.textContent = text.slice(start, end);
    element.tabIndex = -1;
    element.dataset.segment = segment;
    element.dataset.word = number;
    element.setAttribute("role", "button");
    element.setAttribute("aria-haspopup", "menu");
    element.setAttribute("aria-describedby", "word-detail");
    return element;
  }

  /** @returns {HTMLElement[]} */
  #words() {
    return [...this.element.querySelectorAll(".word")];
  }

  #open(event) {
    const word = event.target.closest(".word");
    // Who has just selected some text with the mouse wants no menu.
    if (!word || !getSelection().isCollapsed) return;
    this.#go(word);
    this.onOpen(placeOf(word), word);
  }

  #point(target) {
    const word = target && this.element.contains(target) ? target.closest(".word") : null;
    for (const marked of this.element.querySelectorAll(".pointed")) marked.classList.remove("pointed");
    word?.classList.add("pointed");
    this.onPoint(word && placeOf(word));
  }

  #key(event) {
    const word = event.target.closest(".word");
    if (!word || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.onOpen(placeOf(word), word);
      return;
    }
    const next = this.#neighbour(word, event.key);
    if (next === null) return;
    event.preventDefault();
    this.#go(next);
  }

  /** @returns {HTMLElement | undefined | null} null for a key that does not move */
  #neighbour(word, key) {
    const words = this.#words();
    const at = words.indexOf(word);
    const forwards = getComputedStyle(this.element).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    if (key === "Home") return words[0];
    if (key === "End") return words.at(-1);
    if (key === "ArrowUp") return nearest(word, words.slice(0, at).reverse());
    if (key === "ArrowDown") return nearest(word, words.slice(at + 1));
    if (key === "ArrowLeft" || key === "ArrowRight") return words[at + (key === forwards ? 1 : -1)];
    return null;
  }

  #go(word, options) {
    if (!word) return;
    for (const old of this.element.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    word.tabIndex = 0;
    word.focus(options);
  }
}

/** @param {HTMLElement} word @returns {Place} */
function placeOf({ dataset }) {
  return { segment: Number(dataset.segment), word: Number(dataset.word) };
}

/** @param {HTMLElement} word @param {HTMLElement[]} others from the next line on @returns {HTMLElement | undefined} */
function nearest(word, others) {
  const here = word.getBoundingClientRect();
  const centre = (box) => box.left + box.width / 2;
  let line;
  let best;
  for (const other of others) {
    const box = other.getBoundingClientRect();
    if (Math.abs(box.top - here.top) < here.height / 2) continue;
    line ??= box.top;
    if (Math.abs(box.top - line) > here.height / 2) break;
    const distance = Math.abs(centre(box) - centre(here));
    if (!best || distance < best.distance) best = { other, distance };
  }
  return best?.other;
}

/** A field to search in, in place of a select with many languages. The select stays behind it and keeps the choice. */

import { autonym, onLanguage, say } from "./texts.js";

/** A select with more options than these is searched. */
const FEW = 12;
const popover = document.querySelector("#chooser");
const field = document.querySelector("#chooser-search");
const list = document.querySelector("#chooser-list");
const status = document.querySelector("#chooser-status");

/** Whose options are shown. @type {Chooser | null} */
let open = null;

export class Chooser {
  /** @param {HTMLSelectElement} select */
  constructor(select) {
    this.select = select;
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.id = `${select.id}-button`;
    this.button.className = "chooser-button";
    this.button.setAttribute("aria-haspopup", "dialog");
    this.button.addEventListener("click", () => this.#open());
    select.after(this.button);
    select.addEventListener("change", () => this.refresh());
    onLanguage(() => this.refresh());
    this.refresh();
  }

  /** Show one of both, with what is chosen: after the options, the choice or the language have changed. */
  refresh() {
    const { select, button } = this;
    const many = select.options.length > FEW;
    select.hidden = many;
    button.hidden = !many;
    button.disabled = select.disabled;
    button.textContent = select.selectedOptions[0]?.text ?? "";
    button.setAttribute("aria-label", `${say(select.dataset.label)}: ${button.textContent}`);
  }

  #open() {
    open = this;
    field.value = "";
    popover.setAttribute("aria-label", say(this.select.dataset.label));
    popover.showPopover();
    this.show();
    const { left, bottom } = this.button.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    popover.style.left = `${Math.max(8, Math.min(left, width - popover.offsetWidth - 8)) + scrollX}px`;
    popover.style.top = `${bottom + scrollY + 4}px`;
    field.focus();
  }

  /** Fill the list with what was searched for. */
  show() {
    const wanted = plain(field.value);
    const found = [];
    for (const option of this.select.options) {
      const names = [option.text, autonym(option.value), option.value].map(plain);
      const place = Math.min(...names.map((name) => rank(name, wanted)));
      if (place < Infinity) found.push({ option, place });
    }
    found.sort((a, b) => a.place - b.place);
    list.replaceChildren(...found.map(({ option }, number) => item(option, number, this.select.value)));
    status.textContent = found.length ? "" : say("noLanguage");
    point(wanted ? list.firstElementChild : (list.querySelector("[aria-checked=true]") ?? list.firstElementChild));
  }

  /** @param {string} value */
  take(value) {
    popover.hidePopover();
    this.select.value = value;
    this.select.dispatchEvent(new Event("change"));
    this.button.focus();
  }
}

/** @param {string} text @returns {string} without accents and capitals */
function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();
}

/** @returns {number} 0 where a name begins with what is wanted, 1 where one of its words does, 2 where it is inside */
function rank(name, wanted) {
  if (name.startsWith(wanted)) return 0;
  if (name.split(/[\s(-]+/).some((word) => word.startsWith(wanted))) return 1;
  return name.includes(wanted) ? 2 : Infinity;
}

/** @param {HTMLOptionElement} option @param {number} number @param {string} chosen @returns {HTMLElement} */
function item({ text, value }, number, chosen) {
  const line = document.createElement("li");
  line.id = `chooser-${number}`;
  line.setAttribute("role", "option");
  line.setAttribute("aria-checked", String(value === chosen));
  line.dataset.value = value;
  const own = autonym(value);
  const aside = document.createElement("span");
  aside.className = "share";
  aside.lang = value;
  aside.textContent = own === text || own === value ? "" : own;
  line.append(text, " ", aside);
  return line;
}

/** Let one option be the one that Enter takes. @param {Element | null} line */
function point(line) {
  for (const one of list.children) one.setAttribute("aria-selected", String(one === line));
  if (line) field.setAttribute("aria-activedescendant", line.id);
  else field.removeAttribute("aria-activedescendant");
  line?.scrollIntoView({ block: "nearest" });
}

/** Listen to keys and clicks in the list of any chooser. */
export function watchChoosers() {
  field.addEventListener("input", () => open?.show());
  field.addEventListener("keydown", (event) => {
    const all = [...list.children];
    const at = all.findIndex((line) => line.getAttribute("aria-selected") === "true");
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(at + 8, all.length - 1), PageUp: Math.max(at - 8, 0) };
    if (event.key in moves && all.length) {
      event.preventDefault();
      point(all.at(moves[event.key] % all.length));
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      if (all[at]) open?.take(all[at].dataset.value);
    } else if (event.key === "Tab") {
      popover.hidePopover();
    }
  });
  list.addEventListener("click", ({ target }) => {
    const line = target.closest("[role=option]");
    if (line) open?.take(line.dataset.value);
  });
}

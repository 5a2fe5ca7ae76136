/* The chosen number, explained: its terms with the numbers in them, and whether the page comes to the same. */

import { button, h, headings, num } from "./dom.js";
import { t } from "./texts.js";

const TOLERANCE = 1e-3;

function termTable({ title, one, other, names, most }) {
  const all = Array.from(one, (value, at) => [at, value, other[at], value * other[at]]);
  const sum = all.reduce((total, [, , , product]) => total + product, 0);
  let chosen = all;
  if (all.length > most) {
    chosen = [...all].sort((a, b) => Math.abs(b[3]) - Math.abs(a[3])).slice(0, most).sort((a, b) => a[0] - b[0]);
  }
  const shownSum = chosen.reduce((total, [, , , product]) => total + product, 0);
  const rows = chosen.map((row) => h("tr", {}, h("th", { scope: "row" }, `${row[0]}`), row.slice(1).map((value) => h("td", {}, num(value)))));
  if (chosen.length < all.length) {
    rows.push(h("tr", {}, h("th", { scope: "row", colspan: 3 }, t("rest", all.length - chosen.length)), h("td", {}, num(sum - shownSum))));
  }
  const caption = chosen.length < all.length ? t("rowTimes", chosen.length, all.length) : title;
  return h("div", { class: "scroll terms", tabindex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption", {}, caption),
    headings([t("term"), ...names, t("product")]), rows,
    h("tr", { class: "sum" }, h("th", { scope: "row", colspan: 3 }, t("sum")), h("td", {}, num(sum)))));
}

/** The self-check: the trace's number beside the page's own. */
export function badge(computed, traced, slack = 0) {
  if (computed === undefined || traced === null || traced === undefined) return null;
  const off = Math.abs(computed - traced);
  const fine = off <= TOLERANCE * Math.max(1, Math.abs(traced)) + slack;
  const text = fine ? t("agrees", num(off, 6)) + (slack ? ` (${t("halfPrecision")})` : "") : t("parts", num(computed, 5), num(traced, 5));
  return h("p", { class: fine ? "badge" : "badge off", "data-check": fine ? "agrees" : "parts" }, text);
}

export function latexOf({ terms: pairs, computed }) {
  const products = Array.from(pairs.one, (value, at) => `(${value.toFixed(3)})(${pairs.other[at].toFixed(3)})`);
  return `${products.join(" + ")} \\Rightarrow ${computed?.toFixed(5) ?? ""}`;
}

export function numpyOf({ terms: pairs }) {
  const list = (values) => `np.array([${Array.from(values, (value) => value.toPrecision(7)).join(", ")}])`;
  return `${list(pairs.one)} @ ${list(pairs.other)}`;
}

async function copy(event, text) {
  const label = event.currentTarget;
  try {
    await navigator.clipboard.writeText(text);
    label.classList.add("done");
  } catch {
    label.after(h("textarea", { readonly: true, "aria-label": label.textContent, class: "copied" }, text));
  }
}

export function explanation(found, place) {
  if (!found) return h("p", {}, t("pick"));
  const lines = found.lines.map(({ label, value }) => h("div", {}, h("dt", {}, label), h("dd", {}, value)));
  return h("div", { class: "explanation" }, h("p", { class: "place" }, place), h("dl", {}, lines),
    badge(found.computed, found.traced, found.slack), found.terms ? termTable(found.terms) : null,
    found.terms ? h("div", { class: "row" }, button(t("copyNumpy"), (event) => copy(event, numpyOf(found))),
      button(t("copyLatex"), (event) => copy(event, latexOf(found)))) : null);
}

/* Elements and numbers. Text of a record goes into text nodes only: no piece can become markup. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "key") element.dataset.key = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export function button(text, act, more = {}) {
  return h("button", { type: "button", onclick: act, ...more }, text);
}

/** The first row of a table: what its columns are called. */
export const headings = (names) => h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)));

/** A bar of so many pixels. */
export function bar(wide) {
  const drawn = h("span", { class: "bar" });
  drawn.style.width = `${Math.round(wide)}px`;
  return drawn;
}

/** A number as one writes it: a true minus, no more digits than carry something. */
export function num(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "NaN";
  const small = value !== 0 && Math.abs(value) < 10 ** -digits / 2;
  return (small ? value.toExponential(1) : value.toFixed(digits)).replaceAll("-", "−");
}

/** A share: 98%, 0.6%, and of what is smaller still two digits, 0.026%. */
export function percent(value) {
  const digits = value >= 0.0995 ? 0 : value >= 0.00095 || !value ? 1 : Math.min(9, 1 - Math.floor(Math.log10(100 * value)));
  return `${num(100 * value, digits)}%`;
}

/** A piece as one reads it: the mark of a word's beginning is no letter of it. */
export function shown(piece) {
  const text = piece.replace(/^▁/u, "");
  return text === "" ? "␣" : text;
}

export function save(name, text, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A figure with the colours and letters that the page's rules give it. */
export function styledCopy(figure) {
  const copy = figure.cloneNode(true);
  const wanted = ["fill", "paint-order", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "font-family"];
  const originals = [figure, ...figure.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    for (const property of wanted) element.setAttribute(property, style.getPropertyValue(property));
    for (const attribute of ["class", "tabindex", "data-key"]) element.removeAttribute(attribute);
  });
  return copy;
}

/** A drawn figure as a file of its own. */
export function saveDrawn(figure, name) {
  figure.setAttribute("xmlns", SVG);
  save(name, new XMLSerializer().serializeToString(figure), "image/svg+xml");
}

/** A figure of the page as a file of its own. */
export function saveSvg(figure, name) {
  const copy = styledCopy(figure);
  copy.prepend(s("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
  saveDrawn(copy, name);
}

/* Any view as an SVG with real text: what the browser laid out is written down anew, box by box and line by line. */

import { s, styledCopy } from "./dom.js";

const clear = (color) => color === "transparent" || /, 0\)$/u.test(color);

/** The lines of a text node: {text, box}. */
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = [...range.getClientRects()].filter(({ width }) => width > 0);
  if (boxes.length <= 1) return boxes.map((box) => ({ text: node.data.trim(), box }));
  const lines = [];
  for (const word of node.data.matchAll(/\S+/gu)) {
    // A word without blanks may itself be broken, as Chinese is.
    for (const [part, at] of broken(range, node, word)) {
      range.setStart(node, at);
      range.setEnd(node, at + part.length);
      const box = range.getBoundingClientRect();
      const last = lines.at(-1);
      if (last && Math.abs(last.box.top - box.top) < 2) {
        last.text += node.data.slice(last.end, at + part.length);
        last.box = { left: last.box.left, top: last.box.top, width: box.right - last.box.left, height: last.box.height };
      } else lines.push({ text: part, box });
      lines.at(-1).end = at + part.length;
    }
  }
  return lines;
}

function broken(range, node, word) {
  range.setStart(node, word.index);
  range.setEnd(node, word.index + word[0].length);
  if (range.getClientRects().length <= 1) return [[word[0], word.index]];
  let at = word.index;
  return [...word[0]].map((sign) => [sign, (at += sign.length) - sign.length]);
}

function boxOf(element, style, place) {
  const box = place(element.getBoundingClientRect());
  const border = parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== "none";
  const line = parseFloat(style.borderBottomWidth) > 0 && style.borderBottomStyle !== "none";
  const parts = [];
  if (!clear(style.backgroundColor) || border) {
    parts.push(s("rect", { ...box, rx: Math.min(8, parseFloat(style.borderTopLeftRadius) || 0), fill: clear(style.backgroundColor) ? "none" : style.backgroundColor, stroke: border ? style.borderTopColor : "none" }));
  }
  if (line && !border) parts.push(s("line", { x1: box.x, x2: box.x + box.width, y1: box.y + box.height, y2: box.y + box.height, stroke: style.borderBottomColor }));
  if (style.backgroundImage.startsWith("repeating")) parts.push(s("path", { d: hatch(box), stroke: "#8a8f95", fill: "none" }));
  return parts;
}

function hatch({ x, y, width, height }) {
  let d = "";
  for (let at = 5; at < width + height; at += 5) {
    const [x1, y1] = at <= height ? [x, y + at] : [x + at - height, y + height];
    const [x2, y2] = at <= width ? [x + at, y] : [x + width, y + at - width];
    d += `M${x1.toFixed(1)} ${y1.toFixed(1)}L${x2.toFixed(1)} ${y2.toFixed(1)}`;
  }
  return d;
}

function fieldText(element) {
  if (element.matches("select")) return element.selectedOptions[0]?.textContent ?? "";
  return element.matches("input:not([type=range], [type=radio], [type=checkbox], [type=password])") ? element.value : "";
}

/** @returns {SVGElement} a figure of an element as it stands in the page, with what is scrolled away */
export function pictureOf(root) {
  root.classList.add("pictured");
  try { return drawn(root); } finally { root.classList.remove("pictured"); }
}

function drawn(root) {
  const start = root.getBoundingClientRect();
  const place = ({ left, top, width, height }) => ({ x: left - start.left, y: top - start.top, width, height });
  const parts = [];
  let [right, low] = [start.width, start.height];
  const text = (words, box, style) => {
    const at = place(box);
    [right, low] = [Math.max(right, at.x + at.width), Math.max(low, at.y + at.height)];
    const size = parseFloat(style.fontSize);
    parts.push(s("text", { x: at.x, y: at.y + at.height / 2 + 0.35 * size, "font-size": size, "font-weight": style.fontWeight, fill: style.color,
      "font-family": style.fontFamily.replaceAll('"', "'"), "text-decoration": style.textDecorationLine === "none" ? null : style.textDecorationLine, textLength: at.width.toFixed(1), lengthAdjust: "spacingAndGlyphs", "xml:space": "preserve" }, words));
  };
  const walk = (element) => {
    if (!element.checkVisibility()) return;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    [right, low] = [Math.max(right, place(box).x + box.width), Math.max(low, place(box).y + box.height)];
    if (element.matches("canvas")) {
      parts.push(s("image", { ...place(box), href: element.toDataURL(), "image-rendering": "pixelated" }));
      return;
    }
    if (element.matches("svg")) {
      const copy = styledCopy(element);
      const at = place(box);
      for (const [name, value] of Object.entries({ ...at, viewBox: element.getAttribute("viewBox") ?? `0 0 ${box.width} ${box.height}` })) copy.setAttribute(name, value);
      parts.push(copy);
      return;
    }
    parts.push(...boxOf(element, style, place));
    if (element.matches("select, input")) {
      const words = fieldText(element);
      if (words) text(words, { left: box.left + 10, top: box.top, width: Math.min(box.width - 20, 8.5 * words.length), height: box.height }, style);
      return;
    }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE && child.data.trim()) for (const line of linesOf(child)) text(line.text, line.box, style);
      else if (child.nodeType === Node.ELEMENT_NODE) walk(child);
    }
  };
  walk(root);
  const ground = getComputedStyle(document.body).backgroundColor;
  const [width, height] = [Math.ceil(right), Math.ceil(low)];
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, s("rect", { width, height, fill: ground }), parts);
}

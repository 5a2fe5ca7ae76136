/* All heads at once, small; one of them large. */

import { button, h, num } from "./dom.js";
import { keyLabels, rowLabels } from "./labels.js";
import { mix, palette } from "./colors.js";
import { isLive } from "./live.js";
import { drawMatrix } from "./matrix.js";
import { isOff, toggleHead } from "./question.js";
import { set, state } from "./state.js";
import { nameOf, t } from "./texts.js";

const ORDERS = ["entropy", "sharpness", "distance", "diagonality"];

function small(trace, node, path, head) {
  const [rows, cols] = node.shape.slice(-2);
  const colors = palette();
  const image = new ImageData(cols, rows);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < cols; j++) {
      const hidden = trace.reason(path, i, j);
      // One tile is too small for a hatch: every other one of the hidden is grey.
      const color = hidden ? ((i + j) % 2 ? [138, 143, 149] : colors.paper) : mix(colors, trace.at(node.array, head, i, j), "share");
      image.data.set([...color, 255], 4 * (i * cols + j));
    }
  }
  const canvas = h("canvas", { width: cols, height: rows, class: "thumb" });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** With a server, a head can be switched off. */
export function switchButton(path, head) {
  if (!isLive()) return null;
  const off = isOff(path, head);
  return button(t(off ? "switchOn" : "switchOff", head), () => toggleHead(path, head), { key: `switch:${path}:${head}`, "aria-pressed": String(off) });
}

export function drawHeads(trace) {
  const order = ORDERS.includes(state.sort) ? state.sort : "entropy";
  const all = [...(trace.record.summaries?.heads ?? [])].sort((a, b) => a[order] - b[order]);
  if (!all.length) return [h("p", {}, t("none"))];
  const select = h("label", {}, t("sortBy"), h("select", { key: "sort", onchange: (event) => set({ sort: event.target.value }) },
    ORDERS.map((name) => h("option", { value: name, selected: name === order }, t(name)))));
  const chosen = all.find((each) => state.stage === `${each.attention}.weights` && each.head === state.head) ?? all[0];
  const thumbs = all.map((each) => {
    const node = trace.node(`${each.attention}.weights`);
    if (!node || !trace.array(node.array)) return null;
    const name = `${nameOf(node).split(" · ").slice(0, 3).join(" · ")} · ${t("headN", each.head)}`;
    return h("button", { type: "button", class: "head", "aria-pressed": String(each === chosen), key: `thumb:${each.attention}:${each.head}`,
      onclick: () => set({ stage: node.id, head: each.head, row: -1, col: -1 }, true) },
    small(trace, node, each.attention, each.head), h("span", {}, name), h("small", {}, `${t(order)} ${num(each[order], 2)}`));
  });
  const node = trace.node(`${chosen.attention}.weights`);
  const [rows, cols] = node.shape.slice(-2);
  const large = drawMatrix({
    name: `${nameOf(node)}, ${t("headN", chosen.head)}`, key: "large", scale: "share", at: [-1, -1], corner: "Q \\ K",
    rows: rowLabels(trace, node.axes.at(-2), rows), cols: keyLabels(trace, node.axes.at(-1), cols),
    value: (i, j) => trace.at(node.array, chosen.head, i, j), hidden: (i, j) => { const why = trace.reason(chosen.attention, i, j); return why && t(why); },
    choose: (row, col) => set({ view: "stage", stage: node.id, head: chosen.head, row, col }),
  });
  return [h("div", { class: "row" }, select), h("div", { class: "thumbs" }, thumbs),
    h("section", { class: "tile here" }, h("h2", {}, `${nameOf(node)} · ${t("headN", chosen.head)}`),
      h("p", {}, ORDERS.map((name) => `${t(name)} ${num(chosen[name], 3)}`).join(" · ")), large,
      h("div", { class: "row" }, button(t("openStage"), () => set({ view: "stage", stage: node.id, head: chosen.head })), switchButton(chosen.attention, chosen.head)))];
}

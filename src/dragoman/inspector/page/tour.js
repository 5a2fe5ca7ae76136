/* The tour: one question after another, each answered from the trace in view. */

import { button, h } from "./dom.js";
import { set, state } from "./state.js";
import { stopsOf } from "./stops.js";
import { t } from "./texts.js";

export function drawTour(trace) {
  const stops = stopsOf(trace);
  if (!stops.length) return [h("p", {}, t("none"))];
  const at = Math.min(Math.max(0, state.stop), stops.length - 1);
  const { question, answer, show } = stops[at];
  return [h("section", { class: "tile here stop", "aria-label": t("tour") },
    h("p", { id: "stop" }, t("stopN", at + 1, stops.length)), h("h2", {}, question),
    h("p", { id: "answer", "aria-live": "polite" }, answer),
    h("div", { class: "row" },
      button(t("back"), () => set({ stop: at - 1 }), { key: "back", disabled: at === 0 }),
      button(t("next"), () => set({ stop: at + 1 }), { key: "next", disabled: at === stops.length - 1 }),
      button(t("show"), () => set(show), { key: "show" }), button(t("print"), () => print(), { key: "print" }))),
  h("ol", { class: "stops" }, stops.map((stop, place) => h("li", {}, button(stop.question, () => set({ stop: place }), { class: "quiet", key: `stop:${place}`, "aria-current": place === at ? "step" : null }),
    h("p", { class: "printed" }, stop.answer))))];
}

/* A sound as it is heard: its frames, what CTC reads off them, and where each step listened, above one axis of time. */

import { mix, palette } from "./colors.js";
import { h, num, shown } from "./dom.js";
import { set, state } from "./state.js";
import { t } from "./texts.js";

const LOW = -2; // normalised log-mels from here …
const HIGH = 2.5; // … to here have colours of their own
const WAVE = [900, 160];

/** The cross-attention that tells best where an output was heard: of the last layer but one, or the only one. */
export function listeningPath(trace) {
  const paths = (trace.record.model.attentions ?? []).filter((path) => path.endsWith("cross_attention") && trace.array(`${path}.weights`));
  return paths[Math.max(0, paths.length - 2)];
}

/** One number for each row and column: the mean over the heads. */
function heard(trace, path) {
  const { data, shape } = trace.array(`${path}.weights`);
  const [, heads, rows, cols] = shape;
  return { rows, cols, at: (row, col) => {
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += data[(head * rows + row) * cols + col];
    return sum / heads;
  } };
}

function paint(canvas, share) {
  const colors = palette();
  const { width, height } = canvas;
  const image = new ImageData(width, height);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) image.data.set([...mix(colors, share(x, y), "share"), 255], at);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const place = (element, styles) => { Object.assign(element.style, styles); return element; };
const percent = (part) => `${Math.min(100, 100 * part)}%`;

function axis(seconds) {
  const step = [0.1, 0.2, 0.5, 1, 2, 5].find((size) => seconds / size <= 12) ?? 10;
  const ticks = Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, at) => at * step);
  return h("div", { class: "time", "aria-hidden": "true" }, ticks.map((tick) => place(h("span", {}, num(tick, step < 1 ? 1 : 0)), { left: percent(tick / seconds) })));
}

function readings(sound, seconds) {
  const said = sound.ctc.filter(({ piece }) => piece);
  if (!said.length) return null;
  return h("div", { class: "read", role: "img", "aria-label": `CTC: ${said.map(({ piece }) => shown(piece)).join(" ")}` }, said.map(({ start, end, piece, probability }, at) =>
    place(h("span", { class: at % 2 ? "low" : "", title: `${num(start, 2)}–${num(end, 2)} s, ${num(probability, 3)}` }, shown(piece)), { left: percent(start / seconds), minWidth: percent((end - start) / seconds) })));
}

/** The strip of a sound; the arrows, or the pointer, go through its times. */
export function drawSound(trace) {
  const { sound } = trace.record;
  const frames = trace.array(sound.arrays.spectrogram);
  if (!frames) return h("p", {}, t("notKept"));
  const mels = sound.mels;
  const seconds = sound.positions * sound.seconds_each;
  const wide = sound.frames * sound.seconds_frame / seconds;
  const picture = paint(h("canvas", { width: sound.frames, height: mels, class: "spectrogram" }),
    (x, y) => Math.max(0, (frames.data[x * mels + mels - 1 - y] - LOW) / (HIGH - LOW)));
  place(picture, { width: percent(wide) });
  const path = listeningPath(trace);
  const looks = path && heard(trace, path);
  const row = Math.min((looks?.rows ?? 1) - 1, state.t - 1 + trace.offset);
  const rows = looks ? looks.rows : 0;
  let most = 0;
  for (let i = 0; i < rows; i++) for (let j = 0; j < sound.positions; j++) most = Math.max(most, looks.at(i, j));
  const listened = looks && paint(h("canvas", { width: sound.positions, height: rows, class: "listened" }), (x, y) => looks.at(y, x) / (most || 1));
  if (listened) {
    place(listened, { height: `${Math.max(1.2, rows * 0.75)}rem` });
    listened.addEventListener("click", (event) => {
      const box = listened.getBoundingClientRect();
      const found = Math.floor((event.clientY - box.top) / box.height * rows) - trace.offset + 1;
      set({ t: Math.max(1, Math.min(trace.steps.length, found)) });
    });
  }
  const mark = looks && place(h("div", { class: "mark" }), { top: percent(row / rows), height: percent(1 / rows) });
  const cursor = h("div", { class: "cursor", hidden: true });
  const readout = h("p", { class: "readout", role: "status" });
  let now = 0;
  const tell = (part) => {
    now = Math.max(0, Math.min(0.999999, part));
    cursor.hidden = false;
    place(cursor, { left: percent(now) });
    const time = now * seconds;
    const frame = Math.min(sound.frames - 1, Math.floor(time / sound.seconds_frame));
    const position = Math.min(sound.positions - 1, Math.floor(time / sound.seconds_each));
    const said = sound.ctc.find(({ start, end, piece }) => piece && time >= start && time < end);
    readout.textContent = [t("atTime", num(time, 2), frame, position + 1, trace.record.source.pieces[position].text),
      looks ? t("lookedAt", state.t, shown(trace.steps[state.t - 1]?.writes.piece ?? ""), num(looks.at(row, position), 3)) : null,
      said ? `CTC: ${shown(said.piece)}` : null].filter(Boolean).join(" · ");
  };
  const panels = h("div", { class: "panels", tabindex: 0, role: "group", key: "sound", "aria-label": t("soundPanels", num(sound.seconds, 2)),
    onpointermove: (event) => { const box = panels.getBoundingClientRect(); tell((event.clientX - box.left) / box.width); },
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      tell(cursor.hidden ? 0 : (Math.floor(now * sound.positions + 1e-6) + by + 0.5) / sound.positions);
    } }, picture, readings(sound, seconds), listened ? h("div", { class: "rows" }, listened, mark) : null, axis(seconds), cursor);
  return h("div", { class: "sound" }, h("p", { class: "note" }, t("soundLine", trace.record.text, num(sound.seconds, 2), sound.sample_rate.toLocaleString("en"), sound.frames, mels, sound.positions)), panels, readout);
}

/** Samples as a line from the lowest to the highest of each stretch. */
export function drawWave(trace, node) {
  const { data } = trace.array(node.array);
  const [width, height] = WAVE;
  const canvas = h("canvas", { width, height, class: "wave", role: "img", "aria-label": t("waveform") });
  const brush = canvas.getContext("2d");
  const [r, g, b] = palette().plus;
  brush.fillStyle = `rgb(${r}, ${g}, ${b})`;
  for (let x = 0; x < width; x++) {
    const part = data.subarray(Math.floor(x * data.length / width), Math.max(Math.floor(x * data.length / width) + 1, Math.floor((x + 1) * data.length / width)));
    const [low, high] = [Math.min(...part), Math.max(...part)];
    brush.fillRect(x, height / 2 * (1 - high), 1, Math.max(1, height / 2 * (high - low)));
  }
  return canvas;
}

/* How a number came to be, computed again from its operands: lines to read, terms to sum, and the result to compare. */

import { num } from "./dom.js";
import { formulaOf, nameOf, t } from "./texts.js";

const line = (label, value) => ({ label, value });

export function dot(one, other) {
  let sum = 0;
  for (let at = 0; at < one.length; at++) sum += one[at] * other[at];
  return sum;
}

const terms = (title, one, other, names, most = Infinity) => ({ title, one, other, names, most });

/** Of so many heads, how much each lowers a score per step of distance (ALiBi). */
export function alibiSlopes(heads) {
  const lower = 2 ** Math.floor(Math.log2(heads));
  const slopes = Array.from({ length: lower }, (_, at) => 2 ** (-8 * (at + 1) / lower));
  for (let head = 1; head < 2 * (heads - lower); head += 2) slopes.push(2 ** (-4 * head / lower));
  return slopes;
}

/** What positions bring into a score: {lines, other: the vector that meets the query, added, known}. */
function positionsIn(trace, path, head, query, key, k) {
  const { scores, query: q } = trace.attention(path);
  const plain = { lines: [], other: k, added: 0, known: true };
  if (trace.record.model.positions === "alibi" && !path.endsWith("cross_attention")) {
    const slope = alibiSlopes(q.shape[1])[head];
    const added = -slope * Math.abs(query - key);
    return { ...plain, lines: [line(t("alibiAdds", num(slope, 5), Math.abs(query - key)), num(added, 5))], added };
  }
  if (!scores.parameters.length) return plain;
  const table = trace.array(scores.parameters[0]);
  if (!table || table.shape.length !== 2 || table.shape[1] !== k.length) return { ...plain, known: false };
  const most = (table.shape[0] - 1) / 2;
  const distance = Math.min(most, Math.max(-most, key - query));
  const a = trace.row(scores.parameters[0], distance + most);
  return { ...plain, lines: [line(t("relativeAdds", distance), "")], other: k.map((value, at) => value + a[at]), slack: table.half, relative: true };
}

/** The dot product of a query and a key, and the score it becomes. */
export function scoreOf(trace, path, head, query, key, root = true) {
  const { query: q, key: k, scores } = trace.attention(path);
  const one = q?.array ? trace.row(q.array, head, query) : null;
  const own = k?.array ? trace.row(k.array, head, key) : null;
  const traced = trace.at(scores.array, head, query, key);
  if (!one || !own) return { lines: [line(t("scores"), num(traced, 5))], traced };
  const positions = positionsIn(trace, path, head, query, key, own);
  const other = positions.other;
  const product = dot(one, other);
  const width = Math.sqrt(one.length);
  const lines = [line(positions.relative ? "q · (k + a)" : "q · k", num(product, 5))];
  if (positions.relative) lines.push(...positions.lines);
  if (!positions.known) lines.push(line(t("entersScores", num(traced * width - product, 5)), ""));
  const scaled = root ? product / width : product;
  if (root) lines.push(line(t("scaled", num(width)), num(scaled, 5)));
  if (positions.added) lines.push(...positions.lines, line(t("scores"), num(scaled + positions.added, 5)));
  const computed = root && positions.known ? scaled + positions.added : undefined;
  const names = ["q", positions.relative ? "k + a" : "k"];
  return { lines, terms: terms(t("dot"), one, other, names), computed, traced, product, slack: positions.slack ? slackOf(one, other) / width : 0 };
}

/** Softmax of one row of scores; what the mask hides gets exactly 0. */
export function softmaxRow(trace, path, head, query, root = true) {
  const { scores, query: q } = trace.attention(path);
  const row = trace.row(scores.array, head, query);
  const factor = root ? 1 : Math.sqrt(q.shape.at(-1));
  const open = Array.from(row, (_, key) => trace.reason(path, query, key) === null);
  const largest = Math.max(...Array.from(row).filter((_, key) => open[key]).map((value) => value * factor));
  const powers = Array.from(row, (value, key) => (open[key] ? Math.exp(value * factor - largest) : 0));
  const sum = powers.reduce((total, value) => total + value, 0) || 1;
  return { weights: powers.map((value) => value / sum), powers, sum, largest, scores: Array.from(row, (value) => value * factor) };
}

export const entropyOf = (weights) => weights.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);

export function weightOf(trace, path, head, query, key, root = true) {
  const { weights } = trace.attention(path);
  const row = softmaxRow(trace, path, head, query, root);
  const why = trace.reason(path, query, key);
  const score = scoreOf(trace, path, head, query, key, root);
  const lines = [...score.lines, line(why ? t(why) : t("maskOpen"), why ? "→ 0" : "")];
  if (!why) {
    lines.push(line(t("exp", num(row.scores[key]), num(row.largest)), num(row.powers[key], 5)));
    lines.push(line(t("expSum"), num(row.sum, 5)));
  }
  lines.push(line(t("weight"), num(row.weights[key], 5)));
  const traced = root ? trace.at(weights.array, head, query, key) : null;
  return { lines, terms: score.terms, computed: row.weights[key], traced };
}

function mixedOf(trace, path, head, query, column) {
  const { weights, value, mixed } = trace.attention(path);
  const one = trace.row(weights.array, head, query);
  const keys = value.shape.at(-2);
  const other = Float32Array.from({ length: keys }, (_, key) => trace.at(value.array, head, key, column));
  if (!trace.array(value.array)) return null;
  const off = trace.record.what_if?.heads_off?.some(([name, number]) => name === path && number === head);
  const computed = off ? 0 : dot(one, other);
  if (off) return { lines: [line(t("headOff"), num(0, 5))], computed, traced: trace.at(mixed.array, head, query, column) };
  return { lines: [line(t("mixed"), num(computed, 5))], terms: terms(t("mixed"), one, other, [t("weights"), "v"]), computed, traced: trace.at(mixed.array, head, query, column) };
}

function normOf(trace, node, row, column) {
  const { input, mean, deviation, normed, gain, bias, eps } = node.norm;
  const from = trace.node(input);
  const x = from?.array ? trace.row(from.array, row) : null;
  const told = { mean: trace.at(mean, row, 0), deviation: trace.at(deviation, row, 0) };
  if (!x) return null;
  const average = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - average) ** 2, 0) / x.length;
  const width = told.deviation ?? Math.sqrt(variance + eps);
  const unit = (x[column] - average) / width;
  const [g, b] = [gain && trace.array(gain)?.data[column], bias && trace.array(bias)?.data[column]];
  const lines = [line(`x [${column}]`, num(x[column], 5)), line(t("mean"), num(average, 5)),
    line(`${t("deviation")} = √(${num(variance, 5)} + ${eps})`, num(width, 5)), line(t("normed"), num(unit, 5))];
  if (g !== null && g !== undefined) lines.push(line(`${t("gain")} = × ${num(g, 5)}`, num(unit * g, 5)));
  if (b !== null && b !== undefined) lines.push(line(`${t("bias")} = + ${num(b, 5)}`, num(unit * (g ?? 1) + b, 5)));
  if ((gain && g === undefined) || (bias && b === undefined)) return { lines: [...lines, line(t("noParameters"), "")], computed: unit, traced: trace.at(normed, row, column) };
  return { lines, computed: unit * (g ?? 1) + (b ?? 0), traced: trace.at(node.array, row, column) };
}

/** The row that goes into a linear map: heads side by side where heads are joined. */
function inputRow(trace, node, row) {
  const from = trace.node(node.inputs[0]);
  if (!from?.array) return null;
  if (node.kind !== "merge") return trace.row(from.array, row);
  const heads = from.shape[1];
  const parts = Array.from({ length: heads }, (_, head) => trace.row(from.array, head, row));
  return parts[0] ? Float32Array.from(parts.flatMap((part) => Array.from(part))) : null;
}

function linearOf(trace, node, head, row, column) {
  const x = inputRow(trace, node, row);
  const traced = node.kind === "heads" ? trace.at(node.array, head, row, column) : trace.at(node.array, row, column);
  const at = (node.parameter_rows?.[0] ?? 0) + (node.kind === "heads" ? head * node.shape.at(-1) + column : column);
  const weight = node.parameters[0] && trace.array(node.parameters[0]);
  if (!x || !weight || weight.shape.at(-1) !== x.length) return { lines: [line(t("noParameters"), "")], traced };
  const w = trace.row(node.parameters[0], at);
  const b = node.parameters[1] ? trace.array(node.parameters[1])?.data[at] : undefined;
  const product = dot(x, w);
  const lines = [line("x · W", num(product, 5))];
  if (b !== undefined) lines.push(line(`+ b = + ${num(b, 5)}`, num(product + b, 5)));
  // Rotary positions turn pairs of columns of queries and keys after the map.
  if (trace.record.model.positions.startsWith("rotary") && /\.(query|key)$/u.test(node.id) && node.formula.includes("rotat")) {
    const mapped = (other) => dot(x, trace.row(node.parameters[0], at + other)) + (node.parameters[1] ? trace.array(node.parameters[1]).data[at + other] : 0);
    const odd = column % 2;
    const [even, next] = odd ? [mapped(-1), mapped(0)] : [mapped(0), mapped(1)];
    const angle = row / 10000 ** ((column - odd) / node.shape.at(-1));
    const computed = odd ? even * Math.sin(angle) + next * Math.cos(angle) : even * Math.cos(angle) - next * Math.sin(angle);
    const turn = odd ? `${num(even)} · sin ${num(angle)} + ${num(next)} · cos ${num(angle)}` : `${num(even)} · cos ${num(angle)} − ${num(next)} · sin ${num(angle)}`;
    return { lines: [...lines, line(t("turned"), ""), line(turn, num(computed, 5))], terms: terms("x · W", x, w, ["x", "W"], 16), computed, traced, slack: weight.half ? 2 * slackOf(x, w) : 0 };
  }
  return { lines, terms: terms("x · W", x, w, ["x", "W"], 16), computed: product + (b ?? 0), traced, slack: weight.half ? slackOf(x, w) : 0 };
}

/** How far rounding of W to half precision may take a sum of products. */
function slackOf(x, w) {
  let sum = 0;
  for (let at = 0; at < x.length; at++) sum += Math.abs(x[at] * w[at]);
  return sum * 2 ** -11;
}

function addOf(trace, node, row, column) {
  const parts = node.inputs.map((id) => trace.node(id)).filter((from) => from?.array).map((from) => [nameOf(from), trace.at(from.array, row, column)]);
  if (parts.length < 2 || parts.some(([, value]) => value === null)) return null;
  return { lines: parts.map(([id, value], at) => line(`${at ? "+ " : ""}${id}`, num(value, 5))), computed: parts.reduce((sum, [, value]) => sum + value, 0), traced: trace.at(node.array, row, column) };
}

function embedOf(trace, node, row, column) {
  const traced = trace.at(node.array, row, column);
  if (node.kind === "scale") {
    const x = trace.at(trace.node(node.inputs[0]).array, row, column);
    const root = Math.sqrt(trace.sizes.d_model);
    return { lines: [line(`${num(x, 5)} × √${trace.sizes.d_model}`, num(x * root, 5))], computed: x * root, traced };
  }
  const ids = trace.node(node.inputs[0])?.picked;
  const value = ids && trace.array(node.parameters[0]) ? trace.at(node.parameters[0], ids[row], column) : undefined;
  return value === undefined ? { lines: [line(t("noParameters"), "")], traced } : { lines: [line(`E[${ids[row]}, ${column}]`, num(value, 5))], computed: value, traced, slack: trace.array(node.parameters[0]).half ? Math.abs(value) * 2 ** -11 : 0 };
}

function positionOf(trace, node, row, column) {
  const traced = trace.at(node.array, row, column);
  const { positions } = trace.record.model;
  const layout = { interleaved: [Math.floor(column / 2), column % 2], concatenated: [column % (node.shape.at(-1) / 2), Math.floor(column / (node.shape.at(-1) / 2))] }[positions];
  const width = node.shape.at(-1);
  if (!layout || width % 2) return { lines: [line(formulaOf(node), num(traced, 5))], traced };
  // Some systems count positions from 1.
  const first = trace.record.what_if?.convention === "lsdefine" ? 1 : 0;
  const [pair, cosine] = layout;
  const angle = (row + first) / 10000 ** (2 * pair / width);
  const wave = cosine ? "cos" : "sin";
  const computed = Math[wave](angle);
  return { lines: [line(`${wave}(${row + first} / 10000^(${2 * pair}/${width})) = ${wave}(${num(angle, 5)})`, num(computed, 5))], computed, traced };
}

function activationOf(trace, node, row, column) {
  const x = trace.at(trace.node(node.inputs[0]).array, row, column);
  const traced = trace.at(node.array, row, column);
  if (trace.record.model.config.activation !== "relu" || node.inputs.length > 1) return { lines: [line(`x [${column}]`, num(x, 5)), line(formulaOf(node), num(traced, 5))], traced };
  return { lines: [line(`max(0, ${num(x, 5)})`, num(Math.max(0, x), 5))], computed: Math.max(0, x), traced };
}

function passedOf(trace, node, row, column) {
  const from = trace.node(node.inputs[0]);
  if (!from?.array || from.shape.length !== node.shape.length) return null;
  const computed = trace.at(from.array, row, column);
  return { lines: [line(nameOf(from), num(computed, 5))], computed, traced: trace.at(node.array, row, column) };
}

/** A bin's log-mel without its mean over all frames, in units of its deviation. */
function normaliseOf(trace, node, row, column) {
  const from = trace.node(node.inputs[0]);
  const mels = trace.array(from.array);
  const traced = trace.at(node.array, row, column);
  if (!mels || row >= mels.shape.at(-2)) return mels ? { lines: [line(t("padding"), "")], traced } : null;
  const bins = Float64Array.from({ length: mels.shape.at(-2) }, (_, at) => trace.at(from.array, at, column));
  const mean = bins.reduce((sum, value) => sum + value, 0) / bins.length;
  const variance = bins.reduce((sum, value) => sum + (value - mean) ** 2, 0) / bins.length;
  const deviation = Math.sqrt(Math.max(variance, 1e-10));
  const computed = (bins[row] - mean) / deviation;
  return { lines: [line(`${nameOf(from).split(" · ").at(-1)} x`, num(bins[row], 5)), line(t("mean"), num(mean, 5)), line(t("deviationPlain"), num(deviation, 5)), line(t("normed"), num(computed, 5))], computed, traced };
}

/** Five rows under the kernel, each number times its weight; what lies outside the sound is 0. */
function convolutionOf(trace, node, row, column) {
  const from = trace.node(node.inputs[0]);
  const traced = trace.at(node.array, row, column);
  const weight = trace.array(node.parameters[0]);
  const given = trace.array(from.array);
  if (!weight || !given) return { lines: [line(t("noParameters"), "")], traced };
  const [, width, kernel] = weight.shape;
  const rows = given.shape.at(-2);
  const [one, other, lines] = [[], [], []];
  for (let tap = 0; tap < kernel; tap++) {
    const at = 2 * row + tap - (kernel - 1) / 2;
    if (at < 0 || at >= rows) {
      lines.push(line(t("outside", tap), num(0, 5)));
      continue;
    }
    const x = trace.row(from.array, at);
    const w = Float32Array.from({ length: width }, (_, bin) => weight.data[(column * width + bin) * kernel + tap]);
    lines.push(line(t("kernelOn", tap, at), num(dot(x, w), 5)));
    one.push(...x);
    other.push(...w);
  }
  const bias = node.parameters[1] ? trace.array(node.parameters[1])?.data[column] ?? 0 : 0;
  const computed = dot(one, other) + bias;
  lines.push(line(`+ b = + ${num(bias, 5)}`, num(computed, 5)));
  return { lines, terms: terms("x · W", one, other, ["x", "W"], 16), computed, traced, slack: weight.half ? slackOf(one, other) : 0 };
}

function gateOf(trace, node, row, column) {
  const from = trace.node(node.inputs[0]);
  const traced = trace.at(node.array, row, column);
  if (!trace.array(from.array)) return null;
  const [a, b] = [column, column + node.shape.at(-1)].map((at) => trace.at(from.array, row, at));
  const computed = a / (1 + Math.exp(-b));
  return { lines: [line(`a [${column}]`, num(a, 5)), line(`b [${column + node.shape.at(-1)}]`, num(b, 5)), line("σ(b) = 1 / (1 + exp(−b))", num(1 / (1 + Math.exp(-b)), 5)), line("a · σ(b)", num(computed, 5))], computed, traced };
}

/** How the number at a place of a stage was computed; null where the page cannot say. */
export function explain(trace, node, { head, row, col, root }) {
  const path = trace.attentionOf(node.id);
  if (node.norm) return normOf(trace, node, row, col);
  switch (node.kind) {
    case "scores": return scoreOf(trace, path, head, row, col, root);
    case "mask": return { lines: [line(trace.reason(path, row, col) ? t(trace.reason(path, row, col)) : t("maskOpen"), "")] };
    case "softmax": return path ? weightOf(trace, path, head, row, col, root) : null;
    case "mix": return mixedOf(trace, path, head, row, col);
    case "heads": case "merge": case "linear": case "logits": return linearOf(trace, node, head, row, col);
    case "add": return addOf(trace, node, row, col);
    case "embed": case "scale": return embedOf(trace, node, row, col);
    case "position": return positionOf(trace, node, row, col);
    case "normalise": return normaliseOf(trace, node, row, col);
    case "convolution": return convolutionOf(trace, node, row, col);
    case "gate": return gateOf(trace, node, row, col);
    case "activation": return activationOf(trace, node, row, col);
    case "memory": case "output": return passedOf(trace, node, row, col);
    default: return null;
  }
}

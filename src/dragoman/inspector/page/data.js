/* The record and its arrays: a safetensors file, read where it lies. */

const DECODE = new TextDecoder();

function bytesOf(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

const READERS = {
  F32: (bytes) => new Float32Array(bytes),
  F16: (bytes) => Float32Array.from(new Uint16Array(bytes), half),
  BOOL: (bytes) => new Uint8Array(bytes),
  I64: (bytes) => Float64Array.from(new BigInt64Array(bytes), Number),
};

/** The arrays of a safetensors file by name, each decoded when it is first asked for. */
export function safetensors(bytes) {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  const header = JSON.parse(DECODE.decode(bytes.subarray(8, 8 + size)));
  const start = 8 + size;
  const decoded = new Map();
  const read = (name) => {
    if (decoded.has(name)) return decoded.get(name);
    const told = Object.hasOwn(header, name) ? header[name] : null;
    if (!told?.dtype) return null;
    const [from, to] = told.data_offsets;
    const data = READERS[told.dtype](bytes.slice(start + from, start + to).buffer);
    const array = { data, shape: told.shape, half: told.dtype === "F16" };
    decoded.set(name, array);
    return array;
  };
  read.told = header.__metadata__ ?? {};
  return read;
}

export class Trace {
  constructor(record, arrays) {
    this.record = record;
    this.array = arrays;
    this.nodes = new Map(record.graph.nodes.map((node) => [node.id, node]));
    this.sizes = record.model.sizes;
    this.steps = record.steps;
    const given = record.decoder_input?.pieces ?? [];
    // A target that was given has rows of its own; a prompt's rows come before the first step's.
    this.forced = record.logits?.decoder_input !== record.logits?.output;
    this.offset = this.forced ? 0 : Math.max(0, given.length - this.steps.length);
  }

  node(id) { return this.nodes.get(id); }

  /** A number of an array whose first axis is the batch of one. */
  at(name, ...places) {
    const array = this.array(name);
    if (!array) return null;
    const { data, shape } = array;
    let flat = 0;
    const offset = shape.length - places.length;
    places.forEach((place, axis) => { flat = flat * shape[offset + axis] + (shape[offset + axis] === 1 ? 0 : place); });
    return data[flat];
  }

  /** A row of the last axis. */
  row(name, ...places) {
    const array = this.array(name);
    if (!array) return null;
    const { data, shape } = array;
    const width = shape.at(-1);
    let flat = 0;
    const offset = shape.length - 1 - places.length;
    places.forEach((place, axis) => { flat = flat * shape[offset + axis] + (shape[offset + axis] === 1 ? 0 : place); });
    return data.subarray(flat * width, (flat + 1) * width);
  }

  sourcePieces(size) {
    const pieces = (this.record.source?.pieces ?? []).map(({ text }) => text);
    while (pieces.length < (size ?? 0)) pieces.push("<pad>");
    return pieces;
  }

  reads(row) { return this.record.decoder_input?.pieces[row]?.text ?? `${row + 1}`; }

  writes(row) {
    const next = this.record.decoder_input?.pieces[row + 1];
    if (next) return next.text;
    if (this.forced) return this.record.reference?.pieces.at(-1)?.text ?? "</s>";
    return this.steps.at(-1)?.writes.piece ?? "</s>";
  }

  /** Nodes of one attention by what they do: query, key, value, scores, mask, weights, mixed, output. */
  attention(path) {
    const parts = ["query", "key", "value", "scores", "mask", "weights", "mixed", "output"];
    return Object.fromEntries(parts.map((part) => [part, this.node(`${path}.${part}`)]));
  }

  attentionOf(id) { return this.record.model.attentions?.find((path) => id.startsWith(`${path}.`)); }

  /** Why a query may not see a key, or null where it may. */
  reason(path, query, key) {
    const mask = this.node(`${path}.mask`);
    const open = mask?.array ? this.at(mask.array, query, key) : 1;
    if (open) return null;
    return mask.padding.includes(key) ? "padding" : mask.causal && key > query ? "causal" : "masked";
  }

  /** The logits of a step of the output. */
  logits(t) {
    const name = this.record.logits?.output;
    const array = name && this.array(name);
    if (!array) return null;
    return this.row(name, t - 1 + Math.max(0, array.shape.at(-2) - this.steps.length));
  }
}

/** Bytes that were packed by gzip. */
async function unpacked(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A record with its arrays; those that are not there are another's. */
async function traceOf(record, arrays, others = () => null) {
  const bytes = bytesOf(arrays.textContent);
  const file = safetensors(arrays.dataset.packed ? await unpacked(bytes) : bytes);
  return new Trace(JSON.parse(record.textContent), (name) => file(name) ?? others(name));
}

/** The records that stand in the page, the first as it is and others with something changed: {name, trace}. */
export async function inPage() {
  const record = document.getElementById("record");
  if (!record) return [];
  const found = [{ name: "", trace: await traceOf(record, document.getElementById("arrays")) }];
  for (const preset of document.querySelectorAll("script[data-preset]")) {
    found.push({ name: preset.dataset.preset, trace: await traceOf(preset, preset.nextElementSibling, found[0].trace.array) });
  }
  return found;
}

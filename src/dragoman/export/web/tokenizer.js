/**
 * Texts to ids and back, from a `tokenizer.json` and a few facts that its format has no place for. Cuts as the model
 * was trained: words and characters, and SentencePiece's kinds with bytes for what has no piece.
 *
 * @typedef {{kind: "word" | "character" | "bpe" | "unigram", rule: string, escaped: boolean, prefix: boolean,
 *   squeezed: boolean, begin: number[], marks: string[], specials: {pad: number, unk: number, bos: number, eos: number},
 *   hidden: number[]}} Facts how a side is cut: the kind of its pieces; the rule that texts are written alike by;
 *   whether U+2581 is escaped; whether a blank is put before a text; whether runs of blanks become one; ids that every
 *   text begins with; tokens that a text may begin with; ids that stand for no text
 */

const BLANK = "\u2581";
const ESCAPE = "\u241b";
const UNKNOWN = "\ufffd";
const BYTE = /^<0x([0-9A-F]{2})>$/u;
const TAG = /^>>[^<>]*<</u;

/** The text of bytes; where they are none, a sign for each (as SentencePiece has it) or for each beginning of one. */
function spelled(bytes, each) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: each });
  if (!each) return decoder.decode(bytes);
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOf(bytes[at]);
    try {
      text += decoder.decode(bytes.subarray(at, at + length));
      at += length;
    } catch {
      text += UNKNOWN;
      at += 1;
    }
  }
  return text;
}

/** How many bytes a character has that begins with this one. */
const lengthOf = (byte) => (byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4);

// As `dragoman.text.normalization` has it: what is a blank, what is not seen, and joiners that say nothing.
const BLANKS = /[\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/gu;
const WORD = /[^ \t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;
const INVISIBLE = /[\xad\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/gu;
const UNJOINED =
  "\\x00-\\u058f\\u1e00-\\u1fff\\u2000-\\u200b\\u2010-\\u20cf\\u2e80-\\ua4cf\\uac00-\\ud7ff\\uf900-\\ufaff\\uff00-\\uffef";
const IDLE_JOINERS = new RegExp(`(?<![^${UNJOINED}])[\\u200c\\u200d]+(?![^${UNJOINED}])`, "gu");

const plainBlanks = (text) =>
  text.replace(BLANKS, " ").replace(INVISIBLE, "").replace(IDLE_JOINERS, "").replace(/^ +| +$/gu, "");

function formed(form, text) {
  for (let again; (again = plainBlanks(text).normalize(form)) !== text; text = again);
  return text;
}

/** One blank for each run of them, and none at the ends. */
const squeeze = (text) => text.replace(/ +/gu, " ").replace(/^ | $/gu, "");

const RULES = {
  blanks: plainBlanks,
  nfc: (text) => formed("NFC", text),
  nfkc: (text) => formed("NFKC", text),
};

/** A map of characters as SentencePiece compiles it: a trie in units of 32 bits, then the texts that it leads to. */
class CharacterMap {
  /** @param {string} coded in base64 */
  constructor(coded) {
    const bytes = Uint8Array.from(atob(coded), (sign) => sign.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, at) => view.getUint32(4 + 4 * at, true));
    this.texts = bytes.subarray(4 + size);
    this.decoder = new TextDecoder();
  }

  /** The longest entry that some bytes begin with at a place: how many bytes, and what they become; null if none. */
  longest(bytes, from) {
    const { units } = this;
    const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let found = null;
    let node = offset(units[0]);
    for (let at = from; at < bytes.length; at += 1) {
      node ^= bytes[at];
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== bytes[at]) break;
      node ^= offset(unit);
      if (unit & 0x100) found = [at + 1 - from, units[node] & 0x7fffffff];
    }
    if (!found) return null;
    const [length, start] = found;
    return [length, this.decoder.decode(this.texts.subarray(start, this.texts.indexOf(0, start)))];
  }

  /** @param {string} text @returns {string} */
  apply(text) {
    const bytes = new TextEncoder().encode(text);
    const parts = [];
    for (let at = 0; at < bytes.length; ) {
      const found = this.longest(bytes, at);
      const length = found ? found[0] : lengthOf(bytes[at]);
      parts.push(found ? found[1] : this.decoder.decode(bytes.subarray(at, at + length)));
      at += length;
    }
    return parts.join("");
  }
}

export class Tokenizer {
  /** @param {object} tree of `tokenizer.json` @param {Facts} facts */
  constructor(tree, facts) {
    const { model, normalizer } = tree;
    this.facts = facts;
    const entries = Array.isArray(model.vocab) ? model.vocab.map(([name], id) => [name, id]) : Object.entries(model.vocab);
    this.names = [];
    for (const [name, id] of entries) this.names[id] = name;
    const special = new Set([...facts.hidden, facts.specials.unk]);
    const spelled = ([name, id]) => !special.has(id) && !(model.byte_fallback && BYTE.test(name));
    this.ids = new Map(entries.filter(spelled));
    this.bytes = model.byte_fallback ? entries.filter(([name]) => BYTE.test(name)).sort().map(([, id]) => id) : [];
    this.longest = Math.max(...entries.map(([name]) => name.length));
    const scores = Array.isArray(model.vocab) ? model.vocab.map(([, score]) => score) : [];
    this.scores = scores;
    this.unknownScore = scores.reduce((least, score) => Math.min(least, score), 0) - 10;
    this.ranks = new Map();
    for (const [at, [left, right]] of (model.merges ?? []).entries()) {
      if (!this.ranks.has(left + right)) this.ranks.set(left + right, at);
    }
    const map = normalizer?.normalizers.find(({ type }) => type === "Precompiled");
    this.map = map && !(facts.rule in RULES) ? new CharacterMap(map.precompiled_charsmap) : null;
  }

  /** @param {string} text @returns {number[]} its ids, unframed */
  encode(text) {
    const { kind, rule, begin, marks, specials } = this.facts;
    const mark = marks.length ? text.match(TAG)?.[0] : undefined;
    if (mark && marks.includes(mark)) return [this.names.indexOf(mark), ...this.cut(text.slice(mark.length))];
    const listed = kind === "word" || kind === "character";
    const mapped = listed && rule === "nmt_nfkc" && this.map;
    const alike = rule in RULES ? RULES[rule](text) : mapped ? squeeze(this.map.apply(text)) : text;
    if (listed) {
      const parts = kind === "word" ? alike.match(WORD) ?? [] : [...alike];
      const ids = parts.map((part) => this.ids.get(kind === "word" ? BLANK + part : signed(part)) ?? specials.unk);
      return ids.length ? [...begin, ...ids] : [];
    }
    return [...begin, ...this.cut(alike)];
  }

  /** The ids of a text by SentencePiece's rules. */
  cut(text) {
    const { kind, escaped, prefix, squeezed, specials: { unk: unknown } } = this.facts;
    if (escaped) text = text.replaceAll(ESCAPE, ESCAPE + ESCAPE).replaceAll(BLANK, `${ESCAPE}_`);
    if (this.map) text = this.map.apply(text);
    if (squeezed) text = squeeze(text);
    if (!text) return [];
    const signs = [...((prefix ? " " : "") + text).replaceAll(" ", BLANK)];
    const ids = (kind === "unigram" ? this.likeliest(signs) : this.merged(signs)).flatMap((piece) => this.idsOf(piece));
    // What SentencePiece lacks, signs side by side, is one unknown.
    return ids.filter((id, at) => id !== unknown || ids[at - 1] !== unknown);
  }

  idsOf(piece) {
    const id = this.ids.get(piece);
    if (id !== undefined) return [id];
    if (this.bytes.length !== 256) return [this.facts.specials.unk];
    return [...new TextEncoder().encode(piece)].map((byte) => this.bytes[byte]);
  }

  /** Pieces with the greatest sum of scores (unigram), in float32 as SentencePiece adds them. */
  likeliest(signs) {
    const best = Array.from({ length: signs.length + 1 }, () => ({ score: -Infinity, from: 0, known: false }));
    best[0].score = 0;
    for (let from = 0; from < signs.length; from += 1) {
      let piece = "";
      let single = false;
      for (let to = from + 1; to <= signs.length; to += 1) {
        piece += signs[to - 1];
        if (piece.length > this.longest) break;
        const id = this.ids.get(piece);
        if (id === undefined) continue;
        single ||= to === from + 1;
        this.offer(best, from, to, this.scores[id]);
      }
      if (!single) this.offer(best, from, from + 1, this.unknownScore);
    }
    const pieces = [];
    for (let to = signs.length; to > 0; to = best[to].from) pieces.push(signs.slice(best[to].from, to).join(""));
    return pieces.reverse();
  }

  offer(best, from, to, more) {
    const score = Math.fround(best[from].score + Math.fround(more));
    if (score > best[to].score) best[to] = { score, from };
  }

  /** Pieces made by merging neighbours, those of the best rank first, the leftmost of equals (byte-pair encoding). */
  merged(signs) {
    const parts = [...signs];
    const rank = (at) => this.ranks.get(parts[at] + parts[at + 1]) ?? Infinity;
    const ranks = parts.slice(1).map((_, at) => rank(at));
    for (;;) {
      let at = 0;
      for (let i = 1; i < ranks.length; i += 1) if (ranks[i] < ranks[at]) at = i;
      if (!(ranks[at] < Infinity)) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
      ranks.splice(at, 1);
      if (at < ranks.length) ranks[at] = rank(at);
      if (at > 0) ranks[at - 1] = rank(at - 1);
    }
  }

  /** @param {number[]} ids @returns {string} their text: specials are left out, an unknown reads as U+FFFD */
  decode(ids) {
    const { kind, escaped, prefix, specials, hidden } = this.facts;
    const kept = ids.filter((id) => !hidden.includes(id));
    const names = kept.map((id) => (id === specials.unk ? UNKNOWN : this.names[id]));
    if (kind === "word") return names.map((name) => name.replace(BLANK, "")).join(" ");
    if (kind === "character") return names.map(unsigned).join("");
    let text = "";
    for (let at = 0; at < names.length; ) {
      const run = [];
      for (let byte; this.bytes.length && (byte = names[at + run.length]?.match(BYTE)); ) run.push(parseInt(byte[1], 16));
      text += run.length ? spelled(Uint8Array.from(run), escaped) : names[at];
      at += run.length || 1;
    }
    text = text.replaceAll(BLANK, " ");
    if (!escaped) return text.replace(/^ +| +$/gu, "");
    if (prefix && text.startsWith(" ")) text = text.slice(1);
    return text.replace(/\u241b([_\u241b])/gu, (_, sign) => (sign === "_" ? BLANK : sign));
  }
}

// A vocabulary of characters names the blank U+2581, and that sign U+241B, which has no name itself.
const signed = (sign) => ({ " ": BLANK, [BLANK]: ESCAPE, [ESCAPE]: "" })[sign] ?? sign;
const unsigned = (name) => (name === BLANK ? " " : name === ESCAPE ? BLANK : name);

/** A text that is too long for one request, in parts that are not. */

import { codePointOffsets, countCharacters } from "./words.js";

/** A part: its text without the white space around it, which need not travel. */
const LINES_AT_ONCE = 32;
const SENTENCE_END = /[.!?…。！？；;]["'”’»」』）)]*\s*/gu;

/**
 * Cut a text at its line breaks into parts of whole paragraphs, and a paragraph that is itself too long at the ends of
 * its sentences. The parts one after the other are the text.
 *
 * @param {string} text
 * @param {number} limit characters (code points) of a part
 * @returns {string[]}
 */
export function splitParagraphs(text, limit) {
  const parts = [];
  let part = "";
  let length = 0;
  let lines = 0;
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    for (const piece of cutLine(line, limit)) {
      const more = countCharacters(piece);
      if (part && (length + more > limit || lines >= LINES_AT_ONCE)) {
        parts.push(part);
        part = "";
        length = lines = 0;
      }
      part += piece;
      length += more;
      lines += 1;
    }
  }
  if (part) parts.push(part);
  return parts;
}

/** @param {string} line @param {number} limit @returns {string[]} */
function cutLine(line, limit) {
  const pieces = [];
  let rest = line;
  while (countCharacters(rest) > limit) {
    const most = codePointOffsets(rest)[limit];
    const cut = lastEnd(rest, SENTENCE_END, most) || lastEnd(rest, /\s+/gu, most) || most;
    pieces.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  pieces.push(rest);
  return pieces;
}

/** @param {string} text @param {RegExp} pattern @param {number} most @returns {number} 0 where there is none */
function lastEnd(text, pattern, most) {
  let last = 0;
  for (const { 0: found, index } of text.matchAll(pattern)) {
    const end = index + found.length;
    if (end > most) break;
    last = end;
  }
  return last;
}

/** @param {string} text @returns {{before: string, text: string, after: string}} white space at the ends set apart */
export function trimmed(text) {
  const [, before, inner, after] = /^(\s*)([^]*?)(\s*)$/.exec(text);
  return { before, text: inner, after };
}

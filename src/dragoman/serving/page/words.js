/**
 * From the server's answer to what the page shows. The server counts in code points, JavaScript in UTF-16 units; all
 * offsets in the page are UTF-16.
 *
 * @typedef {{start: number, end: number, probability: number | null, sources: [number, number][]}} Word a word of the
 *   output: its span in the segment's text, its probability, the spans in the whole source it came from
 * @typedef {{lead: string, text: string, source: string, language: string | null, at: number, words: Word[]}} Segment
 *   a sentence of the output: the white space before it, its text, the sentence it translates, the language of that
 *   (that between, where there are two models) and where it begins in the whole source
 * @typedef {{segments: Segment[], tail: string}} View the whole output
 */

const UNSPACED = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const WORDS = new RegExp(`[${UNSPACED}]|[^\\s${UNSPACED}]+`, "gu");

/** @param {string} text @returns {number[]} where each code point begins, and at last the length */
export function codePointOffsets(text) {
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return offsets;
}

/** @param {string} text @returns {number} its length as people and the server count it */
export function countCharacters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/**
 * Words of a text of which only the text is known: between blanks, and single characters where there are none.
 *
 * @param {string} text
 * @returns {Word[]}
 */
export function plainWords(text) {
  return [...text.matchAll(WORDS)].map(({ 0: word, index }) => ({
    start: index,
    end: index + word.length,
    probability: null,
    sources: [],
  }));
}

/**
 * The server's words with offsets of the page.
 *
 * @param {string} text the segment's output
 * @param {string} source the segment's source
 * @param {object[] | null} words as the server sends them; none where it does not know them
 * @param {number | null} at where the segment's source begins in the whole source; null where it is not in it
 * @returns {Word[]}
 */
export function placeWords(text, source, words, at) {
  // Through two models nobody knows them.
  if (!words?.length) return plainWords(text);
  const out = codePointOffsets(text);
  const into = codePointOffsets(source);
  return words
    .map(({ start, end, probability, sources }) => ({
      start: out[start],
      end: out[end],
      probability,
      sources: (at === null ? [] : sources)
        .map(([first, last]) => [at + into[first], at + into[last]])
        .filter(([first, last]) => first < last),
    }))
    .filter(({ start, end }) => start < end);
}

/**
 * Find the segments of a translation in its text. What lies between them is white space, so the first place is right.
 *
 * @param {object} translation as the server sends it
 * @param {string} source the text that was translated
 * @param {number} at where it begins in the whole source
 * @returns {View}
 */
export function layOut(translation, source, at) {
  const { pivot } = translation;
  const language = pivot ?? (translation.source === "und" ? null : translation.source);
  const segments = [];
  let written = 0;
  let read = 0;
  for (const segment of translation.segments ?? []) {
    const start = translation.text.indexOf(segment.text, written);
    // Sentences of the language between stand nowhere in the source.
    const begin = pivot ? 0 : source.indexOf(segment.source, read);
    if (start < 0 || begin < 0) return asOne(translation.text, source, language, at);
    read = pivot ? 0 : begin + segment.source.length;
    if (segment.text === "") continue;
    segments.push({
      lead: translation.text.slice(written, start),
      text: segment.text,
      source: segment.source,
      language,
      at: at + begin,
      words: placeWords(segment.text, segment.source, segment.words, pivot ? null : at + begin),
    });
    written = start + segment.text.length;
  }
  return { segments, tail: translation.text.slice(written) };
}

/** @returns {View} without knowing which sentence became which */
function asOne(text, source, language, at) {
  return { segments: [{ lead: "", text, source, language, at, words: plainWords(text) }], tail: "" };
}

/** @param {View[]} views @returns {View} one after the other */
export function joinViews(views) {
  const segments = [];
  let tail = "";
  for (const view of views) {
    for (const [index, segment] of view.segments.entries()) {
      segments.push(index === 0 ? { ...segment, lead: tail + segment.lead } : segment);
    }
    tail = view.segments.length ? view.tail : tail + view.tail;
  }
  return { segments, tail };
}

/** @param {View} view @returns {string} */
export function textOf({ segments, tail }) {
  return segments.map(({ lead, text }) => lead + text).join("") + tail;
}

/** Below which probability a word is marked, from hardly to strongly. The legend in texts.js names them. */
export const GRADES = [0.8, 0.5, 0.25];

/** @param {number | null} probability @returns {number} 0 for a word the model is sure of, up to 3 */
export function gradeOf(probability) {
  return probability === null ? 0 : GRADES.filter((limit) => probability < limit).length;
}

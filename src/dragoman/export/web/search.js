/**
 * Greedy and beam search as `dragoman.search` has them: the same candidates, penalties and ends, one text at a time.
 *
 * @typedef {{beam_size: number, length_penalty: number, length_penalty_formula: string, min_length: number,
 *   max_length: number | null, max_length_factor: number, max_length_offset: number, end_at_limit: string,
 *   beam_early_stopping: boolean, no_repeat_ngram: number, loop_guard: number}} Options settings of `[decoding]`
 * @typedef {{begin: number, end: number, never: number[], prefix: number[]}} Frame the ids around an output, those that
 *   none has, and those that each begins with: the token of a language
 */

const IMPOSSIBLE = -1e9;

/** What hypotheses are ranked by. */
function scoreOf(sum, length, { length_penalty: alpha, length_penalty_formula: formula }) {
  if (formula === "reward") return sum + alpha * length;
  return sum / (formula === "gnmt" ? (5 + length) / 6 : length) ** alpha;
}

/** Logits become log-probabilities, in place. */
function normalize(row) {
  let most = -Infinity;
  for (const value of row) if (value > most) most = value;
  let sum = 0;
  for (const value of row) sum += Math.exp(value - most);
  const log = most + Math.log(sum);
  if (Number.isNaN(log)) throw new Error("the model gives NaN instead of probabilities");
  for (let i = 0; i < row.length; i += 1) row[i] -= log;
}

/** Forbid what an output may not go on with: others at -Infinity, what is forced at its own value. */
function constrain(row, tokens, options, frame, limit) {
  const { no_repeat_ngram: size, min_length: least, end_at_limit: charge } = options;
  const end = row[frame.end];
  const forced = frame.prefix[tokens.length];
  const first = forced === undefined ? 0 : row[forced];
  for (const id of frame.never) row[id] = -Infinity;
  if (tokens.length < least) row[frame.end] = -Infinity;
  if (size && tokens.length >= size) {
    const tail = tokens.slice(tokens.length - size + 1);
    for (let i = 0; i + size <= tokens.length; i += 1) {
      if (tail.every((token, at) => token === tokens[i + at])) row[tokens[i + size - 1]] = -Infinity;
    }
    if (!row.some((value) => value > -Infinity)) row[frame.end] = Math.max(end, IMPOSSIBLE);
  }
  if (tokens.length >= limit) {
    row.fill(-Infinity);
    row[frame.end] = charge === "charged" ? Math.max(end, IMPOSSIBLE) : 0;
  }
  if (forced !== undefined) {
    row.fill(-Infinity);
    row[forced] = charge === "charged" ? Math.max(first, IMPOSSIBLE) : 0;
  }
}

/** The `count` best continuations of all lines, best first; of equals the one that comes first. */
function continuations(lines, rows, count) {
  const best = [];
  for (const [parent, { total }] of lines.entries()) {
    const row = rows[parent];
    for (let token = 0; token < row.length; token += 1) {
      const sum = total + row[token];
      if (sum === -Infinity || (best.length === count && sum <= best[count - 1].total)) continue;
      let at = best.length;
      while (at > 0 && best[at - 1].total < sum) at -= 1;
      best.splice(at, 0, { total: sum, parent, token });
      if (best.length > count) best.pop();
    }
  }
  return best;
}

/** Whether a beam may stop. */
function isFull(finished, live, length, options, limit) {
  if (!live.length) return true;
  const { beam_size: size } = options;
  const enough = finished.length >= size;
  if (enough && options.beam_early_stopping) return true;
  const scores = finished.map(({ score }) => score).sort((a, b) => b - a);
  if (enough && scoreOf(live[0].total, length, options) <= scores[size - 1]) return true;
  return finished.length > 0 && scoreOf(live[0].total, Math.max(limit, length) + 1, options) <= scores[0];
}

/** The best output that one search finds. */
async function searchOnce(network, source, options, frame, limit, going) {
  const size = options.beam_size;
  const finished = [];
  let state = await network.start([...source, frame.end]);
  let lines = [{ total: 0, tokens: [] }];
  for (;;) {
    const rows = await network.step(state, lines.map(({ tokens }) => tokens.at(-1) ?? frame.begin));
    await going();
    for (const [at, row] of rows.entries()) {
      normalize(row);
      constrain(row, lines[at].tokens, options, frame, limit);
    }
    const live = [];
    for (const [rank, { total, parent, token }] of continuations(lines, rows, 2 * size).entries()) {
      const { tokens } = lines[parent];
      if (token !== frame.end) live.push({ total, parent, tokens: [...tokens, token] });
      else if (rank < size) {
        const length = tokens.length + (options.end_at_limit === "none" && limit > 0 && tokens.length >= limit ? 0 : 1);
        finished.push({ tokens, score: scoreOf(total, length, options) });
      }
    }
    live.length = Math.min(live.length, size);
    if (isFull(finished, live, lines[0].tokens.length + 1, options, limit)) break;
    network.reorder(state, live.map(({ parent }) => parent));
    lines = live;
  }
  if (!finished.length) throw new Error("the model finds every output impossible");
  return finished.reduce((best, one) => (one.score > best.score ? one : best)).tokens;
}

/** Whether an output goes in circles: half of its n-grams repeat earlier ones, and all in its last quarter do. */
function isLoop(tokens, size) {
  const grams = tokens.slice(size - 1).map((_, at) => tokens.slice(at, at + size).join());
  if (grams.length < 2 * size || 2 * new Set(grams).size > grams.length) return false;
  const end = grams.length - Math.max(1, Math.floor(grams.length / 4));
  const before = new Set(grams.slice(0, end));
  return grams.slice(end).every((gram) => before.has(gram));
}

/**
 * @param {import("./network.js").Network} network
 * @param {number[]} source ids, unframed
 * @param {Options} options
 * @param {Frame} frame
 * @param {() => Promise<void>} going is awaited at each step; what it throws ends the search
 * @returns {Promise<number[]>} the ids of the best output
 */
export async function search(network, source, options, frame, going) {
  const { max_length: most, max_length_factor: factor, max_length_offset: offset } = options;
  const limit = Math.max(most ?? Math.trunc(source.length * factor) + offset, frame.prefix.length);
  const found = await searchOnce(network, source, options, frame, limit, going);
  const { loop_guard: guard, no_repeat_ngram: set } = options;
  const guarded = guard && !set && options.max_length === null && found.length >= limit;
  if (!guarded || !isLoop(found, guard)) return found;
  const again = await searchOnce(network, source, { ...options, no_repeat_ngram: guard }, frame, limit, going);
  return again.length < limit ? again : found;
}

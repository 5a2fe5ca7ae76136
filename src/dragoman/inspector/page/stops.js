/* The tour's stops: a question, its answer worked out from the trace, and the place where one sees it. */

import { entropyOf, scoreOf, softmaxRow } from "./calc.js";
import { num, percent, shown } from "./dom.js";
import { keyLabels, rowLabels, shapeText } from "./labels.js";
import { isLive } from "./live.js";
import { state } from "./state.js";
import { nameOf, say } from "./texts.js";

function meanEntropy(trace, path, root) {
  const rows = trace.node(`${path}.weights`).shape.at(-2);
  let sum = 0;
  for (let row = 0; row < rows; row++) sum += entropyOf(softmaxRow(trace, path, 0, row, root).weights);
  return sum / rows;
}

function find(trace) {
  const { nodes } = trace.record.graph;
  const paths = trace.record.model.attentions ?? [];
  return {
    sum: nodes.find((node) => node.kind === "add" && node.layer === null && node.array),
    position: nodes.find((node) => node.kind === "position" && node.array),
    first: paths[0],
    causal: paths.find((path) => trace.node(`${path}.mask`)?.causal),
    cross: paths.find((path) => path.endsWith("cross_attention")),
    norm: nodes.find((node) => node.norm && trace.array(node.norm.input) && trace.array(node.norm.mean)),
    activated: nodes.find((node) => node.kind === "activation" && trace.array(node.array)),
  };
}

/** The step at which the best text gains most on greedy's, and both candidates there; null if they cannot be followed. */
function turningStep(trace, best, last) {
  const { beam, output } = trace.record;
  const greedy = [];
  for (let at = last; at; at = beam.events.find(({ id }) => id === at.parent)) greedy.unshift(at);
  const own = [];
  for (const id of [...best.ids, output.pieces.at(-1).id]) {
    const parent = own.at(-1)?.id ?? null;
    const next = beam.events.find((event) => event.parent === parent && event.token === id);
    if (!next) return null;
    own.push(next);
  }
  let found = null;
  for (let at = 1; at < Math.min(own.length, greedy.length); at++) {
    const gain = own[at].log_probability - greedy[at].log_probability;
    if (gain > (found?.gain ?? 0)) found = { step: at + 1, gain, mine: own[at], theirs: greedy[at], before: [own[at - 1], greedy[at - 1]] };
  }
  return found;
}

/** What is said where the beam's best text is not likelier than greedy's, or greedy's cannot be followed in the beam; else null. */
function tieAnswer(trace, best, last) {
  const { beam } = trace.record;
  const [second] = beam.final.slice(1);
  const next = second ? say(` The beam's second best, “${second.text}”, has ${num(second.sum, 3)}.`, `束搜索的第二名“${second.text}”为 ${num(second.sum, 3)}。`) : "";
  if (!last) {
    const step = (beam.greedy_events ?? []).indexOf(null) + 1;
    return say(`At step ${step} the beam drops greedy's beginning: others have higher sums there. The best of those, “${best.text}”, has ${num(best.sum, 3)}. Compare with greedy search to see what it writes.`,
      `第 ${step} 步，束剪除了贪心的开头：那时另有总和更高的候选。其中最好的“${best.text}”为 ${num(best.sum, 3)}。与贪心搜索对比，可看到它写什么。`);
  }
  if (Math.abs(last.sum - best.sum) <= 1e-6) {
    return say(`Here it did not: greedy writes “${best.text}” too. Its log-probabilities sum to ${num(best.sum, 3)}, and no beginning that looked worse at first has overtaken it.${next}`,
      `这里没有：贪心也写出“${best.text}”。其对数概率之和为 ${num(best.sum, 3)}，起初较差的开头没有一个后来居上。${next}`);
  }
  return last.sum > best.sum ? say(`Here it did not: greedy's text sums to ${num(last.sum, 3)}, likelier than the beam's “${best.text}” with ${num(best.sum, 3)}; the beam ranks by the score, in which length counts.`,
    `这里没有：贪心的译文之和为 ${num(last.sum, 3)}，比束搜索的“${best.text}”（${num(best.sum, 3)}）更可能；束搜索按得分排名，得分还计长度。`) : null;
}

/** What the founding systems do otherwise, in this model's numbers; or where the two in view part. */
function systemsAnswer(trace) {
  const { model, against } = trace.record;
  const first = against?.stages.find(({ stage }) => stage === against.first);
  const parted = first ? say(
    ` Here, against ${against.name}, the numbers part first at ${nameOf(trace.node(first.stage))}, by up to ${num(first.largest, 4)}; it writes “${against.output.text}”.`,
    ` 此处与 ${against.name} 对比，数值最先在 ${nameOf(trace.node(first.stage))} 分开，至多相差 ${num(first.largest, 4)}；它写出“${against.output.text}”。`) : "";
  const half = trace.sizes.d_model / 2;
  const [sine, cosine] = [Math.sin(10000 ** (-2 / trace.sizes.d_model)), Math.cos(1)].map((value) => num(value, 3));
  const norm = { pre: say("stand before each sub-layer", "在子层之前做层归一化"), post: say("stand after each sum", "在残差相加之后做层归一化"), none: say("are left out", "没有层归一化") }[model.norm];
  return say(
    `In conventions, not in the idea. The norms of this model ${norm}. Those of the Annotated Transformer stand before, with the deviation of n − 1; those of jadore, lsdefine, d2l and Marian after. lsdefine does not multiply by √d_model = ${num(Math.sqrt(trace.sizes.d_model), 2)} and counts positions from 1. Marian puts all sines first: column 1 of position 1 is ${sine} there, and ${cosine} where sines and cosines alternate (column ${half} is the first cosine there).${parted}`,
    `差在约定，不在原理。此模型${norm}。annotated 在子层之前归一化，标准差除以 n − 1；jadore、lsdefine、d2l、Marian 在残差相加之后归一化。lsdefine 的词向量不乘 √d_model = ${num(Math.sqrt(trace.sizes.d_model), 2)}，位置从 1 数起。Marian 先排全部正弦，再排全部余弦：位置 1 的第 1 列（从 0 数起）是 ${sine}，正弦余弦交错时则是 ${cosine}（Marian 的第一个余弦在第 ${half} 列）。${parted}`);
}

/** The stops that this record can answer; each is {question, answer, show}. */
export function stopsOf(trace) {
  const found = find(trace);
  const { record } = trace;
  const stops = [];
  const stop = (when, question, answer, show) => { if (when) stops.push({ question, answer: answer(), show }); };
  const at = (stage, row = -1, col = -1, more = {}) => ({ view: "stage", stage, row, col, head: 0, root: 1, ...more });
  const steps = record.steps;

  stop(record.sound, say("What goes into the model?", "输入模型的是什么？"), () => {
    const { seconds, samples, frames, mels, positions, seconds_each: each } = record.sound;
    return say(`Not words but ${samples.toLocaleString("en")} numbers for the pressure of the air, ${num(seconds, 2)} s of them: ${frames} frames of ${mels} log-mels, one every 10 ms, and after two convolutions of stride 2 only ${positions} vectors, one every ${num(1000 * each, 0)} ms.`,
      `不是词，而是 ${samples.toLocaleString("en")} 个表示空气压力的数，共 ${num(seconds, 2)} 秒：${frames} 帧，每帧 ${mels} 个对数梅尔值，每 10 毫秒一帧；经过两个步长为 2 的卷积只剩 ${positions} 个向量，每 ${num(1000 * each, 0)} 毫秒一个。`);
  }, { view: "map" });

  stop(record.source && !record.sound, say("What goes into the model?", "输入模型的是什么？"), () => {
    const pieces = record.source.pieces.map(({ text, id }) => `${shown(text)} = ${id}`).join(say(", ", "，"));
    return say(`Not letters but ${record.source.pieces.length} numbers of pieces: ${pieces}.`, `不是文字，而是 ${record.source.pieces.length} 个词元的编号：${pieces}。`);
  }, { view: "map" });

  stop(found.sum, say("What is the shape here?", "这里的形状是什么？"), () => say(
    `${shapeText(found.sum)}: one row of ${trace.sizes.d_model} numbers for each piece. It keeps this shape through every layer, so that what a layer adds can be added.`,
    `${shapeText(found.sum)}：每个词元一行，共 ${trace.sizes.d_model} 个数。各层都保持此形状，残差连接才能相加。`), at(found.sum?.id, 0, 0));

  stop(found.position, say("How does the model know the order?", "模型怎样知道次序？"), () => {
    const [one, two] = [0, 1].map((row) => num(trace.at(found.position.array, row, 0), 3));
    return say(`A row that depends on the position alone is added. In column 0 it is ${one} at position 0 and ${two} at position 1.`, `加上只取决于位置的一行（位置编码）。第 0 列在位置 0 为 ${one}，在位置 1 为 ${two}。`);
  }, at(found.position?.id, 1, 0));

  stop(found.first, say("What multiplies what in a score?", "注意力分数是什么乘什么？"), () => {
    const score = scoreOf(trace, found.first, 0, 0, 1);
    const [node, width] = [trace.node(`${found.first}.scores`), trace.node(`${found.first}.query`).shape.at(-1)];
    const [one, other] = keyLabels(trace, node.axes.at(-1), node.shape.at(-1));
    return say(`The query of “${one}” times the key of “${other}”: ${width} numbers of the one, each times its partner in the other, summed. In head 0, q · k = ${num(score.product ?? 0)}; divided by √d_k = √${width} = ${num(Math.sqrt(width))} it is the score ${num(score.traced)}.`,
      `“${one}”的查询与“${other}”的键：各 ${width} 个数，逐项相乘再求和。在头 0 中 q · k = ${num(score.product ?? 0)}，除以 √d_k = √${width} = ${num(Math.sqrt(width))}，得注意力分数 ${num(score.traced)}。`);
  }, at(`${found.first}.scores`, 0, 1));

  stop(found.first, say("Why ÷ √d_k?", "为什么要除以 √d_k？"), () => {
    const width = trace.node(`${found.first}.query`).shape.at(-1);
    const [with_, without] = [true, false].map((root) => num(meanEntropy(trace, found.first, root), 3));
    return say(`A sum of ${width} products spreads about √${width} = ${num(Math.sqrt(width), 2)} times as far as one. Undivided, softmax would pick almost one key: the mean entropy here is ${with_} nats with the division, ${without} without.`,
      `${width} 个乘积之和的标准差约为单个乘积的 √${width} = ${num(Math.sqrt(width), 2)} 倍。不除的话 softmax 几乎只选一个键：此处各行的平均熵为 ${with_} 奈特（nat），不除则为 ${without}。`);
  }, at(`${found.first}.weights`, 0, 1, { root: 0 }));

  stop(found.norm, say("What does LayerNorm do to this vector?", "层归一化对这个向量做了什么？"), () => {
    const [mean, deviation] = [found.norm.norm.mean, found.norm.norm.deviation].map((name) => num(trace.at(name, 0, 0)));
    const [before, after] = [found.norm.norm.input, found.norm.array].map((name) => num(trace.at(name, 0, 0)));
    const [row] = rowLabels(trace, found.norm.axes.at(-2), 1);
    return say(`From the vector of “${row}” it takes away the mean ${mean} and divides by the deviation ${deviation}; what is left has mean 0 and variance 1. Then each column is multiplied by its own γ and gets its own β: column 0 goes from ${before} to ${after}.`,
      `“${row}”的向量减去均值 ${mean}，除以标准差 ${deviation}，均值变为 0，方差变为 1；再逐列乘以 γ、加上 β：第 0 列由 ${before} 变为 ${after}。`);
  }, at(found.norm?.id, 0, 0));

  stop(found.activated, say("What happens in the feed-forward network?", "前馈网络里发生了什么？"), () => {
    const row = trace.row(found.activated.array, 0);
    const zero = row.reduce((sum, value) => sum + (value === 0 ? 1 : 0), 0);
    return say(`Each piece by itself is widened to ${row.length} numbers, and ${zero} of them become 0 in the first row; then it is brought back to ${trace.sizes.d_model}.`, `每个词元的向量各自变为 ${row.length} 个数，第一行中有 ${zero} 个被激活函数变为 0；再变回 ${trace.sizes.d_model} 个。`);
  }, at(found.activated?.id, 0, 0));

  stop(found.cross, say("Where do K and V come from in cross-attention?", "交叉注意力的 K 和 V 从哪里来？"), () => {
    const [key, query] = ["key", "query"].map((part) => shapeText(trace.node(`${found.cross}.${part}`)));
    return say(`From the encoder's output, times W_k and W_v, once for all steps: K is ${key}, with a row for each source piece. Only Q comes from the decoder: ${query}.`, `由编码器输出乘以 W_k 与 W_v 得到，只算一次，各步共用：K 为 ${key}，每个源词元一行。只有 Q 来自解码器：${query}。`);
  }, at(`${found.cross}.key`, 0, 0));

  stop(found.causal && steps.length > 1, say("Why is this cell masked?", "为什么这个格子被遮住？"), () => {
    const why = trace.reason(found.causal, 0, 1);
    return why === null ? say("The causal mask was taken away, so it is not: the row sees the future.", "因果掩码已被去掉，所以没有遮：此行看得到未来。")
      : say(`Row 1 is to write “${shown(trace.writes(0))}”. Key 2 is “${shown(trace.reads(1))}”, the answer itself: in training it stands there already, and a row that saw it would learn to copy. So its score is hidden before the softmax, and its weight is exactly ${num(trace.at(`${found.causal}.weights`, 0, 0, 1), 0)}.`,
        `第 1 行要写“${shown(trace.writes(0))}”，而第 2 个键是“${shown(trace.reads(1))}”，正是答案：训练时它已在那里，若看得见，模型就只会学到照抄。所以在 softmax 之前就遮住它的分数，其权重恰为 ${num(trace.at(`${found.causal}.weights`, 0, 0, 1), 0)}。`);
  }, at(`${found.causal}.weights`, 0, 1));

  const views = record.views ?? [];
  stop(views.length > 1, say("What changes between one step and the next?", "从第 t 步到第 t + 1 步，变了什么？"), () => {
    const [one, two] = views;
    return say(`One key and one value more: ${one.cached.keys} at step 1, ${two.cached.keys} at step 2. The query is one new row; the earlier keys and values are kept, not computed again.`, `自注意力多了一个键和一个值：第 1 步各 ${one.cached.keys} 个，第 2 步各 ${two.cached.keys} 个。查询只有新的一行；之前的键和值取自缓存，不再重算。`);
  }, { view: "steps", t: 2 });

  stop(views.length, say("What did training see that prediction does not?", "训练时看得到、预测时看不到的是什么？"), () => {
    const last = views.at(-1);
    return say(`The whole right answer: ${last.parallel.queries} rows at once (teacher forcing), each with its future hidden by the mask. In prediction the model reads only what it wrote itself, mistakes included. For the same words both compute the same: no number of the last row differs from that step by more than ${num(last.differences.cached_parallel.largest, 7)}. Dropout, too, is there in training only.`,
      `整个正确答案：${last.parallel.queries} 行同时计算（教师强制），每行看不到后面的词元（因果掩码）。预测是自回归的，只读到自己写出的词元，写错了也照读。词元相同，计算就相同：最后一行与那一步的任何数至多相差 ${num(last.differences.cached_parallel.largest, 7)}。随机失活（dropout）也只在训练时起作用。`);
  }, { view: "steps", t: Math.max(1, views.length) });

  const { beam } = record;
  stop(beam?.final.length, say("Why did beam search beat greedy search?", "为什么束搜索胜过贪心搜索？"), () => {
    const last = beam.events.find(({ id }) => id === beam.greedy_events?.at(-1));
    const best = beam.final[0];
    const tie = tieAnswer(trace, best, last);
    if (tie) return tie;
    const [first, other] = [beam.events.find(({ id }) => id === beam.greedy_events[0]), best.ids[0]];
    const mine = beam.events.find(({ step, token }) => step === 1 && token === other);
    const turn = turningStep(trace, best, last);
    const why = turn && say(
      ` What decides is step ${turn.step}: after “${shown(turn.before[0].piece)}” the model gives “${shown(turn.mine.piece)}” ${percent(Math.exp(turn.mine.log_probability))}, after greedy's “${shown(turn.before[1].piece)}” it gives “${shown(turn.theirs.piece)}” only ${percent(Math.exp(turn.theirs.log_probability))}. Such shares are habits of the training texts: they say what usually follows, not what the source says.`,
      `关键在第 ${turn.step} 步：在“${shown(turn.before[0].piece)}”之后，模型给“${shown(turn.mine.piece)}” ${percent(Math.exp(turn.mine.log_probability))}；在贪心的“${shown(turn.before[1].piece)}”之后，给“${shown(turn.theirs.piece)}”只有 ${percent(Math.exp(turn.theirs.log_probability))}。这些概率反映的是训练文本的习惯：后面通常接什么，而不是原文说了什么。`);
    return say(`Greedy began with “${shown(first.piece)}” (${percent(Math.exp(first.log_probability))}), the likeliest first piece. “${mine ? shown(mine.piece) : other}” was less likely at first, but all its pieces together sum to ${num(best.sum, 3)} against ${num(last.sum, 3)}.${why ?? ""} Likelier is not better: read both against the source.`,
      `贪心搜索从概率最大的首词元“${shown(first.piece)}”（${percent(Math.exp(first.log_probability))}）开始。“${mine ? shown(mine.piece) : other}”起初概率较小，但整句的对数概率之和为 ${num(best.sum, 3)}，贪心的为 ${num(last.sum, 3)}。${why ?? ""}概率大不等于译得好：请对照原文读这两句。`);
  }, { view: "search" });

  stop(record.model.family === "transformer" && !record.sound, say("How do the systems differ?", "各个系统有何不同？"), () => systemsAnswer(trace), { view: "compare", ...(isLive() && !state.against ? { against: "marian" } : {}) });

  stop(steps.length, say("Where was the model least sure?", "模型在哪里最没有把握？"), () => {
    const most = steps.reduce((a, b) => (b.entropy > a.entropy ? b : a));
    return say(`At step ${most.t}: entropy ${num(most.entropy, 2)} nats, as if it chose among ${num(Math.exp(most.entropy), 1)} equal pieces. It wrote “${shown(most.writes.piece)}” with ${percent(Math.exp(most.log_probability))}.`,
      `第 ${most.t} 步：熵为 ${num(most.entropy, 2)} 奈特，相当于在 ${num(Math.exp(most.entropy), 1)} 个等可能词元中选择。写出“${shown(most.writes.piece)}”，概率 ${percent(Math.exp(most.log_probability))}。`);
  }, { view: "judging", t: steps.length ? steps.reduce((a, b) => (b.entropy > a.entropy ? b : a)).t : 1 });
  return stops;
}

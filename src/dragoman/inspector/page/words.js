/* What a record says in words, in the other language: its sentences are few, and known. */

import { lang } from "./texts.js";

const SENTENCES = [
  [/^`<\/s>` finishes a hypothesis only from among the first (\d+) of all candidates; this is number (\d+)$/u, "只有排在全部候选前 $1 名的 `</s>` 才算完成一个假设；它是第 $2 名"],
  [/^(\d+) candidates with a higher sum of log-probabilities live on$/u, "已有 $1 个对数概率之和更高的候选保留下来"],
  [/^it was alive when the search ended: (.*)$/u, (_, why) => `搜索结束时它仍在束中：${told(why)}`],
  [/^it is the likeliest, and greedy search takes no other$/u, "它概率最大，贪心搜索只取它"],
  [/^it is among the (\d+) likeliest that go on$/u, "它在可继续的候选中排前 $1 名"],
  [/^`<\/s>` is among the first (\d+) of all candidates: finished$/u, "`</s>` 排在全部候选的前 $1 名：完成"],
  [/^no candidate is left that could go on$/u, "已没有可继续的候选"],
  [/^(\d+) hypotheses are finished, and all score higher than the best live one as it stands$/u, "已完成 $1 个假设，且得分都高于目前最好的未完成者"],
  [/^no live hypothesis can still enter the (\d+) best, however long it grows$/u, "未完成的假设无论再写多长，都进不了前 $1 名"],
  [/^`<\/s>` was the likeliest$/u, "`</s>` 概率最大"],
  [/^greedy search$/u, "贪心搜索"],
  [/^beam search, (\d+) hypotheses, (\w+) length penalty ([\d.e+-]+)$/u, "束搜索，束宽 $1，长度惩罚 $3（$2）"],
  [/^beam search, (\d+) hypotheses, length reward ([\d.e+-]+)$/u, "束搜索，束宽 $1，长度奖励 $2"],
  [/^the surest gap first$/u, "先填最有把握的空"],
  [/^score = sum \/ \(\(5 \+ length\) \/ 6\)\^alpha$/u, "得分 = 和 / ((5 + 长度) / 6)^α"],
  [/^score = sum \/ length\^alpha$/u, "得分 = 和 / 长度^α"],
  [/^score = sum \+ alpha · length$/u, "得分 = 和 + α · 长度"],
  [/^The text in the same batch is no longer than this one, so that there is no padding\.$/u, "同批的文本不比这个长，所以没有填充。"],
  [/^Nobody seems to speak here: `dragoman transcribe` would write nothing\.$/u, "这里似乎没有人说话：`dragoman transcribe` 不会写出任何内容。"],
  [/^The search heeds what the head for CTC reads off the frames too, with a share of ([\d.]+); stages and steps are those of the decoder alone\.$/u, "搜索也参考 CTC 输出层从帧上读出的内容，占 $1；各阶段与各步只是解码器的。"],
  [/^the text has no <mask>, so there is nothing to fill; every position is predicted all the same$/u, "文本中没有 <mask>，没有可填之处；仍对每个位置作了预测"],
];

/** A sentence of a record in the language of the page. */
export function told(text) {
  if (lang() !== "zh" || !text) return text;
  for (const [pattern, wanted] of SENTENCES) if (pattern.test(text)) return text.replace(pattern, wanted);
  return text;
}

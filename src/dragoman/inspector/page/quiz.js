/* A quiz whose answers come from the trace, so that it works for any model. */

import { h, num, shown } from "./dom.js";
import { shapeText } from "./labels.js";
import { say, t } from "./texts.js";

const answers = new Map();

/** Of another trace the answers are others. */
export function forgetAnswers() { answers.clear(); }

/** Choices without repetition, in an order that does not tell the right one. */
function choices(right, others) {
  return [...new Set([right, ...others].map(String))].slice(0, 4).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

export function questionsOf(trace) {
  const { sizes, attentions = [] } = trace.record.model;
  const questions = [];
  const ask = (question, right, others) => questions.push({ question, right: String(right), choices: choices(right, others) });
  if (sizes.d_k) {
    ask(say(`The model is ${sizes.d_model} wide and has ${sizes.num_heads} heads. How wide is a key?`, `模型宽 ${sizes.d_model}，有 ${sizes.num_heads} 个头。一个键有多宽？`), sizes.d_k, [sizes.d_model, sizes.num_heads, 2 * sizes.d_k, sizes.d_ff]);
  }
  const causal = attentions.find((path) => trace.node(`${path}.mask`)?.causal);
  if (causal) {
    const keys = trace.node(`${causal}.mask`).shape.at(-1);
    const open = Array.from({ length: keys }, (_, key) => trace.reason(causal, 1, key)).filter((why) => why === null).length;
    ask(say(`How many of the ${keys} keys may the second row of the decoder's self-attention see?`, `解码器自注意力的第二行可看到 ${keys} 个键中的几个？`), open, [1, keys, 0, 3]);
  }
  const cross = attentions.find((path) => path.endsWith("cross_attention"));
  if (cross) {
    const { scores } = trace.attention(cross);
    const [, , tgt, src] = scores.shape;
    ask(say("What is the shape of the cross-attention's scores?", "交叉注意力分数的形状是什么？"), shapeText(scores), [`src=${src}, src=${src}`, `tgt=${tgt}, tgt=${tgt}`, `tgt=${tgt}, d_k=${sizes.d_k}`].map((pair) => `[batch=1, heads=${sizes.num_heads}, ${pair}]`));
    const row = trace.row(`${cross}.weights`, 0, 0);
    const pieces = trace.sourcePieces(src).map(shown);
    ask(say(`Which source piece does head 0 of the cross-attention of layer 0 look at most, when it is to write “${shown(trace.writes(0))}”?`, `要写“${shown(trace.writes(0))}”时，第 0 层交叉注意力的头 0 最看哪个源词元？`), pieces[row.indexOf(Math.max(...row))], pieces);
  }
  const unsure = trace.steps.length ? trace.steps.reduce((a, b) => (b.entropy > a.entropy ? b : a)) : null;
  if (unsure) ask(say("At which step was the model least sure (highest entropy)?", "模型在哪一步最没有把握（熵最大）？"), unsure.t, trace.steps.map((step) => step.t));
  const best = trace.record.beam?.final[0];
  if (best) ask(say(`The best text has the sum ${num(best.sum)} and the length penalty divides by ${num(best.divisor)}. What is its score?`, `最佳译文的和为 ${num(best.sum)}，长度惩罚的除数为 ${num(best.divisor)}。得分是多少？`), num(best.score), [num(best.sum), num(best.sum * best.divisor), num(best.sum + best.divisor), num(best.score / 2)]);
  return questions;
}

export function drawQuiz(trace) {
  const questions = questionsOf(trace);
  const result = h("p", { id: "quiz-result", role: "status" });
  const count = () => { result.textContent = t("result_n", questions.filter(({ right }, at) => answers.get(at) === right).length, questions.length); };
  const items = questions.map(({ question, right, choices: offered }, at) => {
    const told = h("p", { class: "told", role: "status" });
    const tell = () => {
      if (answers.has(at)) told.textContent = t(answers.get(at) === right ? "right" : "wrong", right);
    };
    tell();
    return h("li", {}, h("fieldset", {}, h("legend", {}, question), offered.map((choice) => h("label", {}, h("input", {
      type: "radio", name: `question-${at}`, value: choice, checked: answers.get(at) === choice, key: `quiz:${at}:${choice}`,
      onchange: () => { answers.set(at, choice); tell(); count(); },
    }), h("span", { dir: "auto" }, choice))), told));
  });
  count();
  return [h("ol", { class: "quiz" }, items), result];
}

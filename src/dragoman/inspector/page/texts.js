/* The words of the page. Terms in Chinese are those of Chinese textbooks. */

import { kept } from "./state.js";

const TEXTS = {
  en: {
    title: "Dragoman inspector", skip: "Skip to the view", strip: "Pieces", views: "Views",
    darkTheme: "Dark theme", otherLanguage: "中文", source: "Source", output: "Output", target: "Target",
    keys: "Keys: ← → step · ↑ ↓ layer · [ ] head · 1–9, 0 views. Layers and heads are counted from 0, as in the names of stages.",
    map: "Architecture", stage: "Stage", steps: "Steps", search: "Search", heads: "Heads", judging: "Judging", embeddings: "Embeddings", compare: "Compare", tour: "Tour", quiz: "Quiz",
    encoder: "Encoder", decoder: "Decoder", layer: "layer {0}", layerOf: "layer {0} ({1} in all)", head: "Head", headN: "head {0}",
    saveSvg: "Save as SVG", memoryArrow: "memory: K and V come from here", noRecord: "There is no record in this page.",
    self_attention: "self-attention", masked_self_attention: "masked self-attention", cross_attention: "cross-attention",
    feed_forward: "feed-forward network", residual: "add", norm: "LayerNorm", query: "queries Q", key: "keys K", value: "values V",
    scores: "scores", mask: "mask", weights: "attention weights", mixed: "weights × V", merge: "heads joined × W_o",
    one_hot: "one-hot rows", embed: "rows of the embedding", scale: "× √d_model", position: "position encoding", add: "sum",
    memory: "memory", output_norm: "decoder output", logits: "logits", softmax: "probabilities", choose: "choice",
    inner: "first linear map", activated: "activation", outer: "second linear map", embedding: "embedding + position",
    reads: "reads {0} → writes {1}",
    shape: "Shape", formula: "Formula", inputs: "Comes from", none: "nothing", cell: "The chosen number", pick: "Choose a cell to see how it is computed.",
    agrees: "✓ recomputed in this page: differs from the trace by {0}", parts: "✗ recomputed {0}, the trace says {1}",
    entersScores: "The positions of this model enter the scores: {0} is added to q·k.",
    withoutRoot: "without ÷ √d_k", rootNote: "Without ÷ √d_k the scores are {0} times as large: the mean entropy of the rows falls from {1} to {2} nats, softmax all but picks one key.",
    dot: "q · k, term by term", term: "term", product: "product", sum: "sum", scaled: "÷ √d_k = ÷ {0}", maskOpen: "mask: this key may be seen",
    causal: "hidden: it lies in the future (causal mask)", padding: "hidden: padding, no piece of this text", masked: "hidden by the mask",
    exp: "exp(score − largest) = exp({0} − {1})", expSum: "sum over the keys that are seen", weight: "weight = exp ÷ sum",
    mean: "mean", deviation: "deviation = √(variance + ε)", normed: "(x − mean) ÷ deviation", gain: "× γ", bias: "+ β", result: "result",
    row: "row x", column: "row of W", noParameters: "The parameters are not in this file.", rowTimes: "x · W, term by term: the {0} largest of {1}", rest: "the other {0} terms",
    times: "{0} × {1}", looksAt: "{0}: looks at {1}", cached: "Cached: one query row, keys kept", prefix: "Recomputed prefix: [{0} rows]", training: "Training: all rows under the triangle",
    step: "Step {0} of {1}", stepLabel: "Step", difference: "The row of step {0}, cached against parallel: they differ by at most {1} (at {2}); recomputed prefix against parallel: {3}. The same computation, three times.",
    notKept: "The arrays of this step are not in this file.", attention: "Attention",
    beamTree: "Beam tree", candidate: "candidate", parent: "parent", fate: "fate", why: "why", kept: "kept", pruned: "pruned", finished: "finished", left: "left",
    finalSet: "Results, best first", text: "text", length: "length", penalty: "÷ length penalty", score: "score", greedyPath: "Greedy: {0}", greedyOff: "Step {0}: the greedy path leaves the beam.",
    greedySame: "Greedy and beam write the same.", greedyOther: "Greedy takes the likeliest piece at each step and cannot take it back. Its sum is {0}; the beam's is {1}: {2}.", beamHigher: "the beam found a likelier text", stop: "Why it stopped: {0}",
    noBeam: "This record has no beam.", allCandidates: "Show every candidate", sampling: "Temperature, top-k, top-p on the logits of step {0}",
    temperature: "Temperature", topK: "top-k (0: all)", topP: "top-p", piece: "piece", logit: "logit", probability: "probability", before: "before", after: "after", left_n: "{0} of {1} pieces are left.",
    sortBy: "Sorted by", entropy: "entropy", sharpness: "sharpness", distance: "distance", diagonality: "diagonality", openStage: "Open the stage",
    logProbability: "log-probability", rank: "rank", perPiece: "The output, piece by piece", coverage: "Coverage of the source", coverageNote: "How much all steps together look at a piece, mean over the heads of the last layer but one; below 0.2 perhaps left out, above 2 perhaps said twice.",
    flags: "Flags", noFlags: "Nothing is conspicuous.", uncovered: "hardly looked at: {0}", overcovered: "looked at more than twice: {0}", unknown_source: "unknown in the source: {0}", unknown_output: "unknown in the output: {0}", looping: "the output loops", cut: "the output was cut", truncated: "the source was truncated",
    reference: "Forced reference", noReference: "No target was given: --target compares one.", verdictIs: "Verdict: {0}", total: "sum",
    mapOf: "Map of the embeddings (PCA)", nearest: "Nearest neighbours of {0} (cosine)", clocks: "Position {0} as hands of clocks", clocksNote: "Each pair of columns (sin, cos) is a hand; the first turns fast, the last hardly at all.", strips: "piece + position = sum", sourceSide: "Source", targetSide: "Target",
    ask: "Text and what if", ask_text: "Text", ask_target: "Forced target", ask_prefix: "Output begins with", ask_beside: "Longer sentence beside it", ask_beam: "Beam size", ask_model: "Model", ask_convention: "Conventions of", ask_precision: "Precision", ask_against: "Compare with", ask_from: "Source language", ask_to: "Target language", ask_causal: "causal mask", ask_padding: "padding mask",
    own: "its own", nobody: "nothing", whatIf: "What if", computing: "Computing …", typeSomething: "Type a text.", undo: "Undo", undoAll: "Undo all",
    changed_target: "forced target", changed_off: "off: {0} head {1}", changed_forced: "begins with {0}", changed_prefix: "begins with {0}", changed_beside: "beside: {0}", changed_convention: "as {0}", changed_precision: "in int8", changed_causal: "no causal mask", changed_padding: "no padding mask", changed_beam: "beam {0}", changed_against: "against {0}", changed_from: "from {0}", changed_to: "into {0}",
    noServer: "The server does not answer: it may have ended.", needsKey: "This service needs a key.", wrongKey: "This key is not known here.", tooMuchUsed: "The key has used up what it may.", overloaded: "The server has too much to do; try again.", tooSlow: "It took too long; try a shorter text.", refused: "Refused", keyLabel: "Key", keySend: "Use it",
    switchOff: "Switch head {0} off", switchOn: "Switch head {0} on", removeCausal: "Remove the causal mask", restoreCausal: "Restore the causal mask", removePadding: "Remove the padding mask", restorePadding: "Restore the padding mask", removedCausal: "The causal mask is removed: each row sees its own answer. The output is still written step by step and does not change; what changes is the pass over all rows, as in training.", forceThis: "Force this branch and go on", forcePiece: "Force “{0}” at step {1}",
    asItIs: "as it is", preset_greedy: "greedy search", preset_beam: "beam search", preset_causal: "no causal mask", preset_head: "one head of cross-attention off", preset_beside: "a longer sentence beside it", preset_padding: "the same without padding mask",
    system: "System", system_greedy: "greedy search", system_int8: "int8", modelNamed: "model {0}", conventionOf: "the same weights as {0}", bothOutputs: "What both write", outputsPart: "The outputs part at step {0}: A writes “{1}”, B writes “{2}”.", outputsSame: "Both write the same.",
    numbersPart: "The numbers part first at:", firstPart: "by up to {0} (A {1}, B {2}), {3} of the usual size there", numbersSame: "No number of any stage differs by more than 0.00001: the model is the same, only the search is another.", otherShape: "another shape", otherPieces: "Both read different pieces: their stages have no common places to compare.",
    stepByStep: "Step by step", stageByStage: "Stage by stage", sameInput: "Both at the same decoder input, the one of A; bars are logarithmic.", largestDifference: "largest difference", ofSize: "of the usual size", onlyIn: "Only in {0}, {1} stages:", chooseOther: "Choose what to set beside it.", noOther: "Nothing was set beside it: dragoman inspect … --against greedy, int8, marian or another model.",
    alibiAdds: "− slope × distance = − {0} × {1} (ALiBi)", relativeAdds: "a: the vector of distance {0} (relative positions), added to the key", clocksTurn: "By these angles each pair of columns of a query or key is turned (rotary); two that meet feel only the difference.", byDistance: "What each distance brings into the scores", alibiNote: "Minus the slope of the head times the distance: some heads look nearly everywhere, others at neighbours.", relativeNote: "A learned vector for each distance from query to key; its product with the query is added.",
    saveView: "Save view", typeReference: "Type a target above to compare one.",
    halfPrecision: "parameters in this file are rounded to 16 bits",
    stopN: "Stop {0} of {1}", next: "Next", back: "Back", answer: "Answer", show: "Show it", print: "Print", check: "Check", right: "Right: {0}", wrong: "No: it is {0}", result_n: "{0} of {1} right",
    turned: "then turned by the angle of its position (rotary)", headOff: "this head is switched off: 0", copyNumpy: "Copy as NumPy", copyLatex: "Copy as LaTeX", stages: "All stages", parameters: "{0} parameters", pictureName: "architecture", picked: "The 1 stands in column {0}: row {0} of the table is {1}.",
    sound: "Sound", waveform: "waveform", frames: "log-mel frames", normalise: "normalised frames", convolution: "convolution", gate: "gated linear unit", ctc: "head for CTC", add_sound: "vectors × √d_model",
    soundLine: "{0}: {1} s at {2} Hz → {3} frames of {4} log-mels → {5} positions", soundPanels: "Spectrogram of {0} s, and where each step listened; the arrows go through the times",
    atTime: "{0} s · frame {1} · position {2} ({3})", lookedAt: "step {0} (“{1}”) looks here with {2}", outside: "kernel {0}: outside the sound", kernelOn: "kernel {0}, on row {1}", deviationPlain: "deviation",
    ask_sound: "Recording", soundChosen: "Choose a recording.", soundTooLarge: "The file is too large: at most {0} MB.",
  },
  zh: {
    title: "Dragoman 透视", skip: "跳到主视图", strip: "词元", views: "视图",
    darkTheme: "深色主题", otherLanguage: "English", source: "源文", output: "译文", target: "目标文",
    keys: "按键：← → 步 · ↑ ↓ 层 · [ ] 头 · 1–9、0 视图。层和头从 0 数起，与阶段的名字一致。",
    map: "架构", stage: "阶段", steps: "解码步", search: "搜索", heads: "注意力头", judging: "评判", embeddings: "词向量", compare: "对比", tour: "导览", quiz: "测验",
    encoder: "编码器", decoder: "解码器", layer: "第 {0} 层", layerOf: "第 {0} 层，共 {1} 层", head: "头", headN: "头 {0}",
    saveSvg: "存为 SVG", memoryArrow: "编码器输出：K 与 V 由此而来", noRecord: "此页中没有记录。",
    self_attention: "自注意力", masked_self_attention: "掩码自注意力", cross_attention: "交叉注意力",
    feed_forward: "前馈网络", residual: "残差相加", norm: "层归一化", query: "查询 Q", key: "键 K", value: "值 V",
    scores: "注意力分数", mask: "掩码", weights: "注意力权重", mixed: "权重 × V", merge: "多头拼接 × W_o",
    one_hot: "独热向量", embed: "词向量表的行", scale: "× √d_model", position: "位置编码", add: "相加",
    memory: "编码器输出", output_norm: "解码器输出", logits: "logits（未归一化分数）", softmax: "概率", choose: "选词",
    inner: "第一次线性变换", activated: "激活函数", outer: "第二次线性变换", embedding: "词向量 + 位置编码",
    reads: "读 {0} → 写 {1}",
    shape: "形状", formula: "公式", inputs: "来自", none: "无", cell: "所选的数", pick: "点一个格子，看它怎样算出来。",
    agrees: "✓ 已在本页重算：与记录相差 {0}", parts: "✗ 重算得 {0}，记录为 {1}",
    entersScores: "此模型的位置信息进入分数：q·k 之外另加 {0}。",
    withoutRoot: "不除以 √d_k", rootNote: "不除以 √d_k，分数放大 {0} 倍：各行平均熵由 {1} 降到 {2} 奈特，softmax 几乎只选一个键。",
    dot: "q · k，逐项相乘", term: "项", product: "乘积", sum: "和", scaled: "÷ √d_k = ÷ {0}", maskOpen: "掩码：此键可见",
    causal: "被遮：位于未来（因果掩码）", padding: "被遮：是填充，不是文中词元", masked: "被掩码遮住",
    exp: "exp(分数 − 最大值) = exp({0} − {1})", expSum: "对可见的键求和", weight: "权重 = exp ÷ 和",
    mean: "均值", deviation: "标准差 = √(方差 + ε)", normed: "(x − 均值) ÷ 标准差", gain: "× γ", bias: "+ β", result: "结果",
    row: "行 x", column: "W 的行", noParameters: "此文件不含参数。", rowTimes: "x · W 逐项：{1} 项中最大的 {0} 项", rest: "其余 {0} 项",
    looksAt: "{0}：看 {1}", times: "{0} × {1}", cached: "缓存：一行查询，键保留", prefix: "重算前缀：[{0} 行]", training: "训练（教师强制）：三角掩码下的所有行",
    step: "第 {0} 步，共 {1} 步", stepLabel: "步", difference: "第 {0} 步的行：缓存与并行至多相差 {1}（在 {2}）；重算前缀与并行相差 {3}。同一计算，三种做法。",
    notKept: "此文件不含这一步的数组。", attention: "注意力",
    beamTree: "束搜索树", candidate: "候选", parent: "父节点", fate: "去向", why: "原因", kept: "保留", pruned: "剪除", finished: "完成", left: "留下",
    finalSet: "结果，由好到差", text: "文本", length: "长度", penalty: "÷ 长度惩罚", score: "得分", greedyPath: "贪心：{0}", greedyOff: "第 {0} 步：贪心路径离开了束。",
    greedySame: "贪心与束搜索写出的相同。", greedyOther: "贪心每步取最可能的词元，不能反悔。其和为 {0}，束搜索为 {1}：{2}。", beamHigher: "束搜索找到了更可能的译文", stop: "停止原因：{0}",
    noBeam: "此记录没有束搜索。", allCandidates: "显示所有候选", sampling: "第 {0} 步 logits 上的温度、top-k、top-p",
    temperature: "温度", topK: "top-k（0：全部）", topP: "top-p", piece: "词元", logit: "logit", probability: "概率", before: "之前", after: "之后", left_n: "{1} 个词元中剩下 {0} 个。",
    sortBy: "排序依据", entropy: "熵", sharpness: "锐度", distance: "距离", diagonality: "对角性", openStage: "打开该阶段",
    logProbability: "对数概率", rank: "名次", perPiece: "译文逐词元", coverage: "源文覆盖度", coverageNote: "所有步合计看一个词元多少（倒数第二层各头平均）；低于 0.2 可能漏译，高于 2 可能重复译。",
    flags: "提示", noFlags: "没有异常。", uncovered: "几乎没被看到：{0}", overcovered: "被看两次以上：{0}", unknown_source: "源文未知词元：{0}", unknown_output: "译文未知词元：{0}", looping: "译文在循环", cut: "译文被截断", truncated: "源文被截断",
    reference: "强制参考译文", noReference: "没有给出目标文：用 --target 比较。", verdictIs: "判定：{0}", total: "和",
    mapOf: "词向量图（PCA）", nearest: "{0} 的最近邻（余弦）", clocks: "位置 {0}：时钟指针", clocksNote: "每两列（sin、cos）是一根指针；第一根转得快，最后一根几乎不动。", strips: "词元 + 位置 = 和", sourceSide: "源语言", targetSide: "目标语言",
    ask: "文本与假设", ask_text: "文本", ask_target: "强制目标文", ask_prefix: "译文开头", ask_beside: "同批更长的句子", ask_beam: "束宽", ask_model: "模型", ask_convention: "采用…的约定", ask_precision: "精度", ask_against: "对比对象", ask_from: "源语言", ask_to: "目标语言", ask_causal: "因果掩码", ask_padding: "填充掩码",
    own: "自身", nobody: "无", whatIf: "假如", computing: "计算中……", typeSomething: "请输入文本。", undo: "撤销", undoAll: "全部撤销",
    changed_target: "强制目标文", changed_off: "关闭：{0} 头 {1}", changed_forced: "以 {0} 开头", changed_prefix: "以 {0} 开头", changed_beside: "同批：{0}", changed_convention: "按 {0}", changed_precision: "int8 精度", changed_causal: "无因果掩码", changed_padding: "无填充掩码", changed_beam: "束宽 {0}", changed_against: "对比 {0}", changed_from: "译自 {0}", changed_to: "译成 {0}",
    noServer: "服务器没有应答，可能已经结束。", needsKey: "此服务需要密钥。", wrongKey: "不认识这个密钥。", tooMuchUsed: "此密钥的额度已用完。", overloaded: "服务器太忙，请再试。", tooSlow: "用时过长，请用短一些的文本。", refused: "被拒绝", keyLabel: "密钥", keySend: "使用",
    switchOff: "关闭头 {0}", switchOn: "打开头 {0}", removeCausal: "去掉因果掩码", restoreCausal: "恢复因果掩码", removePadding: "去掉填充掩码", restorePadding: "恢复填充掩码", removedCausal: "因果掩码已去掉：每一行都看得到自己的答案。译文仍逐步写出，不会改变；改变的是像训练时那样所有行同时计算的一遍。", forceThis: "强制此分支并继续", forcePiece: "在第 {1} 步强制“{0}”",
    asItIs: "原样", preset_greedy: "贪心搜索", preset_beam: "束搜索", preset_causal: "无因果掩码", preset_head: "关闭交叉注意力的一个头", preset_beside: "同批有更长的句子", preset_padding: "同上，无填充掩码",
    system: "系统", system_greedy: "贪心搜索", system_int8: "int8", modelNamed: "模型 {0}", conventionOf: "同一权重按 {0} 的约定", bothOutputs: "两者的译文", outputsPart: "译文在第 {0} 步分开：A 写“{1}”，B 写“{2}”。", outputsSame: "两者写出的相同。",
    numbersPart: "数值最先分开之处：", firstPart: "至多相差 {0}（A {1}，B {2}），是该处数值一般大小的 {3}", numbersSame: "任何阶段的数都不相差 0.00001 以上：模型相同，只是搜索不同。", otherShape: "形状不同", otherPieces: "两者读入的词元不同，各阶段没有可比的位置。",
    stepByStep: "逐步对比", stageByStage: "逐阶段对比", sameInput: "两者的解码器输入相同，即 A 的输入；条形为对数尺度。", largestDifference: "最大差", ofSize: "相对大小", onlyIn: "仅 {0} 有，共 {1} 个阶段：", chooseOther: "请选择对比对象。", noOther: "没有对比对象：dragoman inspect … --against greedy、int8、marian 或另一个模型。",
    alibiAdds: "− 斜率 × 距离 = − {0} × {1}（ALiBi）", relativeAdds: "a：距离 {0} 的向量（相对位置），加到键上", clocksTurn: "查询与键的每两列按此角度旋转（旋转位置编码）；两者相遇时只感到角度之差。", byDistance: "每个距离给分数带来什么", alibiNote: "头的斜率乘以距离再取负：有的头几乎看遍全句，有的只看邻近。", relativeNote: "从查询到键的每个距离有一个学得的向量，与查询的乘积加入分数。",
    saveView: "保存视图", typeReference: "在上面输入目标文即可比较。",
    halfPrecision: "此文件中的参数取 16 位精度",
    stopN: "第 {0} 站，共 {1} 站", next: "下一站", back: "上一站", answer: "答案", show: "看一看", print: "打印", check: "检查", right: "对：{0}", wrong: "不对：是 {0}", result_n: "{1} 题中对 {0} 题",
    turned: "再按位置的角度旋转（旋转位置编码）", headOff: "此头已关闭：0", copyNumpy: "复制为 NumPy", copyLatex: "复制为 LaTeX", stages: "所有阶段", parameters: "{0} 个参数", pictureName: "architecture", picked: "1 在第 {0} 列：表的第 {0} 行是 {1}。",
    sound: "声音", waveform: "波形", frames: "对数梅尔帧", normalise: "归一化的帧", convolution: "卷积", gate: "门控线性单元", ctc: "CTC 输出层", add_sound: "向量 × √d_model",
    soundLine: "{0}：{1} 秒，{2} Hz → {3} 帧，每帧 {4} 个对数梅尔值 → {5} 个位置", soundPanels: "{0} 秒的声谱图，以及每一步听的是哪里；方向键沿时间移动",
    atTime: "{0} 秒 · 帧 {1} · 位置 {2}（{3}）", lookedAt: "第 {0} 步（“{1}”）看这里：{2}", outside: "核 {0}：在声音之外", kernelOn: "核 {0}，位于第 {1} 行", deviationPlain: "标准差",
    ask_sound: "录音", soundChosen: "请选择录音。", soundTooLarge: "文件太大：至多 {0} MB。",
  },
};

let language = kept("inspector-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!Object.hasOwn(TEXTS, language)) language = "en";

export const lang = () => language;
export function choose(name) { language = name; }

/** What is said only once, in both languages where it stands. */
export const say = (en, zh) => (language === "zh" ? zh : en);

/** The words for a name, numbers and pieces put in their places. */
export function t(name, ...values) {
  const text = TEXTS[language][name] ?? name;
  return text.replace(/\{(\d)\}/gu, (_, at) => String(values[Number(at)]));
}

const PARTS = { query: "query", key: "key", value: "value", scores: "scores", mask: "mask", weights: "weights", mixed: "mixed", output: "merge", inner: "inner", activated: "activated", outer: "outer" };

const KINDS = { rows: "embed", tokens: "scale", position_rows: "position", positions: "add", sum: "add" };

/** A stage that only another model has, as far as its id tells of it. */
export function nodeOf(id) {
  const last = id.split(".").at(-1);
  const layer = /\blayers\.(\d+)/u.exec(id);
  const stack = /^(source_embedding|encoder)\b/u.test(id) ? "encoder" : /^(target_embedding|decoder)\b/u.test(id) ? "decoder" : null;
  return { id, stack, layer: layer ? Number(layer[1]) : null, kind: last.endsWith("_residual") ? "add" : KINDS[last] ?? last };
}

/** What a stage is called: "Encoder · layer 0 · self-attention · scores". */
export function nameOf(node) {
  const parts = [];
  if (node.stack) parts.push(t(node.stack));
  if (node.layer !== null && node.layer !== undefined) parts.push(t("layer", node.layer));
  const sub = /(self_attention|cross_attention|feed_forward)/u.exec(node.id);
  if (sub) parts.push(t(sub[1]));
  const last = node.id.split(".").at(-1);
  if (node.id === "memory") return t("memory");
  if (node.id === "ctc") return `${t("encoder")} · ${t("ctc")}`;
  const numbered = /(?:convolutions|gates)\.(\d)$/u.exec(node.id);
  if (numbered) return `${t("encoder")} · ${t(node.kind)} ${numbered[1]}`;
  if (node.id === "decoder.output") return t("output_norm");
  if (node.kind === "norm") parts.push(t("norm"));
  else if (node.kind === "add" && node.layer !== null) parts.push(t("residual"));
  else if (sub && PARTS[last]) parts.push(t(PARTS[last]));
  else parts.push(t(node.kind));
  return parts.join(" · ");
}

const FORMULAS = {
  waveform: "空气的压力，从 −1 到 1", frames: "每 10 毫秒一帧：功率谱在梅尔三角滤波器下求和，再取对数", normalise: "每个频带减去均值，除以标准差", convolution: "沿时间的卷积，核 5，步长 2", gate: "a · σ(b)：a 为前一半通道，b 为后一半",
  one_hot: "独热行：词表每一项一列，该词元处为 1", embed: "独热 · E：1 选出词向量表 E 的一行", scale: "× √d_model", position: "位置编码：只取决于位置的一行",
  norm: "LayerNorm(x) = (x − 均值) / √(方差 + ε) · γ + β", heads: "x W + b，再切成多个头", scores: "QKᵀ / √d_k，尚未加掩码", mask: "真：此键可见；假：此键是填充，或在查询之后",
  softmax: "softmax：被遮处恰为 0，每行之和为 1", mix: "权重 · V：对每个查询，值的加权和", merge: "各头并排，乘以 W_o，加 b", linear: "x W + b：每个位置各自计算",
  activation: "激活函数，逐个数计算", logits: "logits = x W：词表每一项一个数", choose: "搜索由这些概率选词",
};
const VERDICTS = { none: "译文与参考相同，或无从比较", "search error": "搜索错误：参考译文得分更高，搜索没有找到它", "model error": "模型错误：模型给所写译文的得分高于参考，加大束宽也无用", open: "未定：贪心搜索没有比较过别的译文" };

/** The formula of a stage: the trace's own words, or those of its kind in the other language. */
export const formulaOf = (node) => (language === "zh" ? FORMULAS[node.kind] ?? (node.inputs.length > 1 ? "相加" : node.formula) : node.formula);
export const verdictOf = ({ kind, text }) => (language === "zh" ? VERDICTS[kind] : undefined) ?? text ?? kind;

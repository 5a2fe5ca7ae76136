"""What is told, in Chinese; terms as Chinese textbooks have them."""

from __future__ import annotations

# fmt: off
STAGES = {
    "one-hot rows: one column for each entry of the vocabulary, all 0 but for a 1 in the column of the piece's "
    "id":
        "独热向量：词表每个词元占一列，除该词元编号所在的列为 1 外全为 0",
    "one-hot · E: the 1 picks a row of E, the learned table with a row for each entry":
        "独热向量 · E：其中的 1 取出 E 的一行；E 是学到的词向量表，每个词元一行",
    "scaled as this model does": "按此模型的方式缩放",
    "what {kind} makes of the rows": "{kind} 由这些行得出的结果",
    "this model does not scale the rows": "此模型不缩放词向量",
    "× {factor}, the factor of this model": "× {factor}，此模型的系数",
    "the row of each position, as {kind} has it": "每个位置的编码，按 {kind} 的做法",
    "the row of each position: even columns sin, odd ones cos of pos / 10000^(2i/d_model)":
        "位置编码：pos / 10000^(2i/d_model) 的正弦在偶数列，余弦在奇数列",
    "the row of each position: first all sin, then all cos of pos / 10000^(i/(d_model/2 - 1))":
        "位置编码：pos / 10000^(i/(d_model/2 - 1)) 的正弦全在前，余弦全在后",
    "the row of each position: first all sin, then all cos of (pos + 2) / 10000^(i/(d_model/2 - 1))":
        "位置编码：(pos + 2) / 10000^(i/(d_model/2 - 1)) 的正弦全在前，余弦全在后",
    "the row of each position: first all sin, then all cos of pos / 10000^(2i/d_model)":
        "位置编码：pos / 10000^(2i/d_model) 的正弦全在前，余弦全在后",
    "position {place}": "位置 {place}",
    "piece + position: the sum goes into the first layer": "词向量 + 位置编码：其和进入第一层",
    "what {kind} gives to the first layer": "{kind} 交给第一层的结果",
    "memory": "编码器输出",
    "Q = x W_q{plus}, cut into {heads} heads{placed}: what each position looks for":
        "Q = x W_q{plus}，切成 {heads} 个头{placed}：查询，每个位置要找什么",
    "K = {x} W_k{plus}{placed}: what each position offers to be found by":
        "K = {x} W_k{plus}{placed}：键，每个位置凭什么被找到",
    "V = {x} W_v{plus}: what each position hands over": "V = {x} W_v{plus}：值，每个位置交出什么",
    "QKᵀ / √d_k = QKᵀ / √{d_k} = QKᵀ / {root}, before the mask":
        "注意力分数 QKᵀ / √d_k = QKᵀ / √{d_k} = QKᵀ / {root}，尚未加掩码",
    ", {added} included": "，已含{added}",
    "rotated by its position": "再按位置的角度旋转（旋转位置编码）",
    "the query's product with the vector of each distance (likewise / √d_k)":
        "查询与每个距离的向量之积（同样除以 √d_k）",
    "the distance times minus the slope of the head": "距离乘以该头斜率的相反数",
    "padding mask of the source: True where a key is a real piece": "源文的填充掩码：键是真实词元处为 True",
    "padding mask: True where a key is a real piece": "填充掩码：键是真实词元处为 True",
    "causal and padding mask: True for itself and what came before, never for what comes later":
        "因果掩码与填充掩码：对自身及之前的位置为 True，对之后的位置一律为 False",
    "softmax over the keys: hidden ones get exactly 0, each row sums to 1":
        "对键做 softmax，得注意力权重：被遮住的键恰为 0，每行之和为 1",
    "weights · V: for each query a mixture of the values": "权重 · V：每个查询得到各值的加权和",
    "the heads side by side, heads·d_v={width} wide, times W_o{plus}":
        "多头拼接，宽 heads·d_v={width}，再乘 W_o{plus}",
    "x W₁ + b₁: each position by itself, widened": "x W₁ + b₁：逐位置，升维",
    "; here {share} of the numbers are 0": "；此处 {share} 的数为 0",
    "· W₂ + b₂: back to the old width": "· W₂ + b₂：回到原来的宽度",
    "what the sub-layer is given: {norm}": "子层的输入：{norm}",
    "x + sublayer(x): what came in is added to what came out": "x + 子层(x)：残差连接，输入加到输出上",
    "x + sublayer(norm(x)): what came in is added to what came out":
        "x + 子层(归一化(x))：残差连接，输入加到输出上",
    "LayerNorm(x) = (x − mean) / √(variance + {eps}) · γ + β, each position by itself":
        "层归一化 LayerNorm(x) = (x − 均值) / √(方差 + {eps}) · γ + β，逐位置进行",
    ", after a last {norm}": "（再经最后一次 {norm}）",
    "the encoder's output{ended}: what the decoder looks at, computed once for all steps":
        "编码器输出{ended}：供解码器查看，只算一次，各步共用",
    "the output of the last layer{ended}": "最后一层的输出{ended}",
    "logits = x W{plus}: one number for each entry of the vocabulary":
        "logits（未归一化分数）= x W{plus}：词表每个词元一个数",
    "softmax of each row: logits become probabilities that sum to 1": "逐行 softmax：logits 变成和为 1 的概率",
    "padding mask: beside a longer text {padding} <pad> fill the row, hidden from every query":
        "填充掩码：与更长的句子同批时，以 {padding} 个 <pad> 补齐，任何查询都看不到它们",
    "causal mask: a row sees itself and what came before, the triangle":
        "因果掩码：每行只看自身及之前的位置，呈三角形",
    "combined: allowed by the causal mask and by the padding mask of the target":
        "合并：因果掩码与目标的填充掩码都允许",
}
CHECKS = {
    "logits of the pass that is shown = logits of a pass that nobody observes":
        "所示前向计算的 logits = 无人观察时的 logits",
    "logits in row t of one pass over all positions = logits of step t with a cache":
        "所有位置一次并行计算，第 t 行的 logits = 带缓存逐步计算第 t 步的 logits",
    "logits of the text alone = logits with {padding} <pad> after it, as beside a longer text":
        "单独一句的 logits = 其后补 {padding} 个 <pad>（如同与更长的句子同批）的 logits",
    "{home}: scaled row + position = what enters the first layer":
        "{home}：缩放后的词向量 + 位置编码 = 进入第一层的向量",
}
SEARCH = {
    "greedy search": "贪心搜索",
    "beam search, {size} hypotheses, {ranking}": "束搜索，束宽 {size}，{ranking}",
    "length reward {alpha}": "长度奖励 {alpha}",
    "{formula} length penalty {alpha}": "长度惩罚 {alpha}（{formula}）",
    "the surest gap first": "先填最有把握的空",
    "`</s>` finishes a hypothesis only from among the first {size} of all candidates; this is number {rank}":
        "只有排在全部候选前 {size} 名的 `</s>` 才算完成一个假设；它是第 {rank} 名",
    "{size} candidates with a higher sum of log-probabilities live on":
        "已有 {size} 个对数概率之和更高的候选保留下来",
    "it was alive when the search ended: {stop}": "搜索结束时它仍在束中：{stop}",
    "it is the likeliest, and greedy search takes no other": "它概率最大，贪心搜索只取它",
    "it is among the {size} likeliest that go on": "它在可继续的候选中排前 {size} 名",
    "`</s>` is among the first {size} of all candidates: finished": "`</s>` 排在全部候选的前 {size} 名：完成",
    "no candidate is left that could go on": "已没有可继续的候选",
    "{size} hypotheses are finished, and all score higher than the best live one as it stands":
        "已完成 {size} 个假设，且得分都高于目前最好的未完成者",
    "no live hypothesis can still enter the {wanted} best, however long it grows":
        "未完成的假设无论再写多长，都进不了前 {wanted} 名",
    "`</s>` was the likeliest": "`</s>` 概率最大",
    "The target is what is written.": "写出的正是目标文。",
    "The target scores higher than what is written, and was not found: a search error. A wider beam may help.":
        "目标文得分高于所写的译文，却没有被找到：搜索错误。加大束宽可能有用。",
    "What greedy search wrote scores higher than the target. It compared no whole outputs: see what a beam "
    "finds (--beam-size 4) before the model is blamed.":
        "贪心搜索所写的译文得分高于目标文。但它没有比较过完整的译文：先看束搜索找到什么（--beam-size "
        "4），再归咎于模型。",
    "What is written scores higher than the target: a model error. No wider beam would help.":
        "所写的译文得分高于目标文：模型错误。再大的束宽也无用。",
    "From left to right alone, {place} would be written.": "若只看从左到右，会写出第 {place} 个。",
    "score = {formula}, the length with </s>; ▸ is written.": "得分 = {formula}，长度含 </s>；▸ 为写出的译文。",
    "score = {formula}, the length with </s>.": "得分 = {formula}，长度含 </s>。",
    "P→ is left to right, P← right to left, → alone is the score without the latter.":
        "P→ 从左到右，P← 从右到左，“仅 →” 是不计后者的得分。",
    "The beam: the candidates of each step in the order of their sums of log P, and which one each goes on "
    "from; ▸ lives on, ■ is finished, · is pruned (the best of these alone). The score is what each would be "
    "ranked by if it ended there.":
        "束搜索：每一步的候选，按 log P 之和排列，并注明接在哪个候选之后；▸ 保留，■ 完成，· "
        "剪除（只列其中最好的一个）。得分是它若就此结束时排名所依据的数。",
    "A sum is the parent's sum and the candidate's own log P; of {id}: {sums}":
        "和 = 父候选的和 + 自身的 log P；{id} 的和：{sums}",
}
WALK = {
    "encoder-decoder": "编码器-解码器",
    "decoder only": "仅解码器",
    "encoder only": "仅编码器",
    "{kind}, {layers} layers of {heads} heads, {sizes}, {parameters} parameters":
        "{kind}，{layers} 层，每层 {heads} 个注意力头，{sizes}，共 {parameters} 个参数",
    "The text becomes ids": "文本变成编号",
    "source, as the encoder reads it": "源文，即编码器所读",
    "what the decoder is given": "解码器的输入",
    "output": "译文",
    "{count} pieces": "{count} 个词元",
    "The ids become vectors (the first {count} numbers of each)": "编号变成词向量（各列前 {count} 个数）",
    "Who may look at whom (■ yes, · no)": "谁可以看谁（■ 可以，· 不可以）",
    "The encoder": "编码器",
    "The memory": "编码器输出",
    "The ids of the target become vectors": "目标文的编号变成词向量",
    "The decoder, all positions at once: row t is what step t computes":
        "解码器，所有位置并行：第 t 行就是第 t 步的计算",
    "Vectors become probabilities": "向量变成概率",
    "Two numbers worked out (any other with --work-out)": "两个数的演算（其他的用 --work-out）",
    "Step by step ({search})": "逐步解码（{search}）",
    "What was finished, and how it was ranked": "完成了哪些译文，如何排名",
    "The training view: the whole target at once, beside one piece at a time":
        "训练视角（教师强制）：整个目标文一次算完，与自回归逐步计算对照",
    "What was checked": "核对了什么",
    ": the same with weights of its own (see --layer {layer})": "：结构相同，权重各异（见 --layer {layer}）",
    "head {head}": "头 {head}",
    "reads": "读",
    "→ writes": "→ 写",
    "→ should write": "→ 应写",
    "reads {read} → writes {written}": "读 {read} → 写 {written}",
    "Each pass fills the gap [in brackets] that the model is surest of, given those filled before.":
        "每一遍填模型最有把握的那个空 [方括号中]，已填的作为已知。",
    "At each step only the newest piece is a query; keys and values of earlier ones wait in a cache.":
        "自回归：每一步只有最新的词元是查询；之前词元的键与值留在缓存里。",
    "The five likeliest pieces and their probabilities, ▸ before the chosen one:":
        "概率最大的五个词元及其概率，▸ 为选中者：",
    "step {number}": "第 {number} 步",
    "With the datastore: the chosen piece's probability by both, the datastore's weight, what followed the "
    "states nearest to the model's with which share, and a known target in which it did:":
        "加上数据库（kNN）：两者合并后选中词元的概率、数据库的权重、与当前状态最近的那些状态之后出现的词元及其"
        "占比，以及出现于其中的一条已知译文：",
    "by both": "合并",
    "weight": "权重",
    "followed by": "其后",
    "in": "出处",
    "after": "接在",
    "why": "原因",
    "score": "得分",
    "→ alone": "仅 →",
    "length": "长度",
    "target": "目标文",
    "sum": "和",
    "The decoder is given the target shifted right and must predict, at every position, the piece that "
    "follows. The triangle of the causal mask hides the rest: one pass computes what single steps would.":
        "解码器的输入是右移一位的目标文，须在每个位置预测下一个词元（教师强制）。因果掩码的三角形遮住其余部分："
        "一次并行计算，与逐步计算相同。",
    "may see": "可见",
    "P parallel": "P 并行",
    "P serial": "P 逐步",
    "rank": "名次",
    "likeliest": "最可能",
    "the label": "即标签",
    "1 to {place}": "1 到 {place}",
    "cross-entropy, the mean of −ln P over the {count} labels: {loss}":
        "交叉熵，即 {count} 个标签上 −ln P 的均值：{loss}",
    "Each line: two ways to the same numbers, and the largest difference between any two of them.":
        "每行：同样的数用两种方法算出，以及其间最大的差。",
    "none": "无",
    "1 in column {column}": "1 在第 {column} 列",
    "{count} more rows": "另有 {count} 行",
    "the {count} largest of {columns} columns": "{columns} 列中最大的 {count} 个",
    "the first {count} of {columns} columns": "{columns} 列中的前 {count} 列",
    "a row for each number that comes out, a column for each that goes in: x · Wᵀ":
        "每行对应一个输出，每列对应一个输入：x · Wᵀ",
    "pictures:": "图：",
    "warning:": "注意：",
    "More: --stage NAME (or its beginning, or '*.weights'), --layer N, --head N, --numbers N, --step N, "
    "--work-out 'NAME[HEAD,QUERY,KEY]', --weights NAME, --as SYSTEM, --pictures DIR, --lang zh, --json":
        "更多：--stage 名称（或其开头，或 '*.weights'）、--layer N、--head N、--numbers N、--step "
        "N、--work-out '名称[头,查询,键]'、--weights 名称、--as 系统、--pictures 目录、--lang en、--json",
}
NOTES = {
    "The output was searched for with the model's datastore. The stages show the model alone, the steps both.":
        "译文是借助模型的数据库搜索到的。各阶段只显示模型本身，解码步显示两者。",
    "The beam was ranked by both directions; stages and steps are those of the left-to-right one.":
        "束中的译文按两个方向排名；各阶段与解码步属于从左到右的方向。",
    "The search went in circles: shown is what a second one found, which repeats no tokens (`loop_guard`).":
        "搜索陷入循环：所示为第二次搜索的结果，它不重复词元（`loop_guard`）。",
    "how it was trained is not known, and pictures of it will be the paper's: {reason}":
        "不知道它是怎样训练的，有关的图将按论文绘制：{reason}",
    "the text has no <mask>, so there is nothing to fill; every position is predicted all the same":
        "文中没有 <mask>，无空可填；仍对每个位置做了预测",
    "Step {number}, {row}: one query; keys and values of earlier steps wait in the cache.":
        "第 {number} 步，{row}：一个查询；之前各步的键与值留在缓存里。",
}
WORKING = {
    "head {head}, {looks}": "头 {head}，{looks}",
    "attention score": "分数",
    "{query} looks at {key}": "“{query}”看“{key}”",
    "q · k, the products of the {count} numbers of both:": "q · k，两者各 {count} 个数逐项相乘：",
    "what the positions of this model add: {added}": "此模型的位置信息另加：{added}",
    "mask: hidden, the key comes after the query (causal mask); its weight is exactly 0":
        "掩码：遮住，该键在查询之后（因果掩码）；其权重恰为 0",
    "mask: hidden, the key is padding; its weight is exactly 0": "掩码：遮住，该键是填充；其权重恰为 0",
    "mask: open, the query may look at this key": "掩码：未遮，该查询可以看这个键",
    "softmax over the row: exp(score − largest) / sum = weight, then weight · V:":
        "对该行做 softmax：exp(分数 − 最大值) / 和 = 权重，再乘 V：",
    "exp": "exp",
    "V (the first {count})": "V（前 {count} 个）",
    "hidden": "遮住",
    "result": "结果",
    "mean": "均值",
    "variance": "方差",
    "deviation": "标准差",
    "mean of the {count} numbers x: {mean}; variance, the mean of (x − mean)²: {variance}":
        "x 的 {count} 个数的均值：{mean}；方差，即 (x − 均值)² 的均值：{variance}",
    "deviation = {formula} = {deviation}": "标准差 = {formula} = {deviation}",
}
FIGURES = {
    "Every position has a row of its own (the nearest two are {nearest} apart)":
        "每个位置各有一行（最近的两行相距 {nearest}）",
    "{place}, {kind}": "{place}，{kind}",
    "{name}: {text}": "{name}：{text}",
    "Encoder": "编码器",
    "Decoder": "解码器",
    "{stack}, layer {layer}": "{stack}，第 {layer} 层",
    "self-attention": "自注意力",
    "cross-attention": "交叉注意力",
    "{place}: {kind}, who looks at whom": "{place}：{kind}，谁看谁",
    "{place}: {kind}, head {head}, who looks at whom": "{place}：{kind}，头 {head}，谁看谁",
    "who looks (query)": "谁在看（查询）",
    "who is looked at (key)": "被看者（键）",
    "attention weight (each row sums to 1)": "注意力权重（每行之和为 1）",
    "attention weight": "注意力权重",
    "{place}: {kind}, the scores QKᵀ / √d_k before mask and softmax":
        "{place}：{kind}，掩码与 softmax 之前的分数 QKᵀ / √d_k",
    "One head computed: {place}, {kind}, head {head}": "一个头的计算：{place}，{kind}，头 {head}",
    "scores QKᵀ / √{d_k}": "分数 QKᵀ / √{d_k}",
    "weights = softmax(scores under the mask)": "权重 = softmax(加掩码的分数)",
    "weights · V": "权重 · V",
    "the first {count} of {columns} columns; hatched: hidden by the mask":
        "前 {count} 列，共 {columns} 列；划斜线者被掩码遮住",
    "LayerNorm, before and after: {name}": "层归一化前后：{name}",
    "before: x": "之前：x",
    "after": "之后",
    "mean {mean}, deviation {deviation}": "均值 {mean}，标准差 {deviation}",
    "every bar one of {count} numbers; dashed: the mean": "每条竖线是 {count} 个数中的一个；虚线：均值",
    "Logits per step: the likeliest pieces, before the softmax": "每一步的 logits：softmax 之前，最可能的词元",
    "The beam as a tree": "束搜索树",
    "number on a candidate: sum of log P; filled: finished; dashed: pruned (the best of each step)":
        "候选上的数：log P 之和；填色：完成；虚线：剪除（每步只画最好的一个）",
    "thick: what greedy search takes": "粗线：贪心搜索所取",
    "Map of the embeddings: the two widest axes (PCA)": "词向量图：方差最大的两个轴（PCA）",
    "these two axes hold {share} of the variance": "这两个轴含方差的 {share}",
    "Training and prediction: the same rows, at once and one by one": "训练与预测：同样的行，一次算完与逐行计算",
    "training: all rows under the triangle, one pass (teacher forcing)":
        "训练：三角掩码下所有行一次算完（教师强制）",
    "prediction: one row a step, the cache grows (autoregressive)": "预测：每步一行，缓存增长（自回归）",
    "computed": "计算",
    "from the cache": "取自缓存",
    "hidden": "遮住",
    "step {number}": "第 {number} 步",
    "position": "位置",
    "dimension, of {width}": "维度，共 {width} 维",
    "the first {count} of {width} dimensions": "{width} 维中的前 {count} 维",
    "Who may look at whom: a query (row) at a key (column) where it is dark":
        "谁可以看谁：深色处，查询（行）可以看键（列）",
    "any query": "任何查询",
    "padding mask": "填充掩码",
    "causal mask": "因果掩码",
    "combined mask": "合并的掩码",
    "Learning rate, as this run was trained": "学习率：此次训练",
    "Learning rate, as in the paper": "学习率：论文",
    "warm-up ends at update {peak}: rate {rate}": "预热到第 {peak} 次更新为止：学习率 {rate}",
    "update": "更新次数",
    "learning rate ({kind})": "学习率（{kind}）",
    "trained towards": "训练目标",
    "what the model says": "模型的预测",
    "probability": "概率",
    "ε/V = {epsilon}/{vocab} = {spread}, due to every other entry":
        "ε/V = {epsilon}/{vocab} = {spread}，其余每个词元应得",
    "The smoothed target where {piece} is due (ε = {epsilon}); {vocab} entries, {count} shown":
        "应写 {piece} 处的平滑标签（ε = {epsilon}）；共 {vocab} 个词元，画出 {count} 个",
    "The architecture of the model": "模型的架构",
    "target, shifted right": "目标文（右移一位）",
    "source": "源文",
    "embedding of the pieces": "词向量",
    "+ positional encoding": "+ 位置编码",
    "LayerNorm": "层归一化",
    "memory: the encoder's output": "编码器输出（memory）",
    "output of the stack": "最后一层的输出",
    "linear map to the vocabulary: logits": "线性变换到词表：logits",
    "softmax: probabilities": "softmax：概率",
    "feed-forward network": "前馈网络",
    "masked multi-head self-attention": "掩码多头自注意力",
    "multi-head self-attention": "多头自注意力",
    "multi-head cross-attention": "多头交叉注意力",
    "add (residual connection)": "相加（残差连接）",
    "layer {layer}": "第 {layer} 层",
    "into every layer": "进入每一层",
}
# fmt: on
CHINESE = {**STAGES, **CHECKS, **SEARCH, **WALK, **NOTES, **WORKING, **FIGURES}

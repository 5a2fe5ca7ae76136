"""A trace told in plain text, in the order of the descriptions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from dragoman.inspection.beam_lines import beam_lines
from dragoman.inspection.facts import RankedHypothesis, Step, Text
from dragoman.inspection.heard_lines import heard_lines, reading_lines
from dragoman.inspection.ranking import verdict_of
from dragoman.inspection.tables import ROWS, cells, folded, folded_chinese, number, stage_numbers, table
from dragoman.inspection.trace import PARTS, Trace
from dragoman.inspection.weights import weight_lines
from dragoman.inspection.working import examples
from dragoman.stages.stage import Stage
from dragoman.stages.words import bare, printable, reads_writes, say, shown, speaking, spoken

WIDTH = 100
# Of a selection, unless it is said.
NUMBERS = 6
# Of the walk-through.
SHORT = 4
# Positions up to which the triangle of the training view is drawn.
SQUARE = 24
# Characters of a known target.
_TARGET = 48
_KINDS = {"transformer": "encoder-decoder", "causal": "decoder only", "masked": "encoder only"}
_CHAPTERS = (
    ("The ids become vectors (the first {count} numbers of each)", ("source_embedding.", "embedding.")),
    ("Who may look at whom (■ yes, · no)", ("masks.",)),
    ("The encoder", ("encoder.",)),
    ("The memory", ("memory",)),
    ("What the head for CTC reads off the memory, position by position", ("ctc",)),
    ("The ids of the target become vectors", ("target_embedding.",)),
    ("The decoder, all positions at once: row t is what step t computes", ("decoder.",)),
    ("Vectors become probabilities", ("generator", "probabilities")),
)
_OF_SOUND = "The sound becomes vectors (the first {count} numbers of each)"
_MORE = (
    "More: --stage NAME (or its beginning, or '*.weights'), --layer N, --head N, --numbers N, --step N, "
    "--work-out 'NAME[HEAD,QUERY,KEY]', --weights NAME, --as SYSTEM, --pictures DIR, --lang zh, --json"
)
_PARTS = {
    "steps": "Step by step ({search})",
    "ranking": "What was finished, and how it was ranked",
    "training": "The training view: the whole target at once, beside one piece at a time",
    "checks": "What was checked",
}


def walk(trace: Trace, numbers: int | None = None) -> Iterator[str]:
    """Yield the lines of `Trace.lines`."""
    yield from _head(trace)
    whole = trace.parts == PARTS
    chapter = 1
    if "text" in trace.parts:
        yield from _title(chapter, say("The text becomes ids") if trace.sound is None else say("What is heard"))
        yield from _texts(trace)
        chapter += 1
    if whole and numbers is None:
        told: set[str] = set()
        for title, begins in _CHAPTERS:
            stages = [stage for stage in trace.stages if stage.name.startswith(begins)]
            if stages:
                heard = trace.sound is not None and begins == _CHAPTERS[0][1]
                yield from _title(chapter, (say(_OF_SOUND) if heard else say(title)).format(count=SHORT))
                yield from _told(stages, told)
                yield from reading_lines(trace) if begins == ("ctc",) else ()
                chapter += 1
        if worked := examples(trace):
            yield from _title(chapter, say("Numbers worked out (any other with --work-out)"))
            for one in worked:
                yield from (f"   {line}" for line in one.lines)
            chapter += 1
    elif trace.stages:
        yield ""
        for stage in trace.stages:
            yield from _in_full(stage, NUMBERS if numbers is None else numbers)
    for one in trace.worked:
        yield from ("", *one.lines)
    if trace.chosen:
        yield from ("", *weight_lines(trace.chosen, NUMBERS if numbers is None else numbers))
    for part, tell in (("steps", _steps), ("ranking", _ranking), ("training", _training), ("checks", _checks)):
        if part in trace.parts and (lines := list(tell(trace))):
            yield from _title(chapter, say(_PARTS[part]).format(search=trace.search))
            yield from lines
            chapter += 1


def _head(trace: Trace) -> Iterator[str]:
    yield f"{printable(trace.text)} → {printable(trace.output.text)}"
    sizes = trace.sizes
    layers = " + ".join(str(sizes[key]) for key in ("num_encoder_layers", "num_decoder_layers") if key in sizes)
    named = ", ".join(f"{name}={size}" for name, size in sizes.items() if not name.startswith("num_"))
    yield from _wrapped(
        say(
            "{kind}, {layers} layers of {heads} heads, {sizes}, {parameters} parameters").format(
            kind=say(_KINDS[trace.family]), layers=layers, heads=sizes.get("num_heads", 0), sizes=named,
            parameters=f"{trace.parameters:,}",
        ),
        0,
    )  # fmt: skip
    for note in trace.notes:
        yield from _wrapped(note, 0)


def _title(chapter: int, title: str) -> Iterator[str]:
    yield ""
    yield f"{chapter}  {title}"
    yield ""


def _wrapped(text: str, indent: int) -> list[str]:
    blank = " " * indent
    if spoken() == "zh":  # no blanks to break at, and two columns for a sign
        return [blank + line for line in folded_chinese(text, WIDTH - indent)]
    return textwrap.wrap(text, WIDTH, initial_indent=blank, subsequent_indent=blank, break_long_words=False)


def _texts(trace: Trace) -> Iterator[str]:
    sides = (("source, as the encoder reads it", trace.source), ("what the decoder is given", trace.target))
    for name, text in (*sides, ("output", trace.output)):
        if text is not None and text is trace.source and trace.sound is not None:
            yield from heard_lines(trace)
        elif text is not None:
            yield "   " + say(name) + "  [" + say("{count} pieces").format(count=len(text.ids)) + "]"
            yield from _pieces(text)


def _pieces(text: Text) -> Iterator[str]:
    """Pieces over their ids, in as many blocks as fit the width."""
    block: list[tuple[str, str]] = []
    room = WIDTH - 6
    for piece, token in zip(text.pieces, text.ids, strict=True):
        pair = (shown(piece), str(token))
        taken = sum(max(map(cells, one)) + 2 for one in [*block, pair])
        if block and taken > room:
            yield from table(list(zip(*block, strict=True)), 6, left=len(block))
            block = []
        block.append(pair)
    yield from table(list(zip(*block, strict=True)), 6, left=len(block))


def _told(stages: Sequence[Stage], told: set[str]) -> Iterator[str]:
    """The stages of a chapter in short: each sentence once, the first layer in detail, attention in words."""
    layer = None
    for stage in stages:
        if stage.layer != layer and stage.layer is not None:
            name = stage.name.partition(f".layers.{stage.layer}.")[0]
            same = ": the same with weights of its own (see --layer {layer})"
            more = say(same).format(layer=stage.layer) if stage.layer else ""
            yield f"   {name}.layers.{stage.layer}{more}"
        layer = stage.layer
        if not stage.layer:
            yield from _named(stage, told)
        elif stage.name.endswith(".weights"):
            yield f"      {_tail(stage)}"
            yield from _looks(stage)


def _named(stage: Stage, told: set[str]) -> Iterator[str]:
    indent = 3 if stage.layer is None else 6
    new = stage.what not in told
    told.add(stage.what)
    yield f"{' ' * indent}{_tail(stage)}  {stage.size}"
    if new:
        yield from _wrapped(stage.what, indent + 3)
    if stage.name.endswith(".weights"):
        yield from _looks(stage)
    elif stage.layer is None and (new or stage.name.endswith("positions")):
        rows = ROWS if stage.name.startswith("masks") else 6
        yield from stage_numbers(stage, SHORT, rows=rows, indent=6, tell=False)


def _tail(stage: Stage) -> str:
    """The name, without what stands above its layer."""
    return stage.name if stage.layer is None else "." + stage.name.partition(f".layers.{stage.layer}.")[2]


def _looks(stage: Stage) -> Iterator[str]:
    """What each position looks at most, head by head: a column for each position."""
    if stage.values is None:
        return
    columns = range(min(len(stage.rows), 6))
    more = ["…"] if len(stage.rows) > 6 else []
    if stage.writes:
        rows = [[say("reads"), *(bare(stage.rows[one]) for one in columns), *more]]
        rows += [[say("→ writes"), *(bare(stage.writes[one]) for one in columns), *more]]
    else:
        rows = [["", *(shown(stage.rows[one]) for one in columns), *more]]
    for head, weights in zip(stage.heads, stage.values[0], strict=True):
        best = weights.max(-1)
        keys, values = best.indices.tolist(), best.values.tolist()
        looks = [f"{shown(stage.columns[keys[one]])} {values[one]:.2f}" for one in columns]
        rows.append([say("head {head}").format(head=head), *looks])
    yield from table(rows, 9, left=len(rows[0]))


def _in_full(stage: Stage, numbers: int) -> Iterator[str]:
    yield f"{stage.name}  {stage.size}"
    yield from _wrapped(stage.what, 3)
    yield from stage_numbers(stage, numbers, indent=3)


def _steps(trace: Trace) -> Iterator[str]:
    if not trace.steps:
        return
    if trace.family == "masked":
        told = "Each pass fills the gap [in brackets] that the model is surest of, given those filled before."
    else:
        told = "At each step only the newest piece is a query; keys and values of earlier ones wait in a cache."
    yield from _wrapped(say(told), 3)
    yield from _wrapped(say("The five likeliest pieces and their probabilities, ▸ before the chosen one:"), 3)
    yield ""
    rows = []
    for step in trace.steps:
        likely = [*step.top, *([step.chosen] if step.chosen.rank > len(step.top) else [])]
        found = [
            f"{'▸' if candidate.id == step.chosen.id else ' '}{shown(candidate.piece)} {candidate.probability:.4f}"
            for candidate in likely
        ]
        row = _given(step) if step.place is not None else reads_writes(step.given[-1], step.chosen.piece)
        rows.append([say("step {number}").format(number=step.number), row, *found])
    yield from table(rows, 3, left=len(max(rows, key=len)))
    yield from _retrieved(trace.steps)
    yield from beam_lines(trace)


def _retrieved(steps: Sequence[Step]) -> Iterator[str]:
    rows = []
    for step in steps:
        if step.retrieval is None:
            continue
        begin = [
            say("step {number}").format(number=step.number),
            f"▸{shown(step.chosen.piece)} {step.retrieval.together:.4f}",
        ]
        begin.append(f"{step.retrieval.weight:.2f}")
        for neighbour in step.retrieval.neighbours:
            piece = f"{'▸' if neighbour.id == step.chosen.id else ' '}{shown(neighbour.piece)} {neighbour.share:.4f}"
            rows.append([*begin, piece, textwrap.shorten(printable(neighbour.target), _TARGET, placeholder=" …")])
            begin = ["", "", ""]
    if rows:
        yield ""
        yield from _wrapped(
            say(
                "With the datastore: the chosen piece's probability by both, the datastore's weight, what followed the "
                "states nearest to the model's with which share, and a known target in which it did:"
            ),
            3,
        )
        yield ""
        yield from table([["", say("by both"), say("weight"), say("followed by"), say("in")], *rows], 3, left=5)


def _ranking(trace: Trace) -> Iterator[str]:
    if not trace.ranking:
        return
    both = trace.ranking[0].right_to_left is not None
    yield from _wrapped(
        say("score = {formula}, the length with </s>; ▸ is written.").format(formula=trace.ranked_by), 3
    )
    if both:
        told = "P→ is left to right, P← right to left, → alone is the score without the latter."
        yield from _wrapped(say(told), 3)
    yield ""
    rows = [["", say("score"), *([say("→ alone"), "log P→", "log P←"] if both else ["log P"]), say("length")]]
    written = next(hypothesis for hypothesis in trace.ranking if hypothesis.found)
    for place, hypothesis in enumerate(trace.ranking, 1):
        mark = "▸" if hypothesis is written else " "
        values = [hypothesis.score, *([hypothesis.alone] if both else []), hypothesis.log_probability]
        values += [hypothesis.right_to_left] if hypothesis.right_to_left is not None else []
        target = " " + say("target") if hypothesis.wanted else ""
        rows.append([f"{mark} {place}{target}", *map(number, values), str(hypothesis.length)])
    first, *numbers = table(rows, 3)
    yield first
    room = WIDTH - cells(max(numbers, key=cells)) - 2
    for line, hypothesis in zip(numbers, trace.ranking, strict=True):
        begin, *others = folded(hypothesis.text, room) or [""]
        yield f"{line}  {begin}"
        for more in others:
            yield " " * (cells(line) + 2) + more
    yield from _verdict(trace.ranking, written, greedy=trace.search == say("greedy search"))


def _verdict(ranking: Sequence[RankedHypothesis], written: RankedHypothesis, *, greedy: bool) -> Iterator[str]:
    """Whose error it is that the target was not written; without one, what the right-to-left direction changed."""
    wanted = next((hypothesis for hypothesis in ranking if hypothesis.wanted), None)
    first = max((hypothesis for hypothesis in ranking if hypothesis.found), key=lambda hypothesis: hypothesis.alone)
    if wanted is None:
        alone = say("From left to right alone, {place} would be written.").format(place=ranking.index(first) + 1)
        line = alone if first is not written else ""
    else:
        line = verdict_of(ranking, greedy=greedy)[1]
    if line:
        yield ""
        yield from _wrapped(line, 3)


def _given(step: Step) -> str:
    """The end of what the model was given; for a masked model, what stands around the gap."""
    pieces = [shown(piece) for piece in step.given]
    first, last = max(0, len(pieces) - 5), len(pieces)
    if step.place is not None:
        pieces[step.place] = f"[{pieces[step.place]}]"
        first, last = max(0, step.place - 3), step.place + 3
    return " ".join([*(["…"] if first else []), *pieces[first:last], *(["…"] if last < len(pieces) else [])])


def _training(trace: Trace) -> Iterator[str]:
    if not trace.training:
        return
    yield from _wrapped(
        say(
            "The decoder is given the target shifted right and must predict, at every position, the piece that "
            "follows. The triangle of the causal mask hides the rest: one pass computes what single steps would."
        ),
        3,
    )
    yield ""
    names = ("reads", "→ should write", "may see", "P parallel", "P serial", "rank", "likeliest")
    rows = [["", *map(say, names)]]
    count = len(trace.training)
    for place, one in enumerate(trace.training, 1):
        probabilities = [f"{value:.6f}" for value in (one.parallel, one.serial)]
        other = f"{shown(one.likeliest.piece)} {number(one.likeliest.probability)}"
        likeliest = say("the label") if one.rank == 1 else other
        sees = "■" * place + "·" * (count - place) if count <= SQUARE else say("1 to {place}").format(place=place)
        rows.append([str(place), bare(one.given), bare(one.label), sees, *probabilities, str(one.rank), likeliest])
    yield from table(rows, 3, left=4)
    loss = -sum(math.log(max(one.parallel, 1e-300)) for one in trace.training) / count
    yield ""
    mean = "cross-entropy, the mean of −ln P over the {count} labels: {loss}"
    yield "   " + say(mean).format(count=count, loss=f"{loss:.4f}")


def _checks(trace: Trace) -> Iterator[str]:
    told = "Each line: two ways to the same numbers, and the largest difference between any two of them."
    yield from _wrapped(say(told), 3)
    yield ""
    for check in trace.checks:
        difference = f"{check.difference:.1e}" if check.difference else say("none")
        first, *others = _wrapped(check.what, 24)
        yield f"   {difference}{' ' * (9 - cells(difference))}{check.dtype:12}{first.lstrip()}"
        yield from others


def closing_lines(trace: Trace, pictures: Sequence[str], *, more: bool) -> list[str]:
    """Return what stands at the end: the files that were drawn, and what else can be asked for.

    Args:
        trace: whose language it is told in.
        pictures: paths.
        more: whether the options are told.
    """
    with speaking(trace.lang):
        lines = ["", say("pictures:"), *(f"  {path}" for path in pictures)] if pictures else []
        return [*lines, "", *_wrapped(say(_MORE), 0)] if more else lines

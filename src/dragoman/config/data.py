"""The settings of `[data]` and `[tokenizer]`: what is learned from, and how strings become ids."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import COUNTED, TRAINED, NotNegative, Paths, PathText, Positive
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds

# Codes of countries that are often meant for a language, and are the codes of none.
LANGUAGE_OF_COUNTRY = {"cn": "zh", "jp": "ja"}
_PAIRS = ({"model.family": ("transformer",)},)
_LISTED, _CUT = ("word", "character", "auto"), ("bpe", "unigram", "auto")


class DataConfig(Section, section="data", content=frozenset({"data", "run"})):
    """Where the pairs are, or the text, and what is left out of them."""

    source: Paths = setting(
        default=(),
        description="Files of source lines, aligned with target; .gz is read as it is.",
        flag="--source",
        changeable=True,
        files="pairs",
    )
    target: Paths = setting(
        default=(),
        description="Files of target lines, as many as there are of source.",
        flag="--target",
        changeable=True,
        files="pairs",
    )
    pairs: Paths = setting(
        default=(),
        description="Files of pairs, instead or besides: .tsv with two columns, or .jsonl with source and target.",
        flag="--pairs",
        changeable=True,
        files="pairs",
    )
    dev_source: Paths = setting(
        default=(),
        description="Files of held-out source lines, for validation; split off training if there are none.",
        flag="--dev-source",
        changeable=True,
        files="pairs",
    )
    dev_target: Paths = setting(
        default=(),
        description="Files of held-out target lines.",
        flag="--dev-target",
        changeable=True,
        files="pairs",
    )
    dev_pairs: Paths = setting(
        default=(),
        description="Files of held-out pairs, instead or besides.",
        flag="--dev-pairs",
        changeable=True,
        files="pairs",
    )
    text: Paths = setting(
        default=(),
        description="For models of one text: files of lines, instead of pairs.",
        flag="--text",
        changeable=True,
        files="text",
    )
    dev_text: Paths = setting(
        default=(),
        description="Files of held-out lines; split off training if there are none.",
        flag="--dev-text",
        changeable=True,
        files="text",
    )
    test_text: Paths = setting(
        default=(),
        description="Files of test lines, only to report what they share with training.",
        changeable=True,
        files="text",
    )
    test_source: Paths = setting(
        default=(),
        description="Files of test source lines, only to report what they share with training.",
        changeable=True,
        files="pairs",
    )
    test_target: Paths = setting(
        default=(),
        description="Files of test target lines, for the same report.",
        changeable=True,
        files="pairs",
    )
    test_pairs: Paths = setting(
        default=(),
        description="Files of test pairs, for the same report.",
        changeable=True,
        files="pairs",
    )
    prepared: PathText | None = setting(
        default=None,
        description="A directory made by `dragoman prepare`, instead of the files above.",
        flag="--prepared",
        changeable=True,
        files="prepared",
    )
    source_language: str | None = setting(
        default=None,
        description="Two-letter code of the source language; guessed from a file's suffix when it is one.",
        flag="--source-language",
        content=frozenset({"run"}),
        needs=_PAIRS,
    )
    target_language: str | None = setting(
        default=None,
        description="Two-letter code of the target language; chooses the tokenizer of BLEU.",
        flag="--target-language",
        content=frozenset({"run"}),
    )
    on_bad_text: Literal["stop", "replace", "skip"] = setting(
        default="stop",
        description="What is done about a line that is not UTF-8: stop, replace its wrong bytes, or skip it.",
        flag="--on-bad-text",
    )
    max_source_tokens: Positive = setting(
        default=256,
        description="Pairs with a longer source are left out of training, and counted.",
        unit="tokens",
        needs=_PAIRS,
    )
    max_target_tokens: Positive = setting(
        default=256, description="Pairs with a longer target are left out of training, and counted.", unit="tokens"
    )
    long_lines: Literal["drop", "split"] = setting(
        default="split",
        description="What a line of text longer than max_target_tokens is: left out (drop), or cut into parts (split).",
        needs=({"model.family": (*TRAINED[1:], *COUNTED)},),
    )
    max_length_ratio: Annotated[float, Bounds(gt=1)] | None = setting(
        default=None,
        description="Pairs whose token counts differ by more than this factor are left out; all stay if unset.",
        needs=_PAIRS,
    )
    fuzzy_matches: NotNegative | None = setting(
        default=None,
        description="How many of the training pairs most like it each source is read with, their targets beside it; if "
        "unset 2 for 50,000 to 200,000 pairs of symbols of two sorts, else 0.",
        unit="pairs",
        before=0,
    )
    drop_duplicates: bool = setting(
        default=False, description="Whether one of each exactly repeated pair is kept, instead of all."
    )
    drop_overlap: bool = setting(
        default=False, description="Whether training pairs whose source or target is held out are left out."
    )
    repeat: tuple[Positive, ...] = setting(
        default=(),
        description="How often an epoch has each training file: source files first, then pairs; once if unset.",
        unit="times",
        before=(),
    )

    def check(self) -> None:
        """See `Section.check`."""
        files = (*self.source, *self.pairs, *self.text)
        if self.repeat and len(self.repeat) != len(files):
            raise ValueError(f"repeat has {len(self.repeat)} numbers for {len(files)} training files")
        if self.repeat and len(set(files)) < len(files):
            raise ValueError("a training file is named twice; repeat alone says how often it is seen")

    @property
    def repeats(self) -> dict[str, int]:
        """How often each training file that `repeat` names is to be seen in an epoch."""
        return dict(zip((*self.source, *self.pairs, *self.text), self.repeat, strict=False))


class TokenizerConfig(Section, section="tokenizer", content=frozenset({"data", "run"})):
    """How strings become ids."""

    kind: Literal["auto", "bpe", "unigram", "word", "character"] = setting(
        default="auto",
        description="Kind of tokenizer; auto: word where the text is a small set of symbols between spaces, else bpe.",
    )
    target_kind: Literal["auto", "bpe", "unigram", "word", "character"] | None = setting(
        default=None, description="Kind of tokenizer of the target; as kind if unset."
    )
    vocab_size: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = setting(
        default=None, description="Entries of each vocabulary; by the size of the corpus if unset.", unit="tokens"
    )
    joint: bool | None = setting(
        default=None,
        description="Whether both sides have one vocabulary; by their measured overlap if unset.",
        needs=_PAIRS,
    )
    min_count: Positive = setting(
        default=1,
        description="Of word and character: what occurs more rarely becomes <unk>.",
        unit="times",
        needs=({"tokenizer.kind": _LISTED}, {"tokenizer.target_kind": _LISTED}),
    )
    character_coverage: Annotated[float, Bounds(gt=0, le=1)] = setting(
        default=0.9995,
        description="Of bpe and unigram: share of the text's characters that get entries; the rest become bytes.",
        needs=({"tokenizer.kind": _CUT}, {"tokenizer.target_kind": _CUT}),
    )
    symbols: tuple[str, ...] = setting(
        default=(),
        description="Texts that are one entry each, such as the tags <bt> and <st> before made-up sources.",
        before=(),
    )

"""The settings of `[data]` and `[tokenizer]`: what is learned from, and how strings become ids."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import (
    COUNTED,
    TRAINED,
    Columns,
    Curriculum,
    NotNegative,
    Paths,
    PathText,
    Positive,
    Weights,
    check_stages,
)
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
        elsewhere="src src_file train_src path_train_src source_file train_source",
    )
    source_audio: Paths = setting(
        default=(),
        description="Instead of source: lists of recordings (.tsv), a line for each of target: path, or path, start "
        "and end in seconds; paths are relative to the list.",
        flag="--source-audio",
        changeable=True,
        files="pairs",
        since="0.2.0",
        before=(),
        needs=_PAIRS,
    )
    target: Paths = setting(
        default=(),
        description="Files of target lines, as many as there are of source.",
        flag="--target",
        changeable=True,
        files="pairs",
        elsewhere="tgt trg tgt_file train_tgt train_trg target_file train_target",
    )
    pairs: Paths = setting(
        default=(),
        description="Files of pairs, instead or besides: .tsv, .csv, .jsonl or .tmx, also compressed, or .parquet.",
        flag="--pairs",
        changeable=True,
        files="pairs",
        elsewhere="train_file",
    )
    columns: Columns | None = setting(
        default=None,
        description="Which columns of files of pairs are meant, source=2,target=3, or source=German,target=English by "
        "the first line; also keys of .jsonl and languages of .tmx.",
        chosen="the two that there are",
        flag="--columns",
        since="0.2.0",
        before=None,
        needs=_PAIRS,
    )
    dev_source: Paths = setting(
        default=(),
        description="Files of held-out source lines, for validation; split off training if there are none.",
        flag="--dev-source",
        changeable=True,
        files="pairs",
        elsewhere="valid_src dev_src validation_source valid_source val_source",
    )
    dev_source_audio: Paths = setting(
        default=(),
        description="Lists of held-out recordings, aligned with dev_target.",
        flag="--dev-source-audio",
        changeable=True,
        files="pairs",
        since="0.2.0",
        before=(),
        needs=_PAIRS,
    )
    dev_target: Paths = setting(
        default=(),
        description="Files of held-out target lines.",
        flag="--dev-target",
        changeable=True,
        files="pairs",
        elsewhere="valid_tgt valid_trg dev_tgt dev_trg validation_target valid_target val_target",
    )
    dev_pairs: Paths = setting(
        default=(),
        description="Files of held-out pairs, instead or besides.",
        flag="--dev-pairs",
        changeable=True,
        files="pairs",
        elsewhere="validation_file valid_file dev_file",
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
        description="Two-letter code of the source language; guessed from a file's suffix when it is one. Of .tmx and "
        "translations in .jsonl it is what is read.",
        flag="--source-language",
        content=frozenset({"run"}),
        needs=_PAIRS,
        elsewhere="source_lang src_lang",
        chosen="the suffix of the files, if it is one",
    )
    target_language: str | None = setting(
        default=None,
        description="Two-letter code of the target language; chooses the tokenizer of BLEU.",
        flag="--target-language",
        content=frozenset({"run"}),
        elsewhere="target_lang tgt_lang trg_lang",
        chosen="the suffix of the files, if it is one",
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
        elsewhere="src_seq_length max_source_positions max_src_len max_source_len",
    )
    max_target_tokens: Positive = setting(
        default=256,
        description="Pairs with a longer target are left out of training, and counted.",
        unit="tokens",
        elsewhere="tgt_seq_length max_target_positions max_target_length max_tgt_len max_target_len",
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
        elsewhere="max_ratio length_ratio src_tgt_ratio",
    )
    fuzzy_matches: NotNegative | None = setting(
        default=None,
        description="How many of the training pairs most like it each source is read with, their targets beside it; if "
        "unset 2 for 50,000 to 200,000 pairs of symbols of two sorts, else 0.",
        unit="pairs",
        before=0,
        chosen="by the number and kind of the pairs",
    )
    drop_duplicates: bool = setting(
        default=False, description="Whether one of each exactly repeated pair is kept, instead of all."
    )
    drop_overlap: bool = setting(
        default=False, description="Whether training pairs whose source or target is held out are left out."
    )
    shard_pairs: Positive = setting(
        default=1_000_000,
        description="A corpus of more pairs than this is prepared in shards of so many: in memory that does not grow "
        "with it, and going on where it was stopped.",
        unit="pairs",
        content=frozenset(),
        changeable=True,
        since="0.2.0",
        needs=_PAIRS,
    )
    repeat: tuple[Positive, ...] = setting(
        default=(),
        description="How often an epoch has each training file: source files first, then pairs; once if unset.",
        unit="times",
        before=(),
    )
    weights: Weights = setting(
        default=(),
        description="Weight of each training file, source files first, then pairs: its share of the pairs of an epoch "
        "is this over the sum; unset, each pair is seen once.",
        content=frozenset({"run"}),
        since="0.2.0",
        before=(),
        elsewhere="data_weights sampling_weights corpus_weights dataset_weights",
    )
    mixing_temperature: Annotated[float, Bounds(ge=1)] | None = setting(
        default=None,
        description="Instead of weights: files have shares as their size to the power of 1 / this; 1 is as they "
        "are, 5 nearly alike.",
        content=frozenset({"run"}),
        since="0.2.0",
        before=None,
        elsewhere="data_temperature corpus_temperature",
    )
    curriculum: Curriculum = setting(
        default=(),
        description="Instead of weights: stages, each with the update after which it begins and its weights, such as "
        "[[0, [1, 0]], [2000, [1, 1]]]. A stage begins a new epoch; with [] for weights it sees each pair once.",
        unit="updates",
        content=frozenset({"run"}),
        since="0.2.0",
        before=(),
        needs=({"model.family": TRAINED},),
        elsewhere="data_schedule mixing_schedule sampling_schedule",
    )

    def check(self) -> None:
        """See `Section.check`."""
        if self.columns is not None and not (self.pairs or self.dev_pairs or self.test_pairs or self.prepared):
            raise ValueError("columns are those of files of pairs (pairs, dev_pairs, test_pairs), and there are none")
        files = (*self.source, *self.source_audio, *self.pairs, *self.text)
        if self.repeat and len(self.repeat) != len(files):
            raise ValueError(f"repeat has {len(self.repeat)} numbers for {len(files)} training files")
        if self.weights and files and len(self.weights) != len(files):
            raise ValueError(f"weights has {len(self.weights)} numbers for {len(files)} training files")
        if self.weights and not any(self.weights):
            raise ValueError("weights are all 0, and no pair would ever be seen")
        check_stages(self.curriculum, len(files))
        mixed = [name for name in ("repeat", "weights", "mixing_temperature", "curriculum") if getattr(self, name)]
        if len(mixed) > 1:
            raise ValueError(f"{' and '.join(mixed)} each say how often files are seen: give one of them")
        if mixed and len(set(files)) < len(files):
            raise ValueError(f"a training file is named twice; {mixed[0]} alone says how often it is seen")

    @property
    def reads_languages(self) -> bool:
        """Whether the languages may say what of a file is read, for one names those of its texts."""
        files = (*self.pairs, *self.dev_pairs, *self.test_pairs)
        return any(kind in path.lower() for path in files for kind in (".tmx", ".jsonl"))

    @property
    def repeats(self) -> dict[str, int]:
        """How often each training file that `repeat` names is to be seen in an epoch."""
        return dict(zip((*self.source, *self.source_audio, *self.pairs, *self.text), self.repeat, strict=False))


class TokenizerConfig(Section, section="tokenizer", content=frozenset({"data", "run"})):
    """How strings become ids."""

    kind: Literal["auto", "bpe", "unigram", "word", "character"] = setting(
        default="auto",
        description="Kind of tokenizer; auto: word where the text is a small set of symbols between spaces, else bpe.",
        elsewhere="level tokenizer_type subword_type",
    )
    target_kind: Literal["auto", "bpe", "unigram", "word", "character"] | None = setting(
        default=None,
        description="Kind of tokenizer of the target; as kind if unset.",
        elsewhere="tgt_subword_type",
        chosen="as kind",
    )
    normalize: Literal["none", "blanks", "nfc", "nfkc", "nmt_nfkc"] | None = setting(
        default=None,
        description="How texts are written alike: none; blanks: spaces for odd blanks, nothing for outer ones and "
        "invisible characters; nfc, nfkc: also Unicode's normal form (of targets at most nfc, unless joint); nmt_nfkc: "
        "SentencePiece's rule.",
        chosen="nfkc for sources in pieces; for targets, or one vocabulary of both, nfc or blanks if it changes hardly "
        "any target; else none",
        since="0.2.0",
        before="none",
    )
    vocab_size: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = setting(
        default=None,
        description="Entries of each vocabulary; by the size of the corpus if unset.",
        unit="tokens",
        elsewhere="voc_limit dim_vocabs src_vocab_size tgt_vocab_size source_vocab_size target_vocab_size "
        "num_words max_vocab_size bpe_size num_merges",
        chosen="by the size of the corpus",
    )
    joint: bool | None = setting(
        default=None,
        description="Whether both sides have one vocabulary; by their measured overlap if unset.",
        needs=_PAIRS,
        elsewhere="share_vocab shared_vocab joined_dictionary joint_vocab joint_vocabulary shared_vocabulary joint_bpe",
        chosen="by the measured overlap of both sides",
    )
    min_count: Positive = setting(
        default=1,
        description="Of word and character: what occurs more rarely becomes <unk>.",
        unit="times",
        needs=({"tokenizer.kind": _LISTED}, {"tokenizer.target_kind": _LISTED}),
        elsewhere="voc_min_freq min_frequency min_freq word_min_count words_min_frequency "
        "src_words_min_frequency tgt_words_min_frequency threshold_src threshold_tgt thresholdsrc "
        "thresholdtgt",
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
        elsewhere="user_defined_symbols special_tokens additional_special_tokens",
    )

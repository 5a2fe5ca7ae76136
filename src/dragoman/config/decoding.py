"""The settings of `[decoding]`: how a model searches unless told otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import Hypotheses, Length, NotNegative, PositiveLength, Rate
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds

_SEARCHES = ({"decoding.sampling": (False,)},)
_RANKS = ({"decoding.sampling": (False,), "decoding.beam_size": Bounds(ge=2)},)
_DRAWS = ({"decoding.sampling": (True,)},)
_OPEN_LENGTH = ({"decoding.max_length": (None,)},)


class DecodingConfig(Section, section="decoding", changeable=True):
    """What `translate` does unless told otherwise; stored with the model."""

    beam_size: Hypotheses = setting(
        default=4,
        description="Hypotheses that a beam search keeps; 1 is greedy search.",
        unit="hypotheses",
        flag="--beam-size",
        needs=_SEARCHES,
        elsewhere="beam beam_width num_beams",
    )
    n_best: Hypotheses = setting(
        default=1,
        description="Outputs for each source, best first.",
        unit="outputs",
        flag="--nbest",
        elsewhere="nbest nbest_size num_return_sequences",
    )
    length_penalty: Annotated[float, Bounds(ge=0, le=50)] = setting(
        default=0.6,
        description="Alpha of the length penalty; `train` chooses that of a model of text on its held-out pairs.",
        flag="--length-penalty",
        needs=_RANKS,
        elsewhere="alpha beam_alpha lenpen length_penalty_alpha len_penalty",
    )
    length_penalty_formula: Literal["gnmt", "power", "reward"] = setting(
        default="gnmt",
        description="How outputs are ranked: log-probability / ((5 + length) / 6) ** alpha (gnmt, the paper), "
        "/ length ** alpha (power) or + alpha * length (reward).",
        needs=_RANKS,
    )
    min_length: Length = setting(
        default=0,
        description="Tokens that an output has at least.",
        unit="tokens",
        elsewhere="min_len min_output_length min_new_tokens",
    )
    max_length: PositiveLength | None = setting(
        default=None,
        description="Tokens of an output before </s>, at most; if unset, source tokens x max_length_factor + "
        "max_length_offset.",
        unit="tokens",
        elsewhere="max_len max_output_length max_new_tokens max_generation_length gen_max_length generation_max_length",
        chosen="source tokens x max_length_factor + max_length_offset",
    )
    max_length_factor: Annotated[float, Bounds(ge=0, le=1000)] = setting(
        default=1.0,
        description="Where max_length is unset: how many tokens of an output there may be for one of the source.",
        needs=_OPEN_LENGTH,
    )
    max_length_offset: Length = setting(
        default=50,
        description="Where max_length is unset: tokens more than that (the paper: 50).",
        unit="tokens",
        needs=_OPEN_LENGTH,
    )
    max_source_length: PositiveLength = setting(
        default=1024, description="Longer sources are cut there, with a warning.", unit="tokens"
    )
    end_at_limit: Literal["charged", "free", "none"] = setting(
        default="charged",
        description="What an output at its limit pays for the </s> that it must have: its probability (charged), or "
        "nothing (free, as in transformers); or it gets none that counts in its length (none). A prefix likewise.",
        before="charged",
        since="0.2.0",
    )
    beam_early_stopping: bool = setting(
        default=False,
        description="Whether a beam stops once beam_size outputs are finished, although a better one may follow.",
        before=False,
        since="0.2.0",
        needs=_RANKS,
    )
    no_repeat_ngram: Length = setting(
        default=0,
        description="No n-gram of this size may stand twice in one output; 0 is off.",
        unit="tokens",
        elsewhere="no_repeat_ngram_size block_ngram_repeat ngram_blocking",
    )
    loop_guard: Length = setting(
        default=3,
        description="An output that goes in circles up to max_length is searched for once more, with no n-gram of this "
        "size twice; 0 is off.",
        unit="tokens",
        needs=({"decoding.max_length": (None,), "decoding.no_repeat_ngram": (0,)},),
    )
    unknown: Literal["forbid", "copy", "keep"] = setting(
        default="forbid",
        description="What an unknown word of an output is: never written (forbid), the source word that it looked at "
        "(copy), or U+FFFD (keep).",
        flag="--unknown",
        before="keep",
        since="0.2.0",
        elsewhere=("allow_unk", "replace_unk"),
    )
    knn_weight: Rate | None = setting(
        default=None,
        description="Share of the datastore's neighbours in each prediction; if unset, the larger the nearer they are, "
        "chosen on held-out pairs.",
        chosen="by the distance of the neighbours, on held-out pairs",
    )
    knn_neighbours: Hypotheses = setting(
        default=64,
        description="Neighbours of the datastore that are asked at each token.",
        unit="neighbours",
        needs=({"decoding.knn_weight": (None,)}, {"decoding.knn_weight": Bounds(gt=0)}),
    )
    ctc_weight: Annotated[float, Bounds(ge=0, le=1)] | None = setting(
        default=None,
        description="Of a model that listens: share of what is read off frames (CTC) in each prediction; 1 leaves the "
        "decoder out. If unset 0.3 for models with model.ctc, 0 for others.",
        since="0.2.0",
        chosen="0.3 for models with ctc, else 0",
    )
    right_to_left_weight: Rate | None = setting(
        default=None,
        description="Share of the right-to-left score in the ranking of a beam's outputs; if unset 0.5 for models with "
        "model.right_to_left, 0 for others.",
        needs=_RANKS,
        chosen="0.5 for models with right_to_left, else 0",
    )
    sampling: bool = setting(
        default=False,
        description="Whether tokens are drawn instead of searching for the likeliest output.",
        flag="--sampling",
        elsewhere="do_sample sample output_sampling",
    )
    temperature: Annotated[float, Bounds(gt=0)] = setting(
        default=1.0,
        description="What logits are divided by before sampling: below 1 likely tokens are drawn more often.",
        needs=_DRAWS,
        elsewhere="random_sampling_temp sampling_temperature sampling_temp",
    )
    top_k: NotNegative = setting(
        default=0,
        description="Sampling draws among so many of the likeliest tokens; 0 is all.",
        unit="tokens",
        needs=_DRAWS,
        elsewhere="topk sampling_topk random_sampling_topk",
    )
    top_p: Annotated[float, Bounds(gt=0, le=1)] = setting(
        default=1.0,
        description="Sampling draws among the likeliest tokens that together have this probability.",
        needs=_DRAWS,
        elsewhere="topp sampling_topp random_sampling_topp nucleus_p",
    )
    sampling_seed: NotNegative = setting(
        default=1,
        description="Seed of sampling: the same one draws the same outputs.",
        needs=_DRAWS,
    )

    @property
    def is_beam_search(self) -> bool:
        """Whether a search goes on with several hypotheses, so that a length penalty matters."""
        return self.beam_size > 1 and not self.sampling

    @property
    def leaves_penalty_open(self) -> bool:
        """Whether nothing was said of the length penalty; nor of its formula, which has a scale of its own."""
        return not self.given & {"length_penalty", "length_penalty_formula"}

    def output_limit(self, length: int) -> int:
        """Return the most tokens of an output, `</s>` not counted, for a source of so many tokens of its own."""
        if self.max_length is not None:
            return self.max_length
        return int(length * self.max_length_factor) + self.max_length_offset

    @property
    def limit_in_words(self) -> str:
        """What limits the length of an output."""
        if self.max_length is not None:
            return f"{self.max_length:,} tokens"
        factor = "" if self.max_length_factor == 1 else f" x {self.max_length_factor:g}"
        return f"source tokens{factor} + {self.max_length_offset:,}"

    def check(self) -> None:
        """See `Section.check`."""
        if not self.sampling and self.n_best > self.beam_size:
            raise ValueError(f"n_best {self.n_best} is more than beam_size {self.beam_size}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}")

"""How transformers generates, as our search: `generation_config.json`, or the same names in `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import ModelError
from dragoman.files import MAX_SETTINGS_BYTES, read_json
from dragoman.importing.facts import Facts

FILE = "generation_config.json"
# Each with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1.0, 1), "encoder_repetition_penalty": (1.0, 1), "diversity_penalty": (0.0, 0),
    "num_beam_groups": (1,), "encoder_no_repeat_ngram_size": (0,), "typical_p": (1.0, 1), "min_p": (0.0, 0),
    "epsilon_cutoff": (0.0, 0), "eta_cutoff": (0.0, 0), "top_h": (), "penalty_alpha": (0.0, 0), "dola_layers": (),
    "guidance_scale": (1.0, 1), "exponential_decay_length_penalty": (), "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],), "forced_decoder_ids": ([],), "sequence_bias": ({},), "force_words_ids": ([],),
    "constraints": ([],), "watermarking_config": (), "stop_strings": (), "max_time": (), "token_healing": (False,),
    "force_bos_token_to_be_generated": (False,), "low_memory": (False,), "use_mtp": (False,),
    "remove_invalid_values": (False,),
}  # fmt: skip
# How it is computed or what is given back, not what is found.
_IDLE = (
    "cache_config cache_implementation compile_config continuous_batching_config disable_compile is_assistant "
    "max_cache_len max_matching_ngram_size num_assistant_tokens speculation_type "
    "num_assistant_tokens_schedule assistant_confidence_threshold assistant_early_exit "
    "assistant_ensemble_weight assistant_lookbehind target_lookbehind output_logits output_scores "
    "prompt_lookup_num_tokens prefill_chunk_size return_dict_in_generate _from_model_config bos_token_id"
)
_SEARCH = (
    "num_beams", "length_penalty", "early_stopping", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
    "no_repeat_ngram_size", "num_return_sequences", "do_sample", "temperature", "top_k", "top_p", "bad_words_ids",
    "renormalize_logits", "forced_eos_token_id", "forced_bos_token_id", "decoder_start_token_id", "eos_token_id",
    "pad_token_id",
)  # fmt: skip
_LONGEST = 1 << 16


class Generation(NamedTuple):
    """What a directory says of generating.

    Attributes:
        decoding: by the names of `DecodingConfig`.
        start: the id that outputs begin with.
        end: that ends them.
        pad: that fills them up.
        first: the id that each output is forced to begin with after `start`, if any.
        banned: ids that are taken out of each distribution, which is renormalised.
        never: ids that are forbidden, and keep their share of the distribution.
    """

    decoding: dict[str, Any]
    start: int
    end: int
    pad: int
    first: int | None
    banned: tuple[int, ...]
    never: tuple[int, ...]


def read_generation(directory: Path, config: Facts, most: int = _LONGEST) -> Generation:
    """Return how a directory generates.

    Args:
        directory: of transformers.
        config: its `config.json`, whose settings of generating count where there is no file of their own.
        most: positions of the longest output that the model has, its start counted.

    Raises:
        ModelError: a setting is none, or asks for what our search does not do; it is named.
    """
    file = directory / FILE
    told: dict[str, Any] = {}
    for name in (*_SEARCH, *_NEUTRAL):
        told[name] = config.get(name)
    config.skip(_IDLE.split())
    if file.exists():
        own = read_json(file, limit=MAX_SETTINGS_BYTES)
        ids = {name: told[name] for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id")}
        if own.get("bos_token_id") is not None:  # with which transformers begins then
            ids["decoder_start_token_id"] = own["bos_token_id"]
        facts = Facts({**ids, **{name: value for name, value in own.items() if value is not None}}, file)
    else:
        facts = Facts(told, config.file)
    for name, values in _NEUTRAL.items():
        facts.only(name, *values)
    facts.skip(_IDLE.split())
    found = _generation(facts, most)
    facts.finish()
    return found


def _generation(facts: Facts, most: int) -> Generation:
    pad, end = facts.number("pad_token_id"), _one_id(facts, "eos_token_id")
    start = facts.number("decoder_start_token_id", pad)
    renormalised = facts.flag("renormalize_logits", False)
    banned = _banned(facts)
    forced = facts.get("forced_eos_token_id")
    if isinstance(forced, list) and len(forced) == 1:
        forced = forced[0]
    if forced is not None and forced != end:
        raise facts.wrong("forced_eos_token_id", f"eos_token_id, {end}", forced)
    first = None if facts.get("forced_bos_token_id") is None else facts.number("forced_bos_token_id")
    decoding = {**_search(facts, most, ends=forced is not None), **_sampling(facts)}
    if renormalised and (decoding["min_length"] or decoding["no_repeat_ngram"]):
        raise facts.wrong("renormalize_logits", "false beside min_length or no_repeat_ngram_size", True)
    if renormalised:
        return Generation(decoding, start, end, pad, first, banned, ())
    return Generation(decoding, start, end, pad, first, (), banned)


def _search(facts: Facts, most: int, *, ends: bool) -> dict[str, Any]:
    beams, outputs = (facts.number(name, 1, least=1, most=1024) for name in ("num_beams", "num_return_sequences"))
    early = facts.get("early_stopping")
    if early not in (None, False, True):
        raise facts.wrong("early_stopping", "true or false", early)
    # Both count the start token, of which ours knows nothing, and the end.
    longest = facts.number("max_length", min(most, _LONGEST), least=2, most=_LONGEST)
    if "max_new_tokens" in facts:
        longest = facts.number("max_new_tokens", least=1, most=_LONGEST) + 1
    longest = min(longest, most)
    shortest = max(
        facts.number("min_length", 0, most=_LONGEST) - 1, facts.number("min_new_tokens", 0, most=_LONGEST), 0
    )
    limit = max(1, longest - 2 if ends else longest - 1)
    return {
        "beam_size": max(beams, outputs),
        "n_best": 1,
        "length_penalty": facts.rate("length_penalty", 1.0, most=50.0),
        "length_penalty_formula": "power",
        "beam_early_stopping": bool(early),
        "max_length": limit,
        "min_length": min(shortest, limit),
        "no_repeat_ngram": facts.number("no_repeat_ngram_size", 0, most=_LONGEST),
        "end_at_limit": "free" if ends else "none",
        "loop_guard": 0,
        "unknown": "keep",
    }


def _sampling(facts: Facts) -> dict[str, Any]:
    drawn = facts.flag("do_sample", False)
    values = {
        "sampling": drawn,
        "temperature": facts.rate("temperature", 1.0, least=1e-6, most=1e6),
        "top_k": facts.number("top_k", 50 if drawn else 0),
        "top_p": facts.rate("top_p", 1.0, least=1e-6),
    }
    return values if drawn else {}


def _one_id(facts: Facts, name: str) -> int:
    value = facts.get(name)
    if isinstance(value, list) and len(value) == 1 and type(value[0]) is int:
        return value[0]
    return facts.number(name)


def _banned(facts: Facts) -> tuple[int, ...]:
    """Ids that are forbidden alone; phrases are not known here."""
    words = facts.get("bad_words_ids")
    if words is None:
        return ()
    alone = isinstance(words, list) and all(
        isinstance(one, list) and len(one) == 1 and type(one[0]) is int for one in words
    )
    if not alone:
        raise facts.wrong("bad_words_ids", "lists of one id each", words)
    return tuple(dict.fromkeys(one[0] for one in words))


def check_never(never: tuple[int, ...], known: Mapping[int, str], file: Path) -> None:
    """Refuse forbidden ids that our search writes.

    Raises:
        ModelError: one is not among the `known` ids that it never writes.
    """
    for number in never:
        if number not in known:
            hint = "with renormalize_logits = true it can be taken"
            raise ModelError(
                "cannot take bad_words_ids", file=file, expected=f"{sorted(known)}", found=number, hint=hint
            )

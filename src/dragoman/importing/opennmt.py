"""OpenNMT-py 2 and 3: a checkpoint (`.pt`), or its tensors and settings as two files that hold nothing pickled.

Norms stand before the sub-layers and end the stacks; outputs begin with `<s>`; sources are read without `</s>`. What a
checkpoint says beside its tensors, options and vocabularies, lies as `opennmt.json` beside `model.safetensors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.errors import DataError, ModelError
from dragoman.importing.facts import Facts
from dragoman.importing.pieces import tokenizer_beside
from dragoman.importing.states import SAFE, read_checkpoint, read_state
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given, Names, Sizes, take_stack
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import read_tokens

SETTINGS = "opennmt.json"
_NUMBERED = "*_step_*.pt"
_STACKS = ("encoder", "decoder")
_PLACES = {"encoder": "encoder.transformer", "decoder": "decoder.transformer_layers"}
_LAYOUTS = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "marian"}
_ROTARY = -1  # what `max_relative_positions` means by it
# What changes what a model computes, with the values that are known here.
_ONLY: dict[str, tuple[Any, ...]] = {
    "model_task": ("seq2seq",), "data_task": ("seq2seq",), "model_type": ("text",), "encoder_type": ("transformer",),
    "decoder_type": ("transformer",), "layer_norm": ("standard",),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"), "parallel_residual": (False,), "shared_layer_norm": (False,),
    "num_experts": (0,), "sliding_window": (0,), "multiquery": (False,), "copy_attn": (False,),
    "generator_function": ("softmax", "log_softmax"), "n_src_feats": (0,), "relative_positions_buckets": (0,),
    "lora_layers": ([],), "lora_embedding": (False,), "quant_layers": ([],), "quant_type": ("",),
    "rotary_theta": (10000, 10000.0), "rotary_dim": (0,), "src_feats": ({}, [], "{}"),
}  # fmt: skip
# Of training, of texts, or of models that are refused anyway; none changes what a trained model computes.
_IDLE = (
    "aan_useffn accum_count accum_steps adagrad_accumulator_init adam_beta1 adam_beta2 add_ffnbias add_qkvbias "
    "alignment_heads alignment_layer apex_opt_level average_decay average_every avg_tok_max avg_tok_min batch_size "
    "batch_size_multiple batch_type bidir_edges both_embeddings bridge bridge_extra_node brnn bucket_size "
    "bucket_size_increment bucket_size_init cnn_kernel_width config context_gate copy_attn_force copy_attn_type "
    "copy_loss_by_seqlength coverage_attn data data_type decay_method decay_steps default_specials doc_length "
    "dropout_steps dump_fields dump_preds dump_transforms early_stopping early_stopping_criteria embeddings_type "
    "epochs exp exp_host feat_merge feat_vec_exponent feat_vec_size freeze_decoder freeze_encoder "
    "freeze_word_vecs_dec freeze_word_vecs_enc full_context_alignment fuzzy_corpus_ratio fuzzy_threshold fuzzy_token "
    "fuzzymatch_max_length fuzzymatch_min_length global_attention global_attention_function gpt2_pretok gpu_backend "
    "gpu_ranks gpu_verbose_level gpuid group_size input_feed insert_ratio isolated_tag keep_checkpoint "
    "label_smoothing lambda_align lambda_coverage langid learning_rate learning_rate_decay lm_prior_lambda "
    "lm_prior_model lm_prior_tau log_file log_file_level lora_alpha lora_dropout lora_rank loss_scale mask_length "
    "mask_ratio master_ip master_port max_context max_generator_batches max_grad_norm max_sent_length max_tags "
    "model_dtype n_edge_types n_node n_sample n_steps norm_numbers norm_quote_commas normalization "
    "num_experts_per_tok num_workers optim override_opts overwrite paired_etag paired_stag parallel_mode param_init "
    "param_init_glorot penn permute_sent_ratio poisson_lambda pool_factor post_remove_control_chars "
    "pre_replace_unicode_punct pre_word_vecs_dec pre_word_vecs_enc prefetch_factor prior_tokenization queue_size "
    "random_ratio replace_length report_every reset_optim residual response_patterns reuse_copy_attn "
    "reversible_tokenization rnn_type rotate_ratio same_char same_word save_checkpoint_steps save_config save_data "
    "save_format save_model scoring_debug scripts_nok scripts_ok seed shard_size share_decoder_embeddings "
    "share_embeddings share_vocab single_pass skip_empty_level src_delimiter src_embeddings src_eq_tgt "
    "src_feats_defaults src_feats_vocab src_ggnn_size src_lang src_onmttok_kwargs src_prefix src_seq_length "
    "src_seq_length_trunc src_spacy_language_model src_subword_alpha src_subword_nbest src_subword_type "
    "src_subword_vocab src_suffix src_term_stoken src_tgt_ratio src_vocab src_vocab_size src_vocab_threshold "
    "src_words_min_frequency start_decay_steps state_dim switchout_temperature tags_corpus_ratio tags_dictionary_path "
    "tensorboard tensorboard_log_dir term_corpus_ratio term_example_ratio term_source_delimiter termbase_path "
    "tgt_embeddings tgt_lang tgt_onmttok_kwargs tgt_prefix tgt_seq_length tgt_seq_length_trunc "
    "tgt_spacy_language_model tgt_subword_alpha tgt_subword_nbest tgt_subword_type tgt_subword_vocab tgt_suffix "
    "tgt_term_etoken tgt_term_stoken tgt_vocab tgt_vocab_size tgt_vocab_threshold tgt_words_min_frequency timeout "
    "tm_delimiter tm_path tokendrop_temperature tokenmask_temperature train_eval_steps train_from train_metrics "
    "train_steps truncated_decoder update_vocab upper_corpus_ratio use_ckpting valid_batch_size valid_metrics "
    "valid_steps verbose vocab_size_multiple w_bit warmup_steps world_size zero_out_prompt_loss"
)
# How `onmt_translate` searches with `-length_penalty none`; its other penalties count a token more than any here.
_SEARCH = {
    "beam_size": 5, "length_penalty": 0.0, "max_length_factor": 1.25, "max_length_offset": 5, "end_at_limit": "none",
    "loop_guard": 0, "unknown": "keep",
}  # fmt: skip


def is_opennmt(directory: Path) -> bool:
    """Return whether a directory has a checkpoint of OpenNMT-py, or what was made of one."""
    return (directory / SETTINGS).exists() or any(directory.glob(_NUMBERED))


def take_opennmt(directory: Path, *, unpickle: bool = False) -> Taken:
    """Return a checkpoint of OpenNMT-py in our terms.

    Raises:
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: options or weights cannot be taken; says which.
    """
    file, state, tree = _read(directory, unpickle=unpickle)
    vocab = _section(tree, "vocab", file)
    facts = Facts({**_section(tree, "opt", file), "data_task": vocab.get("data_task")}, file)
    given = Given(state, directory)
    source, target = (f"{stack}.embeddings.make_embedding.emb_luts.0.weight" for stack in _STACKS)
    d_model = (*given.shape(source), 0, 0)[1]
    model, sizes = _sizes(facts, d_model, bias=any(name.endswith(".linear_query.bias") for name in given.names))
    start = facts.text("decoder_start_token") or "<s>"
    own = vocab.get("decoder_start_token", start)
    if vocab.get("src_feats"):
        raise facts.wrong("src_feats", "none: words alone are read here", vocab["src_feats"])
    orders, sides = _sides(directory, facts, vocab, own if isinstance(own, str) else start)
    notes = _notes(facts)
    facts.skip(_IDLE.split())
    facts.finish()
    found: dict[str, Tensor] = {}
    for stack, size in zip(_STACKS, sizes, strict=True):
        end = f"{stack}.layer_norm"
        found |= take_stack(given, stack, f"{_PLACES[stack]}.{{}}", _names(stack), size, end=end)
        given.skip(f"{stack}.embeddings.make_embedding.pe.pe")
    if model["positions"] == "rotary" and facts.get("rotary_interleave") is False:
        found |= {name: _in_pairs(tensor, model["num_heads"]) for name, tensor in found.items()
                  if ".self_attention.projection." in name}  # fmt: skip
    rows = [len(vocab["src"]), len(vocab["tgt"])]
    output = first_of(given, "generator.0.weight", "generator.weight")
    bias = output.replace("weight", "bias")
    tables = [given.take(name, [size, d_model]) for name, size in ((source, rows[0]), (target, rows[1]),
                                                                  (output, rows[1]))]  # fmt: skip
    offsets = given.take(bias, [rows[1]]) if bias in given else None
    given.finish()
    tables[0] = _filled(tables[0], orders[0].size)
    made = take_tables(tables, offsets, orders)
    return Taken({**model, **made.model}, _SEARCH, sides, {**found, **made.state}, file, notes=notes)


def _read(directory: Path, *, unpickle: bool) -> tuple[Path, dict[str, Tensor], Mapping[str, Any]]:
    """The file that settings come from, the tensors, and what stands beside them."""
    file = directory / SETTINGS
    if file.exists():
        return file, read_state(directory), read_tokens(file)
    found = sorted(directory.glob("*.pt"))
    if len(found) != 1:
        expected = f"{SAFE} and {SETTINGS}, or one checkpoint"
        told = ", ".join(path.name for path in found[:4]) or "none"
        raise ModelError("it is not clear which checkpoint is meant", file=directory, expected=expected, found=told)
    state, data = read_checkpoint(found[0], unpickle=unpickle)
    return found[0], state, data


def _section(tree: Mapping[str, Any], name: str, file: Path) -> dict[str, Any]:
    found = tree.get(name)
    if not isinstance(found, dict):
        raise ModelError("a part of the checkpoint is missing", file=file, expected=name, found=type(found).__name__)
    return found


def _sizes(facts: Facts, d_model: int, *, bias: bool) -> tuple[dict[str, Any], list[Sizes]]:
    for name in ("encoder_type", "decoder_type"):
        if name not in facts:
            raise facts.wrong(name, "transformer", None)
    for name, values in _ONLY.items():
        facts.only(name, *values)
    for name in ("hidden_size", "rnn_size", "word_vec_size"):
        facts.only(name, d_model, -1, 0)
    for name in ("enc_hid_size", "dec_hid_size", "enc_rnn_size", "dec_rnn_size", "src_word_vec_size",
                 "tgt_word_vec_size"):  # fmt: skip
        facts.only(name, d_model)
    both = facts.number("layers", -1, least=-1, most=1000)
    layers = [facts.number(f"{side}_layers", 2, least=1, most=1000) for side in ("enc", "dec")]
    heads, d_ff = facts.number("heads", 8, least=1), facts.number("transformer_ff", 2048, least=1)
    facts.only("num_kv", 0, heads)
    if d_model % heads or d_model % 2 or d_model < 4:
        raise facts.wrong("heads", f"a divisor of an even width of 4 or more, {d_model}", heads)
    layers = [both if both > 0 else count for count in layers]
    model = {
        "family": "transformer", "d_model": d_model, "num_heads": heads, "d_ff": d_ff, "norm": "pre",
        "num_encoder_layers": layers[0], "num_decoder_layers": layers[1],
        "norm_eps": facts.rate("norm_eps", 1e-6, least=1e-12), "bias": bias,
        "activation": facts.choice("pos_ffn_activation_fn", {"relu": "relu", "gelu": "gelu"}, "relu"),
        **_positions(facts, d_model // heads), **{name: _dropout(facts, name) for name in
                                                  ("dropout", "attention_dropout")},
    }  # fmt: skip
    return model, [Sizes(count, d_model, d_ff, bias) for count in layers]


def _positions(facts: Facts, d_k: int) -> dict[str, Any]:
    """Sinusoids, with which embeddings are scaled; or rotary ones, without."""
    layout = facts.choice("position_encoding_type", _LAYOUTS, "SinusoidalInterleaved")
    pairs = facts.get("rotary_interleave")
    within = facts.get("max_relative_positions")
    if facts.flag("position_encoding", False):
        facts.only("max_relative_positions", 0)
        return {"positions": layout, "scale_embeddings": True}
    if within != _ROTARY:
        expected = "-1 (rotary), or position_encoding; distances that change values too, ALiBi and none are not here"
        raise facts.wrong("max_relative_positions", expected, within)
    if not isinstance(pairs, bool) or d_k % 2:
        raise facts.wrong("rotary_interleave", "true or false, and heads of an even width", pairs)
    return {"positions": "rotary", "scale_embeddings": False}


def _dropout(facts: Facts, name: str) -> float:
    """The last value of what may change while a model is trained."""
    value = facts.get(name)
    value = value[-1] if isinstance(value, list) and value else value
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
        raise facts.wrong(name, "a number from 0 to 1", value)
    return min(float(value or 0.0), 0.99)


def _names(stack: str) -> Names:
    parts = ("linear_query", "linear_keys", "linear_values", "final_linear")
    first, second = (".layer_norm", "") if stack == "encoder" else (".layer_norm_1", ".layer_norm_2")
    return Names(
        [f".self_attn.{part}" for part in parts], [f".context_attn.{part}" for part in parts],
        ".feed_forward.w_1", ".feed_forward.w_2", (first, second, ".feed_forward.layer_norm"),
    )  # fmt: skip


def _in_pairs(projection: Float[Tensor, "rows *rest"], heads: int) -> Float[Tensor, "rows *rest"]:
    """Queries and keys whose halves are rotated against each other as ones whose neighbours are; values as they are."""
    parts = [part.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2) for part in projection.chunk(3)[:2]]
    return torch.cat([*parts, projection.chunk(3)[2]])


def _filled(table: Float[Tensor, "given d_model"], rows: int) -> Float[Tensor, "{rows} d_model"]:
    """A table with rows of zeros for special tokens that it lacks, since no source has them."""
    return torch.cat([table, table.new_zeros(rows - len(table), table.shape[1])])


def _sides(
    directory: Path, facts: Facts, vocab: Mapping[str, Any], start: str
) -> tuple[tuple[Order, Order], TokenizerPair]:
    file, orders, sides = facts.file, [], []
    for side in ("src", "tgt"):
        listed = vocab.get(side)
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise DataError("a vocabulary is no list of tokens", file=file, expected=f"vocab.{side}")
        ids = {token: number for number, token in enumerate(listed)}
        if len(ids) < len(listed):
            raise DataError("the vocabulary names a token twice", file=file, expected=f"vocab.{side}")
        tokens, size = tokens_of(ids, file), len(listed)
        if side == "tgt":
            begin, end = need(tokens, start, file), need(tokens, "</s>", file)
        else:  # older vocabularies of sources have neither
            end = ids.get("</s>", size)
            begin, size = ids.get("<s>", end), max(size, end + 1)
        order = Order.of(tokens, size, pad=need(tokens, "<blank>", file), unk=need(tokens, "<unk>", file), start=begin,
                         end=end, file=file)  # fmt: skip
        orders.append(order)
        sides.append(_tokenizer(directory, facts, side, order))
    return (orders[0], orders[1]), TokenizerPair(sides[0], sides[1])


def _tokenizer(directory: Path, facts: Facts, side: str, order: Order) -> Tokenizer:
    told = facts.text(f"{side}_subword_model")
    names = [f"{side}.model", "sentencepiece.model"]
    if told is not None and Path(told).name:
        names = [Path(told).name, *names]  # beside the checkpoint, nowhere else
    needed = "sentencepiece" in _transforms(facts)
    return tokenizer_beside(directory, names, order, needed=needed, ends=side == "tgt")


def _transforms(facts: Facts) -> list[str]:
    found = facts.get("transforms")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _notes(facts: Facts) -> tuple[str, ...]:
    cut = [one for one in _transforms(facts) if one in ("bpe", "onmt_tokenize")]
    if cut:
        return (f"texts are to be cut by {cut[0]} first, as those of its training were, and outputs joined",)
    return ()

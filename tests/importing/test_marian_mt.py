"""MarianMT directories against transformers itself, on models built at random."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman import Translator
from dragoman.errors import ConfigError, ModelError
from dragoman.models import load_pretrained
from oracle.marian_directory import make_marian, texts

pytest.importorskip("transformers")
# Theirs: of a package that it would like, of values it has no use for, and of what torch will do away with.
pytestmark = pytest.mark.filterwarnings("ignore")

# Name -> what differs from the usual: shared vocabulary, SiLU, scaled embeddings, renormalised, forced end.
KINDS: dict[str, dict[str, Any]] = {
    "opus": {"tags": True},
    "separate": {"separate": True, "activation_function": "gelu", "generation": {"renormalize_logits": False}},
    "half": {"half": True, "activation_function": "relu", "scale_embedding": False, "d_model": 20,
             "generation": {"early_stopping": True}},
    "untied": {"tie_word_embeddings": False, "encoder_layers": 1, "decoder_layers": 3, "kind": "bpe",
               "generation": {"forced_eos_token_id": None, "length_penalty": 0.5}},
    "odd": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 7,
            "decoder_ffn_dim": 7, "generation": {"max_length": 8, "renormalize_logits": False}},
}  # fmt: skip


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    folder = tmp_path_factory.mktemp("marian")
    number = list(KINDS).index(request.param)
    theirs = make_marian(folder / "theirs", seed=number, **KINDS[request.param])
    dragoman.import_model(folder / "theirs", folder / "ours")
    return folder / "theirs", folder / "ours", theirs


def their_tokenizer(folder: Path) -> Any:
    from transformers import MarianTokenizer

    return MarianTokenizer.from_pretrained(folder)


def their_ids(tokens: Sequence[str], vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary[token] for token in tokens]


@pytest.mark.parametrize("made", KINDS, indirect=True)
def test_sources_have_the_same_tokens(made: tuple[Path, Path, Any]) -> None:
    folder, run, _ = made
    theirs, ours = their_tokenizer(folder), Translator.from_pretrained(run).tokenizers
    lines = [*texts(20, 7), "  two   blanks ", "Ünknown ﬁ", ">>xxx", *([">>fra<< mi ne"] if ours.source.marks else [])]
    names = {number: piece for piece, number in json.loads((folder / "vocab.json").read_text(encoding="utf-8")).items()}
    for line in lines:
        # Of separate vocabularies `convert_ids_to_tokens` knows that of targets only.
        assert [*ours.source.pieces(ours.source.encode(line)), "</s>"] == [names[one] for one in theirs(line).input_ids]
    for line in lines[:20]:
        assert ours.target.pieces(ours.target.encode(line)) == theirs.convert_ids_to_tokens(
            theirs(text_target=line).input_ids[:-1]
        )


@pytest.mark.parametrize("made", ["opus"], indirect=True)
def test_a_text_gives_no_control_token_and_outputs_show_no_tag(made: tuple[Path, Path, Any]) -> None:
    tokenizer = Translator.from_pretrained(made[1]).tokenizers.source
    assert Translator.from_pretrained(made[1]).tokenizers.shares_ids, "so that the tables stay one in training"
    assert not set(tokenizer.encode("</s> <pad> <s> mi </s>")) & {0, 2, 3}
    tagged = tokenizer.encode(">>fra<< mi ne")
    assert tokenizer.pieces(tagged)[0] == ">>fra<<"
    assert tokenizer.decode(tagged) == "mi ne"


def test_a_target_language_is_put_before_each_text(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", tags=True)
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", target_language="fra")
    tokenizer = Translator.from_pretrained(tmp_path / "ours").tokenizers.source
    assert tokenizer.encode("mi ne") == tokenizer.encode(">>fra<< mi ne")
    assert tokenizer.encode(">>deu<< mi ne")[1:] == tokenizer.encode("mi ne")[1:]
    with pytest.raises(ConfigError, match="no such target language") as error:
        dragoman.import_model(tmp_path / "theirs", tmp_path / "other", target_language="spa")
    assert set((error.value.expected or "").split(", ")) == {"fra", "deu"}


def test_a_call_asks_for_another_target_language_where_there_is_one(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", tags=True)
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", target_language="fra")
    translator = Translator.from_pretrained(tmp_path / "ours")
    for code in ("deu", ">>deu<<"):
        [asked], [tagged] = translator.translate(["mi"], target_language=code), translator.translate([">>deu<<mi"])
        assert (asked.source_tokens, asked.score) == (tagged.source_tokens, tagged.score)
    with pytest.raises(ConfigError, match="no such target language"):
        translator.translate(["mi"], target_language="spa")
    with pytest.raises(ConfigError, match="the model has one source language"):
        translator.translate(["mi"], source_language="eng")


def test_a_model_for_one_pair_says_so(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    with pytest.raises(ConfigError, match="the model has one target language"):
        Translator.from_pretrained(tmp_path / "ours").translate(["mi"], target_language="fra")


@pytest.mark.parametrize("made", KINDS, indirect=True)
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_logits_are_the_same(made: tuple[Path, Path, Any], dtype: torch.dtype, most: float) -> None:
    folder, run, model = made
    theirs, ours = their_tokenizer(folder), load_pretrained(run)
    tokenizers = Translator.from_pretrained(run).tokenizers
    model, module = model.to(dtype), ours.model.to(dtype)
    for stack in (model.model.encoder, model.model.decoder):  # theirs are rounded to float32 even then
        stack.embed_positions.weight.data = module.source_embedding.positions.table(128, torch.empty(0, dtype=dtype))
    lines = texts(12, 3)
    batch = theirs(lines, text_target=texts(12, 4), return_tensors="pt", padding=True)
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    with torch.no_grad():
        for row, line in enumerate(texts(12, 4)):
            read = tokenizers.encode_source(lines[row]).framed
            wrote = tokenizers.target.encode(line)
            labels = [one for one in batch.labels[row].tolist() if one not in (start, end)]
            decoder = torch.tensor([[start, *labels]])
            expected = model(batch.input_ids[row : row + 1], batch.attention_mask[row : row + 1],
                             decoder_input_ids=decoder).logits  # fmt: skip
            found = module(torch.tensor([read]), torch.tensor([[2, *wrote]]))
            columns = [theirs.convert_tokens_to_ids(token) if token in theirs.get_vocab() else -1
                       for token in tokenizers.target.pieces(range(len(tokenizers.target)))]  # fmt: skip
            if (folder / "target_vocab.json").exists():
                columns = [theirs.target_encoder.get(token, -1)
                           for token in tokenizers.target.pieces(range(len(tokenizers.target)))]  # fmt: skip
            kept = [ours_id for ours_id, their_id in enumerate(columns) if their_id >= 0 and ours_id != 0]
            difference = found[0][:, kept] - expected[0][:, [columns[one] for one in kept]]
            assert difference.abs().max() <= most
    model.float()


@pytest.mark.parametrize("made", KINDS, indirect=True)
@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("engine", ["native", "module"])
def test_searches_find_the_same(made: tuple[Path, Path, Any], beams: int, engine: str) -> None:
    folder, run, model = made
    theirs, lines = their_tokenizer(folder), texts(8, 5)
    vocabulary = theirs.target_encoder if theirs.separate_vocabs else theirs.get_vocab()
    translator = Translator.from_pretrained(run, engine=engine, precision="float32")
    for line, ours in zip(lines, translator.translate(lines, beam_size=beams), strict=True):
        got = model.generate(
            **theirs(line, return_tensors="pt"), num_beams=beams, output_scores=True, return_dict_in_generate=True
        )
        ids = got.sequences[0].tolist()[1:]
        assert their_ids(ours.tokens, vocabulary) == ids[: len(ids) - (ids[-1] == 0)]
        if beams > 1:
            assert math.isclose(ours.score, got.sequences_scores[0].item(), abs_tol=2e-5)


def test_pickled_weights_are_read_where_that_is_asked_for(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "safe")
    state = load_file(tmp_path / "theirs" / "model.safetensors")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    torch.save(state, tmp_path / "theirs" / "pytorch_model.bin")  # noqa: TID251
    with pytest.raises(ModelError, match="--unpickle"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", unpickle=True)
    assert (tmp_path / "ours" / "model.safetensors").read_bytes() == (
        tmp_path / "safe" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [("normalize_before", True), ("decoder_ffn_dim", 30), ("encoder_attention_heads", 1), ("position_type", "rope"),
     ("activation_function", "tanh"), ("repetition_penalty", 1.2)],
)  # fmt: skip
def test_what_would_compute_something_else_is_refused_by_its_name(name: str, value: Any, tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs")
    file = tmp_path / "theirs" / ("generation_config.json" if name == "repetition_penalty" else "config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(ModelError, match=name.replace("encoder_attention", "decoder_attention")):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")

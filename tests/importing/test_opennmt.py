"""Checkpoints of OpenNMT-py: its formulas, and CTranslate2 with its own converter, on random models."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.config import make_config
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.models import load_pretrained
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.training.tasks import task_of
from oracle import opennmt
from oracle.marian_directory import pieces_of, sentencepiece_model, texts
from oracle.opennmt import BOS, EOS, PAD, UNK

WORDS = [f"w{number}" for number in range(24)]
# What differs: biases and gelu and a table of sources without `<s>` and `</s>`; one vocabulary in one table; rotary.
# CTranslate2 adds 1e-5 to variances, whatever a checkpoint says.
KINDS: dict[str, dict[str, Any]] = {
    "usual": {"norm_eps": 1e-5},
    "older": {"pos_ffn_activation_fn": "gelu", "enc_layers": 1, "dec_layers": 2},
    "shared": {"position_encoding_type": "SinusoidalConcat", "heads": 4, "norm_eps": 1e-5},
    "rotary": {"position_encoding": False, "max_relative_positions": -1, "rotary_interleave": True},
    "halves": {"position_encoding": False, "max_relative_positions": -1, "rotary_interleave": False},
}


class Made(NamedTuple):
    """A checkpoint, what it was made of, and the run directory that it became."""

    theirs: Path
    run: Path
    model: opennmt.Model
    source: list[str]
    target: list[str]


def make(folder: Path, kind: str) -> Made:
    opt, number = opennmt.options(**KINDS[kind]), list(KINDS).index(kind)
    target = [UNK, PAD, BOS, EOS, *WORDS[4:], "x"]
    source = target if kind == "shared" else [UNK, PAD, *WORDS] if kind == "older" else [UNK, PAD, BOS, EOS, *WORDS]
    state = opennmt.random_state(opt, (len(source), len(target)), number, biases=kind == "older")
    if kind == "shared":
        name = "{}.embeddings.make_embedding.emb_luts.0.weight"
        for one in (name.format("decoder"), "generator.weight"):
            state[one] = state[name.format("encoder")].clone()
    vocab = {"src": source, "tgt": target, "data_task": "seq2seq", "decoder_start_token": BOS}
    opennmt.save(folder / "theirs", opt, vocab, state)
    (folder / "pickled").mkdir()
    opennmt.save_pickled(folder / "pickled" / "m_step_9.pt", opt, vocab, state)
    dragoman.import_model(folder / "theirs", folder / "ours")
    return Made(folder / "theirs", folder / "ours", opennmt.Model(state, opt), source, target)


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("opennmt"), request.param)


def lines(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices([*WORDS, "other"], k=draw.randint(1, 9))) for _ in range(count)]


def their_ids(line: str, vocabulary: list[str]) -> list[int]:
    return [vocabulary.index(word) if word in vocabulary else 0 for word in line.split()]


def test_logits_and_greedy_outputs_are_those_of_their_formulas(made: Made) -> None:
    found = load_pretrained(made.run)
    ours = found.model.double()
    assert found.config.bias is ("encoder.transformer.0.self_attn.linear_keys.bias" in made.model.state)
    tokenizers = TokenizerPair.load(made.run)
    order = [made.target.index(one) for one in (PAD, UNK, BOS, EOS)]
    order += [number for number in range(len(made.target)) if number not in order]
    translator = Translator.from_pretrained(made.run, precision="float32")
    for line in lines(6):
        theirs, draw = their_ids(line, made.source), random.Random(line)
        written = [2, *(draw.randrange(4, len(order)) for _ in range(5))]
        read = tokenizers.encode_source(line).framed
        assert len(read) == len(line.split())  # no end
        logits = ours(torch.tensor([read]), torch.tensor([written]))[0]
        expected = made.model.logits(theirs, [order[one] for one in written])[:, order]
        assert (logits - expected).abs().max() <= (1e-5 if made.model.opt["position_encoding"] else 1e-4)
        [output] = translator.translate([line], beam_size=1)
        greedy = made.model.greedy(theirs, int(1.25 * len(theirs)) + 5, 2, 3)
        assert list(output.tokens) == [made.target[one] for one in greedy]


@pytest.mark.parametrize("made", ["usual", "shared"], indirect=True)
def test_beams_find_what_ctranslate2_finds(made: Made, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    checkpoint = next((made.theirs.parent / "pickled").iterdir())
    converter = ctranslate2.converters.OpenNMTPyConverter(str(checkpoint), unsafe_deserialization=True)
    converter.convert(str(tmp_path / "peer"))
    peer = ctranslate2.Translator(str(tmp_path / "peer"), compute_type="float32", intra_threads=1)
    translator, given = Translator.from_pretrained(made.run, precision="float32"), lines(12, 2)
    for beam in (1, 4):
        found = translator.translate(given, beam_size=beam, max_length=8)
        rows = peer.translate_batch([line.split() for line in given], beam_size=beam, max_decoding_length=8,
                                    length_penalty=0, min_decoding_length=0, return_scores=True)  # fmt: skip
        for one, row in zip(found, rows, strict=True):
            assert list(one.tokens) == row.hypotheses[0]
            assert one.score == pytest.approx(row.scores[0], abs=1e-3)


@pytest.mark.parametrize("made", ["older"], indirect=True)
def test_every_engine_reads_sources_without_an_end(made: Made) -> None:
    given, found = lines(5, 3), {}
    for engine in ("module", "packed", "native"):
        translator = Translator.from_pretrained(made.run, engine=engine, precision="float32")
        found[engine] = [(one.tokens, round(one.score, 3)) for one in translator.translate(given)]
    assert found["module"] == found["packed"] == found["native"]


@pytest.mark.parametrize("made", ["older"], indirect=True)
def test_training_explaining_and_exporting_know_it_too(made: Made, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for side in "source", "target":
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines(30, 4)))
    tokenizers = TokenizerPair.load(made.run)
    files = {
        name: [str(tmp_path / name.removeprefix("dev_"))] for name in ("source", "target", "dev_source", "dev_target")
    }
    prepare(make_config({"data": files, "out": "unused"}), data, tokenizers=tokenizers)
    prepared = Prepared.open(data)
    batch = task_of(make_config({"out": "unused"}), prepared.tokenizers.source.specials).batch(
        prepared.train, [0, 1], None
    )
    lengths = [len(prepared.train.source(row)) for row in (0, 1)]
    assert batch.source_tokens == sum(lengths)
    assert batch.source.mask.sum(1).tolist() == lengths
    assert not bool((batch.source.ids == 3).any())
    trace = dragoman.explain(Translator.from_pretrained(made.run), "w5 w6")
    assert trace.source.pieces == ("w5", "w6")
    with pytest.raises(ConfigError, match="sources without `</s>`"):
        dragoman.export_model(made.run, "onnx", tmp_path / "onnx")
    pytest.importorskip("ctranslate2")
    check = dragoman.export_model(made.run, "ctranslate2", tmp_path / "peer").check
    assert check is not None
    assert check.equal == check.lines == 200


def test_a_sentencepiece_model_beside_it_cuts_the_texts(tmp_path: Path) -> None:
    model = sentencepiece_model(0, 50)
    vocab = {"src": [UNK, PAD, *pieces_of(model)], "tgt": [UNK, PAD, BOS, EOS, *pieces_of(model)]}
    opt = opennmt.options(enc_layers=1, hidden_size=8, word_vec_size=8, transforms=["sentencepiece"],
                          src_subword_model="far/away/sp.model")  # fmt: skip
    state = opennmt.random_state(opt, (len(vocab["src"]), len(vocab["tgt"])), 0)
    opennmt.save(tmp_path / "theirs", opt, vocab, state)
    (tmp_path / "theirs" / "sp.model").write_bytes(model)
    with pytest.raises(DataError, match=r"tgt\.model"):  # the other side has none
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "theirs" / "sp.model").rename(tmp_path / "theirs" / "sentencepiece.model")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    source, target = TokenizerPair.load(tmp_path / "ours").source, TokenizerPair.load(tmp_path / "ours").target
    text = texts(1, 2)[0]
    assert target.decode(target.encode(text)) == text
    assert (source.specials.source_end, target.specials.source_end) == ((), (3,))


@pytest.mark.parametrize("made", ["usual"], indirect=True)
def test_a_checkpoint_is_read_only_if_that_is_asked_for(made: Made, tmp_path: Path) -> None:
    pickled = made.theirs.parent / "pickled"
    with pytest.raises(ModelError, match="--unpickle"):
        dragoman.import_model(pickled, tmp_path / "ours")
    dragoman.import_model(pickled, tmp_path / "ours", unpickle=True)
    for path in made.run.iterdir():
        assert (tmp_path / "ours" / path.name).read_bytes() == path.read_bytes()


def test_a_checkpoint_that_calls_something_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path / "theirs")
    (tmp_path / "theirs" / "m_step_9.pt").write_bytes(b"cposix\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(ModelError, match="holds more than tensors"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", unpickle=True)
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["m_step_9.pt"]


@pytest.mark.parametrize(
    "changes",
    [{"decoder_type": "transformer_lm"}, {"model_task": "lm"}, {"copy_attn": True}, {"layer_norm": "rms"},
     {"max_relative_positions": 20, "position_encoding": False}, {"num_kv": 1}, {"n_src_feats": 1},
     {"max_relative_positions": -2, "position_encoding": False}, {"pos_ffn_activation_fn": "silu"},
     {"self_attn_type": "average"}, {"parallel_residual": True}, {"num_experts": 4}, {"something_new": 1}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_what_would_compute_something_else_is_refused_by_its_name(changes: dict[str, Any], tmp_path: Path) -> None:
    opt = opennmt.options(enc_layers=1, hidden_size=8, word_vec_size=8)
    vocab = {"src": [UNK, PAD, "a"], "tgt": [UNK, PAD, BOS, EOS, "a"]}
    opennmt.save(tmp_path / "theirs", {**opt, **changes}, vocab, opennmt.random_state(opt, (3, 5), 0))
    with pytest.raises(ModelError, match=next(iter(changes))):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    file = tmp_path / "theirs" / "opennmt.json"
    file.write_text(json.dumps({"opt": opt, "vocab": vocab}))
    assert dragoman.import_model(tmp_path / "theirs", tmp_path / "ours").kind == "opennmt"

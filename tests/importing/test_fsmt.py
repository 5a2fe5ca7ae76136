"""FSMT directories (fairseq's models of WMT 2019) against transformers itself, on models built at random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.models import load_pretrained
from dragoman.text.moses_tokenizer import MosesTokenizer

pytest.importorskip("transformers")
pytest.importorskip("sacremoses")
pytestmark = pytest.mark.filterwarnings("ignore")
LINES = (
    "Machine learning is great, isn't it?", "Er sagte: „Das kostet 1.234,50 € (netto)!“", "  two   blanks ",
    "", "well-known e.g. Mr. Smith's 5 % ... o'clock", "ａｂｃ，。１２ “quoted” – dash", "a\tb\u200bc\u00a0d\x00",
    "banana nana aaaa aaaaa", "C'est l'été & <b>fini</b> | [x]", "😀 Ж 猫",
)  # fmt: skip


def words(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    word = lambda: "".join(draw.choices("aabcdenu'-.", k=draw.randint(1, 6)))  # noqa: E731
    return [" ".join(word() for _ in range(draw.randint(1, 9))) for _ in range(count)]


def make(folder: Path, *, seed: int = 0, half: bool = False, **changes: Any) -> tuple[Any, Any]:
    """Save a random model with its tokenizer, and return both."""
    from transformers import FSMTConfig, FSMTForConditionalGeneration, FSMTTokenizer

    folder.mkdir()
    merges = [("a", "n"), ("an", "a"), ("n", "an"), ("a", "a"), ("e", "n</w>"), ("an", "a</w>"), ("b", "an"),
              ("d", "e"), ("i", "s</w>"), ("t", "h"), ("aa", "a")]  # fmt: skip
    letters = sorted({*"abcdefghiklmnoprstuvwy.,'-&;0123456789MCE"})
    pieces = [*letters, *(f"{one}</w>" for one in letters), *("".join(pair) for pair in merges), "&apos;s</w>"]
    draw, tokens = random.Random(seed), []
    for side in ("src", "tgt"):
        draw.shuffle(pieces)
        tokens.append(["<s>", "<pad>", "</s>", "<unk>", *pieces[: len(pieces) - (4 if side == "src" else 1)]])
        if changes.get("tie_word_embeddings") and side == "tgt":
            tokens[1] = tokens[0]
        (folder / f"vocab-{side}.json").write_text(json.dumps({one: place for place, one in enumerate(tokens[-1])}))
    (folder / "merges.txt").write_text("".join(f"{one} {other} {9 - n}\n" for n, (one, other) in enumerate(merges)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"], "do_lower_case": False}))
    torch.manual_seed(seed)
    config = FSMTConfig(
        langs=["en", "de"], src_vocab_size=len(tokens[0]), tgt_vocab_size=len(tokens[1]),
        **{"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "init_std": 0.3,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_length": 14,
           "max_position_embeddings": 64, **changes},
    )  # fmt: skip
    model = FSMTForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "layer_norm.weight")):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    (model.half() if half else model).save_pretrained(folder)
    if half:
        model = FSMTForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    files = {f"{side}_vocab_file": str(folder / f"vocab-{side}.json") for side in ("src", "tgt")}
    return model, FSMTTokenizer(["en", "de"], **files, merges_file=str(folder / "merges.txt"))


# What differs: stored in halves, odd shapes and one head, tied tables with other numbers of layers.
KINDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "half": {"half": True, "scale_embedding": False, "early_stopping": True, "length_penalty": 0.6},
    "odd": {"d_model": 18, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 7,
            "decoder_ffn_dim": 7, "activation_function": "gelu"},
    "tied": {"tie_word_embeddings": True, "encoder_layers": 1, "decoder_layers": 3},
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    folder = tmp_path_factory.mktemp("fsmt")
    model, tokenizer = make(folder / "theirs", seed=list(KINDS).index(request.param), **KINDS[request.param])
    dragoman.import_model(folder / "theirs", folder / "ours")
    return folder / "ours", model, tokenizer


def test_texts_are_cut_and_joined_as_theirs(made: tuple[Path, Any, Any], tmp_path: Path) -> None:
    run, _, theirs = made
    tokenizers = Translator.from_pretrained(run).tokenizers
    for line in (*LINES, *words(60, 3)):
        expected = [piece if piece in theirs.encoder else "<unk>" for piece in theirs._tokenize(line)]
        shown = [piece.replace("</w>", "\u2581") for piece in expected]
        assert tokenizers.source.pieces(tokenizers.source.encode(line)) == shown
        ids = tokenizers.target.encode(line)
        if tokenizers.target.unk not in ids:
            pieces = [piece.replace("\u2581", "</w>") for piece in tokenizers.target.pieces(ids)]
            assert tokenizers.target.decode(ids) == theirs.convert_tokens_to_string(pieces)
    tokenizers.save(tmp_path)
    again = MosesTokenizer.load(tmp_path / "moses.source.json")
    assert again.encode(LINES[0]) == tokenizers.source.encode(LINES[0])
    with pytest.raises(DataError, match="surrogate"):
        again.encode("\ud800")


def their_ids(run: Path, side: str, theirs: Any) -> list[int]:
    """Of each of our ids that stands for a piece there, what it is there; the special ones first."""
    vocabulary = theirs.encoder if side == "source" else {token: place for place, token in theirs.decoder.items()}
    tokens = json.loads((run / f"moses.{side}.json").read_text())["tokens"]
    return [1, 3, 2, 2, *(vocabulary[token.removesuffix("*")] for token in tokens[4:])]


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_logits_are_the_same(
    made: tuple[Path, Any, Any], dtype: torch.dtype, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, model, theirs = made
    # Theirs writes the least number of float64 into a float32.
    hidden = lambda table: torch.full_like(table, -1e30)  # noqa: E731
    monkeypatch.setattr("transformers.models.fsmt.modeling_fsmt.fill_with_neg_inf", hidden)
    model, module = model.to(dtype), load_pretrained(run).model.to(dtype)
    for stack in (model.model.encoder, model.model.decoder):  # theirs are rounded to float32 even then
        table = module.source_embedding.positions.table(64, torch.empty(0, dtype=dtype))
        stack.embed_positions.weight.data[2:66] = table
    tokenizers = Translator.from_pretrained(run).tokenizers
    source, target = their_ids(run, "source", theirs), their_ids(run, "target", theirs)
    with torch.no_grad():
        for line in words(12, 1):
            read, wrote = tokenizers.encode_source(line).framed, tokenizers.target.encode(line)
            decoder = torch.tensor([[2, *(target[one] for one in wrote)]])
            ids = torch.tensor([[source[one] for one in read]])
            # With a cache theirs would not hide what comes later.
            expected = model(ids, decoder_input_ids=decoder, use_cache=False).logits[0]
            found = module(torch.tensor([read]), torch.tensor([[2, *wrote]]))[0]
            kept = [0, 1, *range(3, len(target))]  # our <s> is a copy of their </s>
            assert (found[:, kept] - expected[:, [target[one] for one in kept]]).abs().max() <= most
    model.float()


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("engine", ["native", "module"])
def test_searches_find_the_same(made: tuple[Path, Any, Any], beams: int, engine: str) -> None:
    run, model, theirs = made
    translator = Translator.from_pretrained(run, engine=engine, precision="float32")
    target = their_ids(run, "target", theirs)
    names = translator.tokenizers.target.pieces(range(len(target)))
    shown = dict(zip(names, target, strict=True))
    lines = words(10, 5)
    for line, ours in zip(lines, translator.translate(lines, beam_size=beams), strict=True):
        got = model.generate(
            torch.tensor([theirs(line).input_ids]), num_beams=beams, output_scores=True, return_dict_in_generate=True
        )
        ids = got.sequences[0].tolist()[1:]
        assert [shown[token] for token in ours.tokens] == ids[: len(ids) - (ids[-1] == 2)]
        if beams > 1:
            assert ours.score == pytest.approx(got.sequences_scores[0].item(), abs=2e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("normalize_before", True), ("pad_token_id", 3), ("langs", ["en"]), ("forced_bos_token_id", 4), ("new", 1)],
)
def test_what_would_compute_something_else_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    make(tmp_path / "theirs")
    for file in ("config.json", "generation_config.json"):
        path = tmp_path / "theirs" / file
        if file == "config.json" or name in ("pad_token_id", "forced_bos_token_id"):
            path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(ModelError, match=name):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")


def test_it_is_told_that_the_library_is_missing_and_that_it_cannot_be_exported(
    made: tuple[Path, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"scripts of Moses cannot be exported"):
        dragoman.export_model(made[0], "ctranslate2", tmp_path / "out")
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    with pytest.raises(ConfigError, match=r"dragoman\[import\]"):
        Translator.from_pretrained(made[0]).translate(["a b"])

"""A model of OPUS-MT's sizes with random weights, imported, against CTranslate2 with the same model.

`bench_imported.py [SECONDS] [--nllb]`: 6 + 6 layers, width 512, 8 heads, 58,101 tokens; with `--nllb` the sizes of
NLLB-200's distilled model: 12 + 12 layers, width 1,024, 16 heads, 256,206 tokens. A beam of 4, outputs of 24 tokens,
one thread. What counts is one text and 32 texts (8 with `--nllb`), opening with a first text in a process of its own
(as imported and as `dragoman quantize` makes it), and the memory of that. Where pymarian is installed, it translates
with the same weights as Marian's archive has them, in float32: what it needs for less, it does not bring.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from as_marian import write_archive
from rows import Run, compare, print_row

TOKENS, LENGTH, BEAM = 58_101, 24, 4
TOKENS_NLLB, CODES = 256_206, ("__en__", "__de__")
SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sa", "to", "vi", "wu", "be", "di", "scho", "eau", "pra", "gli", "zu")
OPEN_OURS = """
import sys
from dragoman import Translator
t = Translator.from_pretrained(sys.argv[1], device="cpu", precision="int8")
t.translate([sys.argv[2]], min_length=24, max_length=24)
"""
OPEN_CTRANSLATE2 = """
import sys
import ctranslate2, sentencepiece
t = ctranslate2.Translator(sys.argv[1], compute_type="int8", intra_threads=1)
s = sentencepiece.SentencePieceProcessor(model_file=sys.argv[3])
tokens = sys.argv[4:5] + s.encode(sys.argv[2], out_type=str) + ["</s>"]
t.translate_batch([tokens], beam_size=4, min_decoding_length=24, max_decoding_length=24)
"""


def texts(count: int) -> list[str]:
    """Return texts of 20 words or fewer, the same at each call."""
    draw = random.Random(1)
    word = lambda: "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3)))  # noqa: E731
    return [" ".join(word() for _ in range(draw.randint(8, 20))) for _ in range(count)]


def make(folder: Path) -> None:
    """Save the model as transformers does, with a small SentencePiece model and names for all other tokens."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    folder.mkdir()
    model, pieces = made_pieces()
    names = ["</s>", "<unk>", *pieces]
    names += [f"token{number}" for number in range(len(names), TOKENS - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    pad = TOKENS - 1
    config = MarianConfig(
        vocab_size=TOKENS, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad,
    )  # fmt: skip
    torch.manual_seed(0)
    made = MarianMTModel(config)
    made.generation_config = GenerationConfig(
        bad_words_ids=[[pad]], decoder_start_token_id=pad, eos_token_id=0, pad_token_id=pad, forced_eos_token_id=0,
        max_length=512, num_beams=BEAM, renormalize_logits=True,
    )  # fmt: skip
    made.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))


def made_pieces() -> tuple[bytes, list[str]]:
    """Return a small SentencePiece model and its pieces."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(3000)), model_writer=model, vocab_size=300, hard_vocab_limit=False, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return model.getvalue(), [processor.id_to_piece(number) for number in range(3, len(processor))]


def make_nllb(folder: Path) -> None:
    """Save a model of NLLB's sizes as transformers does."""
    from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

    folder.mkdir()
    model, pieces = made_pieces()
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    names += [f"token{number}" for number in range(len(names), TOKENS_NLLB - len(CODES))]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": CODES}))
    config = M2M100Config(
        vocab_size=TOKENS_NLLB, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_attention_heads=16,
        decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096, max_position_embeddings=1024,
        scale_embedding=True,
    )  # fmt: skip
    torch.manual_seed(0)
    made = M2M100ForConditionalGeneration(config)
    made.generation_config = GenerationConfig(
        max_length=200, num_beams=BEAM, decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, bos_token_id=0,
        bad_words_ids=[[1]], renormalize_logits=True,
    )  # fmt: skip
    made.save_pretrained(folder)


def opened(script: str, *arguments: str) -> tuple[float, float]:
    """Return the seconds of a process and the most memory that it had, MiB."""
    command = [sys.executable, "-c", script, *arguments]
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - begun
    watch = f"import resource, subprocess; subprocess.run({command!r}, check=True)\n"
    watch += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    found = subprocess.run([sys.executable, "-c", watch], check=True, capture_output=True, text=True)
    return seconds, int(found.stdout.split()[-1]) / 1024


def made(folder: Path, nllb: bool) -> tuple[Path, list[str]]:
    """Make both models, and return the file of the pieces and what a source begins with."""
    import ctranslate2

    import dragoman

    theirs, ours, peer = (folder / name for name in ("theirs", "ours", "peer"))
    (make_nllb if nllb else make)(theirs)
    begun = time.perf_counter()
    source, target = ("en", "de") if nllb else (None, None)
    dragoman.import_model(theirs, ours, source_language=source, target_language=target)
    print_row("imported", {"what": "import", "seconds": time.perf_counter() - begun})
    if nllb:
        dragoman.export_model(ours, "ctranslate2", peer, check=False)
        return theirs / "sentencepiece.bpe.model", list(CODES[:1])
    ctranslate2.converters.TransformersConverter(str(theirs)).convert(str(peer))
    return theirs / "source.spm", []


def marian(folder: Path, lines: Sequence[Sequence[str]]) -> Run:
    """Return pymarian's translation of texts that are cut into pieces, with outputs of `LENGTH` tokens.

    Random weights end no output, so that each is as long as Marian lets it: a multiple of the longest source.
    """
    import pymarian  # pyrefly: ignore[missing-import]

    files = {"models": [str(folder / "model.npz")], "vocabs": [str(folder / "vocab.yml")] * 2}
    longest = max(map(len, lines)) + 1  # with </s>
    translator = pymarian.Translator(
        **files, beam_size=BEAM, cpu_threads=1, mini_batch=len(lines), maxi_batch=1, quiet=True,
        max_length_factor=(LENGTH - 0.5) / longest,
    )  # fmt: skip
    texts = [" ".join(line) for line in lines]
    return partial(translator.translate, texts)


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    import ctranslate2
    import sentencepiece

    import dragoman

    warnings.filterwarnings("ignore")
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("seconds", nargs="?", type=float, default=60.0)
    asked.add_argument("--nllb", action="store_true")
    given = asked.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pieces, before = made(folder, given.nllb)
        if not given.nllb:
            write_archive(folder / "theirs", folder / "marian")
        cut = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
        ours = dragoman.Translator.from_pretrained(folder / "ours", device="cpu", precision="int8")
        peers = {}
        for kind in ("int8", "float32"):
            peer = ctranslate2.Translator(str(folder / "peer"), compute_type=kind, intra_threads=1)
            peers[f"ctranslate2, {kind}"] = peer
        limits = {"min_length": LENGTH, "max_length": LENGTH}
        for count in (1, 8 if given.nllb else 32):
            lines = texts(count)
            tokens = [[*before, *cut.encode(line, out_type=str), "</s>"] for line in lines]
            runs: dict[str, Run] = {"dragoman, int8": partial(ours.translate, lines, **limits)}
            for kind, peer in peers.items():
                runs[kind] = partial(
                    peer.translate_batch, tokens, beam_size=BEAM, min_decoding_length=LENGTH, max_decoding_length=LENGTH
                )
            if not given.nllb and importlib.util.find_spec("pymarian"):
                runs["pymarian, float32"] = marian(
                    folder / "marian", [cut.encode(line, out_type=str) for line in lines]
                )
            for what, timing in compare(runs, budget=given.seconds / 2).items():
                print_row("imported", {"texts": count, "what": what, **timing})
        first = texts(1)[0]
        del ours, peers
        dragoman.quantize(folder / "ours", folder / "small")
        peer = (str(folder / "peer"), first, str(pieces), *before)
        commands = {
            "dragoman, int8": (OPEN_OURS, str(folder / "ours"), first),
            "dragoman, int8, quantized": (OPEN_OURS, str(folder / "small"), first),
            "ctranslate2, int8": (OPEN_CTRANSLATE2, *peer),
        }
        found = {what: [] for what in commands}
        for _ in range(5):  # one after the other, so that what else goes on falls on all
            for what, command in commands.items():
                found[what].append(opened(*command))
        for what, measured in found.items():
            seconds, memory = (statistics.median(column) for column in zip(*measured, strict=True))
            print_row("imported", {"what": f"open and one text: {what}", "seconds": seconds, "MiB": memory})


if __name__ == "__main__":
    main(sys.argv[1:])

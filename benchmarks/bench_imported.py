"""A model of OPUS-MT's sizes with random weights, imported, against CTranslate2 with the same model.

`bench_imported.py [SECONDS]`: 6 + 6 layers, width 512, 8 heads, 58,101 tokens; a beam of 4, outputs of 24 tokens, one
thread. What counts is one text and 32 texts, opening with a first text in a process of its own (as imported and as
`dragoman quantize` makes it), and the memory of that.
"""

from __future__ import annotations

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
from rows import Run, compare, print_row

TOKENS, LENGTH, BEAM = 58_101, 24, 4
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
tokens = s.encode(sys.argv[2], out_type=str) + ["</s>"]
t.translate_batch([tokens], beam_size=4, min_decoding_length=24, max_decoding_length=24)
"""


def texts(count: int) -> list[str]:
    """Return texts of 20 words or fewer, the same at each call."""
    draw = random.Random(1)
    word = lambda: "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3)))  # noqa: E731
    return [" ".join(word() for _ in range(draw.randint(8, 20))) for _ in range(count)]


def make(folder: Path) -> None:
    """Save the model as transformers does, with a small SentencePiece model and names for all other tokens."""
    import sentencepiece
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    folder.mkdir()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(3000)), model_writer=model, vocab_size=300, hard_vocab_limit=False, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(3, len(processor))]
    names = ["</s>", "<unk>", *pieces]
    names += [f"token{number}" for number in range(len(names), TOKENS - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model.getvalue())
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


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    import ctranslate2

    import dragoman

    warnings.filterwarnings("ignore")
    budget = float(arguments[0]) if arguments else 60.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "theirs")
        begun = time.perf_counter()
        dragoman.import_model(folder / "theirs", folder / "ours")
        print_row("imported", {"what": "import", "seconds": time.perf_counter() - begun})
        ctranslate2.converters.TransformersConverter(str(folder / "theirs")).convert(str(folder / "peer"))
        import sentencepiece

        cut = sentencepiece.SentencePieceProcessor(model_file=str(folder / "theirs" / "source.spm"))
        ours = dragoman.Translator.from_pretrained(folder / "ours", device="cpu", precision="int8")
        peers = {}
        for kind in ("int8", "float32"):
            peer = ctranslate2.Translator(str(folder / "peer"), compute_type=kind, intra_threads=1)
            peers[f"ctranslate2, {kind}"] = peer
        limits = {"min_length": LENGTH, "max_length": LENGTH}
        for count in (1, 32):
            lines = texts(count)
            tokens = [[*cut.encode(line, out_type=str), "</s>"] for line in lines]
            runs: dict[str, Run] = {"dragoman, int8": partial(ours.translate, lines, **limits)}
            for kind, peer in peers.items():
                runs[kind] = partial(
                    peer.translate_batch, tokens, beam_size=BEAM, min_decoding_length=LENGTH, max_decoding_length=LENGTH
                )
            for what, timing in compare(runs, budget=budget / 2).items():
                print_row("imported", {"texts": count, "what": what, **timing})
        first = texts(1)[0]
        del ours, peers
        dragoman.quantize(folder / "ours", folder / "small")
        peer = (str(folder / "peer"), first, str(folder / "theirs" / "source.spm"))
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

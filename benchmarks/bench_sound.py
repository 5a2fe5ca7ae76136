"""Sounds to words: seconds of work for a second of sound, and a model of S2T-small's sizes beside transformers'.

`bench_sound.py [SECONDS]`, about so many for each comparison. The models are as large as those of the demo's commands
(`make demo-sound`) and of the recipe for digits, and as Speech2Text of 31 million parameters; their weights are random,
outputs have a fixed length, so that everyone does the same work. The first two hear waveforms and search with their
heads (CTC), as trained ones do; the third reads 10 seconds of frames, with and without batch mates, as its peer does.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from bench_training import with_update
from rows import Run, compare, print_row, settle

from dragoman.audio import FrontEnd, Waveform
from dragoman.config import AudioConfig, DecodingConfig, ModelConfig, Placement
from dragoman.data import Batch
from dragoman.engines import ModuleEngine, choose_engine
from dragoman.fast import keep_memory, training_hidden
from dragoman.models import build_model
from dragoman.nn import Transformer
from dragoman.search import SearchRequest, search
from dragoman.sequences import SoundSource, SourceBatch, TargetBatch
from dragoman.sequences.source import positions_of
from dragoman.text import TokenizerPair
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.step import BatchLoss, accumulate_gradients
from dragoman.translation import Translator

RATE, SMALL = 16_000, {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_decoder_layers": 1, "conv_channels": 128}
# Layers of the encoder, words of the vocabulary, bins of a frame, seconds of a sound and words of its output.
SPOKEN = {"commands": (3, 400, 40, 3.0, 8), "digits": (4, 10, 80, 2.0, 4)}
VOCAB, MELS = 10_000, 80
S2T = ModelConfig(
    mels=MELS, target_vocab=VOCAB, d_model=256, d_ff=2048, num_heads=4, num_encoder_layers=12, num_decoder_layers=6,
    conv_channels=1024, norm="pre", positions="fairseq", tie_embeddings="decoder", dropout=0.1,
    attention_dropout=0.0, activation_dropout=0.0,
)  # fmt: skip
FRAMES, WORDS = 1000, 40
TRAINED, TRAINED_FRAMES, TRAINED_WORDS = 8, 600, 24


def transcriber(layers: int, words: int, mels: int, engine: str) -> Translator:
    """Return what hears with a model of such sizes."""
    vocabulary = Vocabulary.train("word", [f"word{number}" for number in range(words)])
    front_end = FrontEnd.of(AudioConfig(n_mels=mels, sample_rate=RATE), RATE)
    torch.manual_seed(1)
    sizes = {**SMALL, "num_encoder_layers": layers, "mels": mels, "target_vocab": len(vocabulary), "ctc": True,
             "positions": "rotary", "tie_embeddings": "decoder"}  # fmt: skip
    model = build_model(ModelConfig.from_dict(sizes)).eval()
    assert isinstance(model, Transformer)
    return Translator([model], TokenizerPair(vocabulary, vocabulary, sound=front_end), engine=engine)


def hearing(budget: float) -> None:
    """Print how long a sound takes by each engine, alone, with the default search, and how long without words."""
    for name, (layers, words, mels, seconds, length) in SPOKEN.items():
        sound = Waveform(torch.randn(int(RATE * seconds)) * 0.1, RATE)
        limits = {"min_length": length, "max_length": length}
        runs: dict[str, Run] = {}
        for engine in ("native", "packed", "module"):
            made = transcriber(layers, words, mels, engine)
            runs[made.backend.name] = functools.partial(made.translate, [sound], **limits)
        front_end = made.tokenizers.sound
        assert front_end is not None
        runs["frames alone"] = functools.partial(front_end.frames, [sound])
        for what, timing in compare(runs, budget=budget).items():
            factor = {"real_time_factor": timing["seconds"] / seconds}
            print_row("sound", {"model": name, "sound_seconds": seconds, "what": what, **timing, **factor})


def ours(precision: str) -> Callable[[Sequence[Any], int], Run]:
    """Return what makes a search of S2T-small's sizes, for sounds and a beam."""
    torch.manual_seed(1)
    model = build_model(S2T).eval()
    assert isinstance(model, Transformer)
    engine = ModuleEngine(model) if precision == "module" else choose_engine(model, Placement(precision=precision))[0]

    def make(sounds: Sequence[torch.Tensor], beam: int) -> Run:
        options = DecodingConfig(beam_size=beam, min_length=WORDS, max_length=WORDS, loop_guard=0)
        return functools.partial(search, engine, [SearchRequest(SoundSource.of(one), options) for one in sounds])

    return make


def peer_model() -> Any:
    """Return transformers' model of these sizes."""
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

    torch.manual_seed(1)
    sizes = Speech2TextConfig(
        vocab_size=VOCAB, d_model=256, encoder_layers=12, decoder_layers=6, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, encoder_attention_heads=4, decoder_attention_heads=4, conv_channels=1024, dropout=0.1,
        input_feat_per_channel=MELS, max_source_positions=6000, max_target_positions=1024,
    )  # fmt: skip
    return Speech2TextForConditionalGeneration(sizes).eval()


def theirs() -> Callable[[Sequence[Any], int], Run]:
    """Return what makes the same search by transformers."""
    model = peer_model()

    def make(sounds: Sequence[torch.Tensor], beam: int) -> Run:
        frames, mask = torch.stack(list(sounds)), torch.ones(len(sounds), FRAMES, dtype=torch.long)
        limits = {"num_beams": beam, "min_new_tokens": WORDS, "max_new_tokens": WORDS, "do_sample": False}
        return functools.partial(model.generate, input_features=frames, attention_mask=mask, **limits)

    return make


SYSTEMS: dict[str, Callable[[], Callable[[Sequence[Any], int], Run]]] = {
    "transformers": theirs,
    "dragoman": functools.partial(ours, "auto"),
    "dragoman, float32": functools.partial(ours, "float32"),
}


def decoding(budget: float) -> None:
    """Print searches beside transformers', and the most memory of a process that makes the largest one."""
    made = {name: make() for name, make in SYSTEMS.items()}
    for batch in (1, 8):
        sounds = list(torch.randn(batch, FRAMES, MELS))
        for beam in (1, 5):
            runs = {name: make(sounds, beam) for name, make in made.items()}
            for what, timing in compare(runs, budget=budget).items():
                factor = {"real_time_factor": timing["seconds"] / (batch * FRAMES / 100)}
                row = {"model": "S2T-small", "batch": batch, "beam": beam, "what": what, **timing, **factor}
                print_row("sound", {**row, "times_as_fast": 1 / timing["ratio"]})
    for name in SYSTEMS:
        command = [sys.executable, __file__, "--memory", name]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print_row("sound", {"model": "S2T-small", "batch": 8, "beam": 5, "what": f"memory: {name}",
                            "loaded_MiB": float(found[-2]), "peak_MiB": float(found[-1])})  # fmt: skip


def memory(name: str) -> None:
    """Print the most memory of this process before and after a search, MiB; Linux only."""
    run = SYSTEMS[name]()(list(torch.randn(8, FRAMES, MELS)), 5)
    loaded = most_memory()
    run()
    print(loaded, most_memory())


def most_memory() -> float:
    """Return the most memory that this process had so far, MiB; `getrusage` would count its parent's too."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def training(budget: float, shortest: int) -> None:
    """Print training steps on the same batch: forward, backward and Adam; its sounds have so many frames or more."""
    keep_memory()  # as `train` does, for both
    lengths = torch.linspace(shortest, TRAINED_FRAMES, TRAINED).long().tolist()
    targets = torch.randint(5, VOCAB, (TRAINED, TRAINED_WORDS))
    torch.manual_seed(1)
    model, peer = build_model(S2T).train(), peer_model().train()
    assert isinstance(model, Transformer)
    hidden = training_hidden(model)
    sounds = [torch.randn(length, MELS) for length in lengths]
    sources, labels = SourceBatch.of_frames(sounds), TargetBatch.of(targets.tolist())
    batch = Batch(sources, labels, sum(map(positions_of, lengths)), TRAINED * (TRAINED_WORDS + 1))
    frames, mask, wanted = sources.ids, sources.mask.long(), labels.labels.contiguous()

    def step() -> None:
        accumulate_gradients(BatchLoss(model, hidden), [batch], batch.target_tokens, smoothing=0.0)

    def peer_step() -> None:
        peer(input_features=frames, attention_mask=mask, labels=wanted).loss.backward()

    runs = {"transformers": with_update(peer, peer_step), "dragoman": with_update(model, step)}
    for what, timing in compare(runs, budget=budget).items():
        rate = {"frames_per_second": sum(lengths) / timing["seconds"]}
        row = {"model": "S2T-small", "shortest": shortest, "what": f"training: {what}", **timing, **rate}
        print_row("sound", {**row, "times_as_fast": 1 / timing["ratio"]})


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    warnings.filterwarnings("ignore")
    settle()
    if arguments[:1] == ["--memory"]:
        memory(arguments[1])
        return
    budget = float(arguments[0]) if arguments else 20.0
    hearing(budget)
    decoding(budget)
    for shortest in (TRAINED_FRAMES, TRAINED_FRAMES // 2):
        training(budget, shortest)


if __name__ == "__main__":
    main(sys.argv[1:])

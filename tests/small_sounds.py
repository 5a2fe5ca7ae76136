"""Sounds for tests: words that are tones, written as a list of recordings with a line for each."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import torch

from dragoman.audio import FrontEnd, Waveform
from dragoman.config import AudioConfig, DecodingConfig, ModelConfig
from dragoman.models import build_model, save_pretrained
from dragoman.models.description import Languages, save_tokenizers
from dragoman.text import TokenizerPair
from dragoman.text.vocabulary import Vocabulary
from dragoman.translation import Translator

TONES = {"low": 300, "mid": 800, "high": 1600, "top": 2600}
RATE = 8000


def speak(words: list[str], random: np.random.Generator, rate: int = RATE, noise: float = 0.003) -> np.ndarray:
    """Return a sound for some words, float [time] in [-1, 1], with a little noise."""
    parts = [np.zeros(rate // 20)]
    for word in words:
        size = int(rate * random.uniform(0.10, 0.14))
        pitch = TONES[word] * random.uniform(0.98, 1.02)
        parts += [np.sin(2 * np.pi * pitch * np.arange(size) / rate) * random.uniform(0.4, 0.8), np.zeros(rate // 25)]
    sound = np.concatenate(parts)
    return sound + random.normal(size=len(sound)) * noise


def write_wav(path: Path, sound: np.ndarray, rate: int = RATE, channels: int = 1) -> None:
    """Write a sound as 16 bits."""
    path.write_bytes(wav_bytes(sound, rate, channels))


def wav_bytes(sound: np.ndarray, rate: int = RATE, channels: int = 1) -> bytes:
    """Return a sound as a file of 16 bits."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.asarray(sound) * 32767).clip(-32768, 32767).astype("<i2").tobytes())
    return out.getvalue()


def write_spoken(folder: Path, name: str, count: int, seed: int = 0, most: int = 3) -> tuple[Path, Path]:
    """Write so many recordings of up to `most` words; return the list of them and the lines that they say."""
    random = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        words = [list(TONES)[draw] for draw in random.integers(0, len(TONES), random.integers(1, most + 1))]
        write_wav(folder / f"{name}{number}.wav", speak(words, random))
        lines.append(" ".join(words))
    listing, said = folder / f"{name}.tsv", folder / f"{name}.txt"
    listing.write_text("".join(f"{name}{number}.wav\n" for number in range(count)))
    said.write_text("".join(f"{line}\n" for line in lines))
    return listing, said


def waveform(*words: str, seed: int = 0) -> Waveform:
    """A sound of some words."""
    return Waveform(torch.from_numpy(speak(list(words), np.random.default_rng(seed))).float(), RATE)


def _parts(sizes: dict[str, object]) -> tuple[TokenizerPair, ModelConfig]:
    vocabulary, front_end = Vocabulary.train("word", [" ".join(TONES)]), FrontEnd.of(AudioConfig(), RATE)
    usual: dict[str, object] = {
        "mels": front_end.n_mels, "target_vocab": len(vocabulary), "d_model": 16, "num_heads": 2, "d_ff": 32,
        "num_encoder_layers": 1, "num_decoder_layers": 1, "positions": "rotary", "tie_embeddings": "decoder",
        "ctc": True,
    }  # fmt: skip
    torch.manual_seed(3)
    return TokenizerPair(vocabulary, vocabulary, sound=front_end), ModelConfig.from_dict({**usual, **sizes})


def listener(**sizes: object) -> Translator:
    """A translator of a model that listens and was never trained: what it writes does not matter."""
    tokenizers, config = _parts(sizes)
    return Translator([build_model(config).eval()], tokenizers, DecodingConfig(max_length=5), precision="float32")


def saved_listener(folder: Path, *, language: str | None = None, **sizes: object) -> Path:
    """The directory of such a model, of what is said in a language."""
    tokenizers, config = _parts(sizes)
    decoding, languages = DecodingConfig(min_length=1, max_length=5), Languages(source=language, target=language)
    save_pretrained(folder, build_model(config), config, decoding, languages)
    save_tokenizers(folder, tokenizers)
    return folder

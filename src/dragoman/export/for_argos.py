"""A model as a package of Argos Translate: an archive that holds a directory of CTranslate2 and a tokenizer."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.export import for_ctranslate2
from dragoman.export.card import write_card
from dragoman.export.given import Given
from dragoman.files import json_text, write_bytes
from dragoman.languages import language_name
from dragoman.protobuf import field

NAME = "Argos Translate"
QUANTIZATIONS = for_ctranslate2.QUANTIZATIONS
ENDING = ".argosmodel"
VERSION = "1.0"
_BYTE = 6  # of SentencePiece.type


def write(given: Given, directory: Path, quantization: str = "float32") -> None:
    """Write what the archive holds: one folder with `metadata.json`, `model/` and `sentencepiece.model`.

    Raises:
        ConfigError: the languages of the model are not known, or CTranslate2 cannot hold it.
    """
    source, target = given.languages.source, given.languages.target
    if not (source and target):
        hint = 'write them into config.json of the model: "languages": {"source": "de", "target": "en"}'
        raise ConfigError("the model does not name its languages, by which Argos Translate finds it",
                          file=given.directory, hint=hint)  # fmt: skip
    folder = directory / root(given)
    (folder / "model").mkdir(parents=True)
    for_ctranslate2.write(given, folder / "model", quantization)
    for side in ("source", "target"):
        os.unlink(folder / "model" / f"{side}.spm")
    write_bytes(folder / "sentencepiece.model", _both_sides(given))
    metadata = {
        "package_version": VERSION, "argos_version": "1.9", "type": "translate", "from_code": source,
        "from_name": language_name(source), "to_code": target, "to_name": language_name(target),
    }  # fmt: skip
    write_bytes(folder / "metadata.json", (json_text(metadata, indent=2) + "\n").encode())
    write_card(given, folder, library="argos-translate", tags=("argos-translate", "ctranslate2"),
               use=_USE.replace("{source}", source).replace("{target}", target))  # fmt: skip


def _both_sides(given: Given) -> bytes:
    """The tokenizer of sources, which joins the pieces of targets too: bytes it must know by name."""
    model, spelled = given.source.model, [f"<0x{byte:02X}>" for byte in range(256)]
    if "<0x00>" in given.source.names or "<0x00>" not in given.target.names:
        return model
    return b"".join([model, *(field(1, field(1, one) + field(3, _BYTE)) for one in spelled), field(2, field(35, True))])


def root(given: Given) -> str:
    """Return the name of the one folder in the archive."""
    return f"translate-{given.languages.source}_{given.languages.target}-{VERSION.replace('.', '_')}"


def notes(given: Given) -> list[str]:
    """Return what Argos Translate does otherwise, in words."""
    found = ["Argos Translate writes a blank for each _ of an output, and searches with a beam of 4 or more"]
    if not given.tokenizers.joint and given.tokenizers.source.kind in ("word", "character"):
        found.append("characters that are unknown in a source are several <unk> there")
    return found


def pack(directory: Path, out: Path) -> None:
    """Make an archive of all that is in a directory, where it may lie itself."""
    content = sorted(directory.rglob("*"))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in content:
            archive.write(path, path.relative_to(directory))


_USE = """import argostranslate.package, argostranslate.translate

argostranslate.package.install_from_path("FILE.argosmodel")
print(argostranslate.translate.translate("...", "{source}", "{target}"))"""

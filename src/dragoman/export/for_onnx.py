"""A model as a directory of ONNX graphs, laid out as Optimum and transformers.js have it.

The graphs hold every kind of model. Their inputs and outputs alone are those of MarianMT, whose name `config.json`
bears.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.export.card import write_card
from dragoman.export.for_marian import config, generation, write_tokenizer
from dragoman.export.given import Given, endless, refuse
from dragoman.export.onnx_model import decoder_model, encoder_model
from dragoman.export.tokenizer_json import tokenizer_json
from dragoman.files import json_text, write_bytes

NAME = "ONNX"
QUANTIZATIONS = ("float32", "int8")
_LARGEST = (1 << 31) - (1 << 20)  # of one protobuf message


def check(given: Given) -> None:
    """Refuse a model that does not fit one file, or whose sources have no end.

    Raises:
        ConfigError: says why.
    """
    size = 4 * sum(one.numel() for one in given.model.parameters())
    large = [f"weights of {size:,} bytes, where a file has 2 GiB at most"] if size > _LARGEST else []
    refuse(given, NAME, [*large, *endless(given)], "`--to ctranslate2` represents it")


def graph_names(quantization: str) -> tuple[str, str]:
    """Return the names of the files of encoder and decoder, in the folder `onnx`."""
    ending = "_quantized" if quantization == "int8" else ""
    return f"encoder_model{ending}.onnx", f"decoder_model_merged{ending}.onnx"


def write(given: Given, directory: Path, quantization: str = "float32") -> None:
    """Write `onnx/encoder_model.onnx`, `onnx/decoder_model_merged.onnx`, configurations and tokenizers.

    In int8 their names end in `_quantized`, which transformers.js looks for by itself.

    Raises:
        ConfigError: onnx is not installed.
    """
    check(given)
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        hint = "pip install 'dragoman[interop]', or pip install onnx"
        raise ConfigError("exporting to ONNX needs the package onnx, which is not installed", hint=hint) from error
    folder = directory / "onnx"
    folder.mkdir()
    for name, data in zip(graph_names(quantization), (encoder_model(given), decoder_model(given)), strict=True):
        if quantization == "int8":
            write_bytes(folder / "whole.onnx", data)
            _quantize(folder / "whole.onnx", folder / name)
        else:
            write_bytes(folder / name, data)
    for name, tree in (("config", config(given)), ("generation_config", generation(given))):
        write_bytes(directory / f"{name}.json", (json_text(tree, indent=2) + "\n").encode())
    write_tokenizer(given, directory)
    marks, begin = getattr(given.tokenizers.source, "marks", ()), given.begin[0]
    tree = tokenizer_json(given.source, given.tokenizers.source, marks=marks, begin=begin)
    write_bytes(directory / "tokenizer.json", tree.encode())
    if not given.tokenizers.joint:
        (directory / "target").mkdir()
        data = tokenizer_json(given.target, given.tokenizers.target).encode()
        write_bytes(directory / "target" / "tokenizer.json", data)
    write_card(given, directory, library="transformers.js", tags=("onnx",), use=_USE, language="js")


def _quantize(path: Path, out: Path) -> None:
    import logging

    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic  # pyrefly: ignore[missing-import]
    except ImportError as error:
        hint = "pip install 'dragoman[interop]', or pip install onnxruntime"
        raise ConfigError("graphs in int8 need the package onnxruntime, which is not installed", hint=hint) from error
    logging.getLogger().disabled, before = True, logging.getLogger().disabled  # it advises to prepare the graph
    try:
        quantize_dynamic(path, out, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
    finally:
        logging.getLogger().disabled = before
    path.unlink()


_USE = """import { pipeline } from "@huggingface/transformers";

const translate = await pipeline("translation", {name}, { dtype: "fp32" });
console.log(await translate("..."));"""

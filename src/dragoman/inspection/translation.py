"""Where a translation looked: its cross-attention as a picture."""

from __future__ import annotations

from pathlib import Path

from dragoman.canvas import Picture
from dragoman.inspection.pictures import attention_map
from dragoman.sequences import SourceBatch, frame_target
from dragoman.stages.words import reads_writes
from dragoman.translation import Translator, cross_attention


def draw_translation(translator: Translator, text: str, path: str | Path, *, layer: int | None = None) -> Picture:
    """Translate a text and draw which source pieces each output piece attended to, averaged over the heads of a layer.

    Args:
        translator: of one model, or the first of an ensemble.
        text: a source text.
        path: a .png or .svg file to write.
        layer: decoder layer, from 0; the last but one if None, or the only one.

    Raises:
        DragomanError: matplotlib is not installed (the extra `plot`).
    """
    result = translator.translate([text])[0]
    tokenizers = translator.tokenizers
    sources = SourceBatch.of([tokenizers.encode_source(text)], translator.device)
    written = frame_target(tokenizers.target.encode(result.text), tokenizers.target.specials)[1:]
    weights = cross_attention(translator.transformers[0], sources, [written], layer)[0]
    end = tokenizers.source.pieces(tokenizers.source.specials.source_end)
    target_pieces = tokenizers.target.pieces(written)
    [begin] = tokenizers.target.pieces([tokenizers.target.specials.bos])
    rows = [reads_writes(*pair) for pair in zip([begin, *target_pieces], target_pieces, strict=False)]
    title = f"{text} → {result.text}"
    return attention_map(weights.cpu().numpy(), [*result.source_tokens, *end], rows, path, title=title)

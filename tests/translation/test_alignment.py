"""Alignments against an argmax over observed attention, sentence by sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dragoman.nn import MultiHeadAttention
from dragoman.sequences import Source, SourceBatch, sources_of
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator, align, cross_attention
from end_to_end import small


def observed(translator: Translator, source: list[int], target: list[int]) -> list[Tensor]:
    """The cross-attention of each decoder layer, `[tgt, src]`, averaged over heads, for one sentence alone."""
    model, seen = translator.transformers[0], []
    stops = []
    for layer in model.decoder.layers:
        assert isinstance(layer.cross_attention, MultiHeadAttention)
        stops.append(layer.cross_attention.observe(lambda record: seen.append(record.weights[0].mean(0))))
    with torch.no_grad():
        model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target[:-1]]]))
    for stop in stops:
        stop()
    return seen


@pytest.mark.parametrize(("layers", "chosen"), [(1, 0), (2, 0), (3, 1)])
def test_each_piece_is_aligned_to_what_it_looked_at_most(layers: int, chosen: int) -> None:
    translator = small.translator(small.word_pair(), num_decoder_layers=layers)
    vocabulary = translator.tokenizers.source
    differ = 0
    for one in translator.translate(small.sentences(15), alignments=True, beam_size=2, min_length=1):
        source = vocabulary.encode(one.source)
        target = vocabulary.encode(one.text)
        weights = observed(translator, source, target)
        pairs = [(max(range(len(source)), key=lambda i: float(row[i])), j) for j, row in enumerate(weights[chosen])]
        assert one.alignment == tuple(pairs)
        differ += len({i for i, _ in pairs}) > 1
    assert differ > 3


def test_there_is_a_pair_in_range_for_each_output_piece() -> None:
    translator = small.translator(small.byte_pair())
    for one in translator.translate(["猫", *small.sentences(10), ""], alignments=True):
        assert one.alignment is not None
        assert [j for _, j in one.alignment] == list(range(len(one.tokens)))
        assert all(0 <= i < len(one.source_tokens) for i, _ in one.alignment)


def test_each_of_several_outputs_has_the_alignment_it_would_have_alone() -> None:
    translator = small.translator(small.word_pair())
    texts = small.sentences(6)
    found = translator.translate(texts, alignments=True, n_best=4)
    for text, one in zip(texts, found, strict=True):
        assert one.alignment == one.alternatives[0].alignment
        for other in one.alternatives:
            source, target = (small.word_pair().source.encode(line) for line in (text, other.text))
            (pairs,) = align(translator.transformers[0], [Source(tuple(source))], [target])
            assert other.alignment == tuple(pairs)
    assert any(one.alternatives[1].alignment != one.alignment for one in found)


def test_asking_changes_no_translation_and_batch_mates_no_alignment() -> None:
    translator = small.translator(small.word_pair())
    texts = small.sentences(15, seed=2)
    asked = translator.translate(texts, alignments=True)
    plain = translator.translate(texts)
    for text, one, other in zip(texts, asked, plain, strict=True):
        assert other.alignment is None
        assert (one.text, one.token_scores) == (other.text, other.token_scores)
        assert translator.translate([text], alignments=True)[0].alignment == one.alignment
    attention = translator.transformers[0].decoder.layers[0].cross_attention
    assert not attention._observers


def test_cross_attention_is_that_of_the_layer_asked_for_and_rows_sum_to_one() -> None:
    translator = small.translator(small.word_pair())
    model = translator.transformers[0]
    sources, targets = [[4, 5, 6], [7]], [[8, 9], [10, 11]]
    batch = SourceBatch.of(sources_of(sources))
    for layer in range(2):
        weights = cross_attention(model, batch, targets, layer)
        assert weights.sum(-1).sub(1).abs().max() <= 1e-12
        assert weights[1, :, 2:].abs().max() == 0
        for row in range(2):
            alone = observed(translator, sources[row], targets[row])[layer]
            assert torch.allclose(weights[row, :, : len(sources[row]) + 1], alone, rtol=0, atol=1e-12)


def test_nothing_is_aligned_to_an_empty_source_and_nothing_of_an_empty_target() -> None:
    model = small.translator(small.word_pair()).transformers[0]
    found = align(model, [Source(()), Source((4, 5))], [[6, 7], []])
    assert found == [[], []]

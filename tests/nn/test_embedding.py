from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dragoman.nn import Generator, InputEmbedding, SinusoidalPositions, TokenEmbedding, sinusoids


def slow_table(length: int, d_model: int, layout: str) -> np.ndarray:
    table = np.zeros((length, d_model))
    for position in range(length):
        for pair in range((d_model + 1) // 2):
            angle = position / 10000 ** (2 * pair / d_model)
            sine, cosine = (2 * pair, 2 * pair + 1)
            if layout == "concatenated":
                sine, cosine = pair, (d_model + 1) // 2 + pair
            table[position, sine] = math.sin(angle)
            if 2 * pair + 1 < d_model:
                table[position, cosine] = math.cos(angle)
    return table


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("d_model", [6, 7, 64])
def test_sinusoids_are_the_formula_in_double_precision(layout, d_model):
    table = sinusoids(300, d_model, layout=layout)
    assert table.dtype == torch.float64
    np.testing.assert_allclose(table.numpy(), slow_table(300, d_model, layout), atol=1e-12)
    assert torch.equal(sinusoids(5, d_model, layout=layout, first=40), table[40:45])


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="interleaved"):
        sinusoids(3, 4, layout="stacked")


def test_positions_have_no_longest_length_and_no_state():
    positions = SinusoidalPositions(8)
    assert positions.state_dict() == {}
    short = positions(torch.zeros(1, 3, 8))
    long = positions(torch.zeros(1, 3000, 8))
    assert torch.equal(long[:, :3], short)
    assert torch.equal(long[0].double(), sinusoids(3000, 8).float().double())
    assert torch.equal(positions(torch.zeros(1, 2, 8), start=2998), long[:, 2998:])


def test_a_change_of_precision_rebuilds_the_table_at_full_precision():
    positions = SinusoidalPositions(8)
    positions(torch.zeros(1, 4, 8))
    positions.double()
    assert torch.equal(positions(torch.zeros(1, 4, 8, dtype=torch.float64))[0], sinusoids(4, 8))


def test_tokens_are_scaled_and_padding_is_zero():
    tokens = TokenEmbedding(5, 16, pad=0)
    out = tokens(torch.tensor([[0, 3]]))
    assert (out[0, 0] == 0).all()
    assert torch.allclose(out[0, 1], tokens.weight[3] * 4.0)


def test_dropout_comes_after_positions():
    embedding = InputEmbedding(TokenEmbedding(5, 16, pad=0), SinusoidalPositions(16), dropout=0.5)
    dropped = embedding(torch.zeros(1, 50, dtype=torch.long))  # padding: only positions are left
    kept = dropped != 0
    assert 0.3 < kept.double().mean() < 0.7
    assert torch.allclose(dropped[kept], 2 * embedding.eval()(torch.zeros(1, 50, dtype=torch.long))[kept])


def test_word_dropout_leaves_out_whole_tokens_before_positions_are_added():
    embedding = InputEmbedding(TokenEmbedding(5, 16, pad=0), None, word_dropout=0.25)
    ids = torch.full((4, 500), 3)
    left_out = (embedding(ids) == 0).all(-1)
    assert abs(left_out.double().mean() - 0.25) < 0.05
    vectors = embedding.token_vectors(ids)
    assert torch.allclose(vectors, embedding.tokens(ids) / 0.75 * (vectors != 0).any(-1, keepdim=True))
    positions = SinusoidalPositions(16)
    embedding.positions = positions
    bare = (embedding(ids) - positions.table(500, embedding.tokens.weight)).abs().amax(-1) < 1e-6
    assert abs(bare.double().mean() - 0.25) < 0.05
    assert torch.equal(embedding.eval()(ids), positions(embedding.tokens(ids)))


def test_a_tied_generator_shares_the_table():
    tokens = TokenEmbedding(5, 16)
    generator = Generator(16, 5, tied=tokens)
    assert generator.weight is tokens.weight
    with pytest.raises(ValueError, match="tie"):
        Generator(16, 6, tied=tokens)

"""Learning targets in both directions: which decoder reads what, and that the number of rows changes nothing."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.models import BidirectionalTransformer, build_model, for_direction, read_targets
from dragoman.models.bidirectional import learned_directions
from dragoman.nn import Transformer
from dragoman.sequences import Direction, SourceBatch, TargetBatch, pad_rows, sources_of
from dragoman.text.tokenizer import EOS

LEFT, RIGHT = BOTH = tuple(Direction)
SOURCES = sources_of([[4, 5, 6], [7], [8, 9, 10, 11]])
TARGETS = [[12, 13], [14, 15, 16, 17], []]
SIZES = {"d_model": 12, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 2}


def built(decoder: str, **more: object) -> Transformer:
    torch.manual_seed(0)
    directions = {"right_to_left": True, "right_to_left_decoder": decoder}
    config = ModelConfig.from_dict(
        {"source_vocab": 20, "target_vocab": 20, "dropout": 0.0, **SIZES, **directions, **more}
    )
    model = build_model(config).double()
    assert isinstance(model, Transformer)
    return model


@pytest.fixture(params=["shared", "own"])
def model(request) -> Transformer:
    return built(request.param)


def test_a_decoder_of_its_own_is_another_one_beside_what_is_shared():
    model = built("own")
    assert isinstance(model, BidirectionalTransformer)
    other, own = for_direction(model, RIGHT), model.right_to_left_decoder
    assert for_direction(model, LEFT) is model
    assert other.decoder is own
    assert not {id(one) for one in own.parameters()} & {id(one) for one in model.decoder.parameters()}
    assert other.encoder is model.encoder
    assert other.generator is model.generator
    source, target = torch.tensor([[4, 5, 6, EOS]]), torch.tensor([[EOS, 7, 8]])
    assert not torch.allclose(other(source, target), model(source, target))
    for training in (True, False):
        assert for_direction(model.train(training), RIGHT).training is training


def test_a_shared_decoder_is_a_plain_model():
    model = built("shared")
    assert type(model) is Transformer
    assert for_direction(model, RIGHT) is for_direction(model, LEFT) is model
    assert not any("right_to_left" in name for name in model.state_dict())


def test_the_weights_of_both_decoders_have_their_names_and_are_drawn_one_after_the_other():
    own, shared = built("own"), built("shared")
    names = list(own.state_dict())
    plain = [name for name in names if not name.startswith("right_to_left_decoder.")]
    assert plain == list(shared.state_dict())
    others = [name.removeprefix("right_to_left_") for name in names[len(plain) :]]
    assert others == [name for name in plain if name.startswith("decoder.")]
    for name, weight in shared.state_dict().items():
        assert torch.equal(own.state_dict()[name], weight), "a further decoder leaves what was drawn before it"


def test_directions_together_are_each_alone(model):
    source, target = SourceBatch.of(SOURCES), TargetBatch.of(TARGETS, directions=BOTH)
    together = read_targets(model, source, target)
    for direction, found, real in zip(BOTH, together.chunk(2), target.input_mask.chunk(2), strict=True):
        alone = TargetBatch.of(TARGETS, directions=(direction,))
        assert (found - read_targets(model, source, alone))[real].abs().max() <= 1e-12
        plain = for_direction(model, direction).hidden(source.ids, alone.inputs, source.mask, alone.input_mask)
        assert (found - plain)[real].abs().max() <= 1e-12


@pytest.mark.parametrize("directions", [(LEFT,), (RIGHT,), BOTH, (RIGHT, LEFT)])
@pytest.mark.parametrize("candidates", [1, 2, 3])
def test_each_candidate_is_read_in_its_blocks_direction(model, directions, candidates):
    source = SourceBatch.of(SOURCES)
    targets = [[[*target, 5 + rank] for target in TARGETS] for rank in range(candidates)]
    each = [TargetBatch.of(some, directions=(one,)) for one in directions for some in targets]
    ids, mask = (torch.cat(rows) for rows in zip(*((one.ids, one.mask) for one in each), strict=True))
    found = read_targets(model, source, TargetBatch(ids, mask, directions, candidates))
    assert len(found) == len(SOURCES) * len(directions) * candidates
    for rows, one in zip(found.split(len(SOURCES)), each, strict=True):
        reads = for_direction(model, one.directions[0])
        expected = reads.hidden(source.ids, one.inputs, source.mask, one.input_mask)
        assert (rows - expected)[one.input_mask].abs().max() <= 1e-12


def test_a_second_candidate_from_left_to_right_stays_from_left_to_right(model):
    source, target = SourceBatch.of(SOURCES[:1]), pad_rows([[2, 12, 13, 3], [2, 14, 15, 3]])
    found = read_targets(model, source, TargetBatch(target, target != 0, (LEFT,), 2))
    expected = model.hidden(source.ids.repeat(2, 1), target[:, :-1])
    assert (found - expected).abs().max() <= 1e-12


@pytest.mark.parametrize("rows", [[0], [0, 1, 2, 0]])
def test_targets_of_other_sources_are_refused(model, rows):
    source, target = SourceBatch.of(SOURCES), TargetBatch.of([TARGETS[row] for row in rows], directions=BOTH)
    with pytest.raises(ValueError, match=f"targets of {len(rows)} sources were given with 3 sources"):
        read_targets(model, source, target)


def test_each_source_is_encoded_once(model):
    calls = []
    model.encoder.register_forward_hook(lambda module, given, gave: calls.append(len(gave)))
    read_targets(model, SourceBatch.of(SOURCES), TargetBatch.of(TARGETS, directions=BOTH))
    assert calls == [3]


def test_what_is_learned_is_what_the_settings_say():
    assert learned_directions(ModelConfig()) == (LEFT,)
    assert learned_directions(ModelConfig.from_dict({"right_to_left": True})) == BOTH

"""Models that listen in the native engine: what it finds is what the modules find, alone and among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine, NativeEngine, choose_engine
from dragoman.engines.native import NativeModel, NativeSearch, load_library
from dragoman.engines.native import model as native_model
from dragoman.engines.native.library import BAD_ARGUMENT, Library, ModelSpec
from dragoman.engines.native.searching import NativeSearcher
from dragoman.errors import ModelError
from dragoman.models import build_model
from dragoman.models.reading import read_blueprint
from dragoman.nn import Transformer
from dragoman.search import Hypothesis, SearchRequest, score_serial, search
from dragoman.sequences import SPECIALS, Direction, SoundSource, SourceBatch
from dragoman.translation.off_frames import with_head

FOUND = load_library()
pytestmark = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))
KERNELS = () if isinstance(FOUND, str) else tuple(kernel.name for kernel in FOUND.kernels)
VOCAB, MELS = 37, 5
SHAPES = (
    {},
    {"positions": "rotary-cross", "norm": "pre", "conv_channels": 6},
    {"positions": "alibi", "d_model": 19, "num_heads": 1, "num_encoder_layers": 0},
    {"positions": "fairseq", "conv_channels": 70, "tie_embeddings": "decoder"},
)


def small_listener(seed: int = 0, **changes: object) -> Transformer:
    """Random weights, sharp enough that outputs differ."""
    torch.manual_seed(seed)
    sizes: dict[str, object] = {
        "mels": MELS, "target_vocab": VOCAB, "d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "conv_channels": 24, "ctc": True,
    }  # fmt: skip
    model = build_model(ModelConfig.from_dict({**sizes, **changes}))
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def sounds(*lengths: int, seed: int = 1) -> list[SoundSource]:
    random = torch.Generator().manual_seed(seed)
    return [SoundSource.of(torch.randn(length, MELS, generator=random)) for length in lengths]


def requests(sources: Sequence[SoundSource], **options: object) -> list[SearchRequest]:
    asked = DecodingConfig.from_dict({"max_length": 6, **options})
    return [SearchRequest(source, asked, (7, 7, 9)[: row % 4]) for row, source in enumerate(sources)]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Assert that the outputs are the same and as likely."""
    for some, others in zip(found, expected, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=2e-4)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_steps_are_the_modules_steps(kernels: str, changes: dict[str, object]) -> None:
    model = small_listener(**changes)
    batch = SourceBatch.of(sounds(1, 2, 3, 4, 5, 21, 44, 530))
    engines = ModuleEngine(model), NativeEngine(model, kernels=kernels)
    states = [engine.start(batch) for engine in engines]
    for tokens in torch.randint(4, VOCAB, (3, len(batch))):
        rows = torch.randperm(len(batch))
        steps = [engine.step(state, tokens) for engine, state in zip(engines, states, strict=True)]
        torch.testing.assert_close(steps[1][0], steps[0][0], rtol=2e-4, atol=2e-4)
        states = [state.reorder(rows) for _, state in steps]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3, "n_best": 3, "no_repeat_ngram": 2}], ids=str)
@pytest.mark.parametrize("changes", SHAPES[:2], ids=str)
def test_searches_with_the_head_are_those_over_the_modules(
    share: float, options: dict[str, object], changes: dict[str, object]
) -> None:
    model = small_listener(3, **changes)
    asked = requests(sounds(9, 14, 33, 60), ctc_weight=share, **options)
    joint = with_head(model, ModuleEngine(model), share)
    native = NativeSearcher(NativeModel(read_blueprint(model)), head=True)
    assert_same(native.search(asked), search(joint, asked))
    plain = NativeSearcher(NativeModel(read_blueprint(model)))
    assert_same(plain.search(asked), search(ModuleEngine(model), asked))


def test_outputs_are_scored_as_over_the_modules() -> None:
    model, sources = small_listener(5), sounds(6, 30, 41)
    outputs = [[(5, 5, 6), (8,)], [()], [(9, 10, 11, 9)]]
    native = NativeSearcher(NativeModel(read_blueprint(model)), head=True)
    for share in (0.0, 0.4, 1.0):
        found = native.force(sources, outputs, Direction.LEFT_TO_RIGHT, ctc_weight=share)
        joint = with_head(model, ModuleEngine(model), share)
        owners = [row for row, some in enumerate(outputs) for _ in some]
        flat = [list(one) for some in outputs for one in some]
        expected = score_serial(joint, SourceBatch.of(sources), flat, owners=owners)
        for one, other in zip((one for some in found for one in some), expected, strict=True):
            # What cannot be said is finite where it is forced, so that it can be ranked.
            assert one == pytest.approx([max(value, -1e9) for value in other], abs=2e-4)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_neither_batch_mates_nor_threads_nor_the_time_of_joining_change_a_bit(precision: str) -> None:
    native = NativeModel(read_blueprint(small_listener(7)), precision)
    searcher = NativeSearcher(native, head=True)
    asked = [*requests(sounds(300, 9, 9), beam_size=4), *requests(sounds(70, seed=2), beam_size=1, ctc_weight=0.0)]
    alone = [searcher.search([one], threads=1)[0] for one in asked]
    for threads in (1, 2, 3):
        assert searcher.search(asked, threads) == alone
    running = NativeSearch(native)
    for one in asked:
        running.admit([one.source.content], one.options, [one.max_length], [one.prefix] if one.prefix else (),
                      begin=one.frame.begin, end=one.frame.end, never=one.never,
                      shares=[0.3 if one.options.ctc_weight is None else 0.0])  # fmt: skip
        running.step()
    while running.live:
        running.step()
    for finished, expected in zip(running.take(), alone, strict=True):
        assert [tuple(tokens[:-1]) for tokens, _ in finished.outputs] == [one.tokens for one in expected]
        assert [values for _, values in finished.outputs] == [list(one.token_log_probabilities) for one in expected]


def test_bytes_are_near() -> None:
    model = small_listener(11, d_model=64, d_ff=96, conv_channels=64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    batch, tokens = SourceBatch.of(sounds(40, 77)), torch.tensor([SPECIALS.bos] * 2)
    exact, near = (
        engine.step(engine.start(batch), tokens)[0] for engine in (ModuleEngine(model), NativeEngine(model, "int8"))
    )
    assert float((exact.exp() - near.exp()).abs().sum(1).max()) < 0.1
    assert not torch.equal(exact, near)


def test_it_is_chosen_by_itself() -> None:
    engine, reason = choose_engine(small_listener())
    assert (engine.name, "its library is compiled" in reason) == ("native", True)


def test_what_cannot_be_heard_is_refused() -> None:
    native = NativeModel(read_blueprint(small_listener()))
    wide, [sound] = torch.randn(8, MELS + 1), sounds(8)
    search = NativeSearch(native)
    given = {"begin": SPECIALS.bos, "end": SPECIALS.eos, "never": ()}
    with pytest.raises(ValueError, match="shape"):
        search.admit([wide], DecodingConfig(), [3], **given)
    with pytest.raises(TypeError, match="float32"):
        search.admit([sound.frames.double()], DecodingConfig(), [3], **given)
    with pytest.raises(ValueError, match="reads frames"):
        search.admit([[4, 5]], DecodingConfig(), [3], **given)
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share"):
            search.admit([sound.frames], DecodingConfig(), [3], **given, shares=[share])
    headless = NativeSearch(NativeModel(read_blueprint(small_listener(ctc=False))))
    with pytest.raises(ValueError, match="reads off frames"):
        headless.admit([sound.frames], DecodingConfig(), [3], **given, shares=[0.3])
    with pytest.raises(ModelError, match="NaN"):
        NativeSearcher(native, head=True).search(requests([SoundSource.of(sound.frames * float("nan"))]))


def test_a_description_that_does_not_fit_together_is_refused() -> None:
    assert isinstance(FOUND, Library)
    codes: list[int] = []

    class Spoiling(Library):
        def __init__(self, change: Callable[[ModelSpec], None]) -> None:
            self.change, self.model = change, self.spoil

        def spoil(self, spec: Any, handle: Any) -> int:
            self.change(spec._obj)
            codes.append(FOUND.model(spec, handle))
            return codes[-1]

        def check(self, code: int) -> None:
            raise RuntimeError

    changes: list[Callable[[ModelSpec], None]] = [
        *(lambda spec, mels=mels: setattr(spec, "mels", mels) for mels in (0, -1, MELS + 1, 2**31 - 1)),
        *(lambda spec, blank=blank: setattr(spec, "blank", blank) for blank in (-2, -1, VOCAB)),
        *(lambda spec, out=out: setattr(spec.matrices[0], "out", out) for out in (0, -2, 23, 2**31 - 1)),
        lambda spec: setattr(spec, "cross", 0),
        lambda spec: setattr(spec.source, "layout", 99),
        lambda spec: setattr(spec.source, "scale", float("nan")),
    ]
    for change in changes:
        with pytest.raises(RuntimeError):
            native_model._packed(read_blueprint(small_listener()), Spoiling(change), "float32", 0)
    assert codes == [BAD_ARGUMENT] * len(changes)


def test_a_sound_of_nothing_is_read() -> None:
    model, asked = small_listener(13), requests(sounds(0, 1), beam_size=2)
    native = NativeSearcher(NativeModel(read_blueprint(model)), head=True)
    assert native.search(asked)[1] == native.search(asked[1:])[0]
    assert all(native.search(asked))

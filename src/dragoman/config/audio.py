"""The settings of `[audio]`: how recordings become frames, and what training does to them."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds

FRAMES_A_SECOND = 100
# SpecAugment (Park et al. 2019) as fairseq's policies have it: frequency masks and how many of 80 bins each hides at
# most, time masks and how many frames, and the share of a recording that one of them hides at most.
MASKS: dict[str, tuple[int, int, int, int, float]] = {
    "none": (0, 0, 0, 0, 0.0),
    "lb": (1, 27, 1, 100, 1.0),
    "ld": (2, 27, 2, 100, 1.0),
    "sm": (2, 15, 2, 70, 0.2),
    "ss": (2, 27, 2, 70, 0.2),
}


class AudioConfig(Section, section="audio", content=frozenset({"data", "run"})):
    """How recordings become frames. Frames of 25 ms begin every 10 ms."""

    sample_rate: Annotated[int, Bounds(ge=1000, le=192_000)] | None = setting(
        default=None,
        description="Samples a second of what the model hears; recordings of other rates are resampled.",
        unit="Hz",
        since="0.2.0",
        before=None,
        chosen="that of the first training recording, 16000 at most",
    )
    n_mels: Annotated[int, Bounds(ge=8, le=256)] | None = setting(
        default=None,
        description="Mel bins of each frame.",
        unit="bins",
        since="0.2.0",
        before=None,
        elsewhere="num_mel_bins num_mels input_feat_per_channel",
        chosen="80, or 40 below 16000 Hz",
    )
    low_frequency: Annotated[float, Bounds(ge=0)] = setting(
        default=20.0,
        description="Where the lowest mel bin begins.",
        unit="Hz",
        since="0.2.0",
        before=20.0,
        elsewhere="low_freq f_min fmin",
    )
    high_frequency: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Where the highest mel bin ends.",
        unit="Hz",
        since="0.2.0",
        before=None,
        elsewhere="high_freq f_max fmax",
        chosen="half the sample rate",
    )
    dynamic_range: Annotated[float, Bounds(gt=0)] | None = setting(
        default=80.0,
        description="How far below a sound's loudest mel bin its others are heard; what is softer counts as that soft, "
        "so that digital silence is like a silent room. None: as soft as they are.",
        unit="dB",
        since="0.2.0",
        before=None,
        elsewhere="top_db max_db_range",
    )
    max_seconds: Annotated[float, Bounds(gt=0, le=3600)] = setting(
        default=30.0,
        description="Longer recordings are left out of training, and counted.",
        unit="seconds",
        since="0.2.0",
        before=30.0,
    )
    spec_augment: Literal["none", "lb", "ld", "sm", "ss"] = setting(
        default="ss",
        description="What training hides of each recording anew in each epoch, by the names of fairseq's policies: "
        "bands of frequencies and stretches of time, few (lb) or more (ld), or at most a fifth of the time (sm, ss).",
        content=frozenset({"run"}),
        since="0.2.0",
        before="ss",
        elsewhere="specaugment",
    )
    perturb: Literal["none", "speed", "everything"] = setting(
        default="none",
        description="What training does to the sound itself of each recording anew in each epoch: speed plays it 5 % "
        "slower, as it is or 5 % faster; everything also changes loudness, and adds silence, a room or noise.",
        content=frozenset({"run"}),
        since="0.2.0",
        before="none",
        elsewhere="speed_perturb perturb_factors",
    )

    def check(self) -> None:
        """See `Section.check`."""
        half = None if self.sample_rate is None else self.sample_rate / 2
        if half is not None and (self.high_frequency or half) > half:
            raise ValueError(f"high_frequency {self.high_frequency:g} is more than half the sample rate, {half:g}")
        if self.high_frequency is not None and self.high_frequency <= self.low_frequency:
            raise ValueError(
                f"high_frequency {self.high_frequency:g} is not above low_frequency {self.low_frequency:g}"
            )

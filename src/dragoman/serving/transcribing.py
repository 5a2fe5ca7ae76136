"""From a recording to what is said in it: decoded, cut at silences, searched beside the texts and sounds of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dragoman.errors import DataError
from dragoman.jobs import SoundJob, Transcribed, TranscribedPart
from dragoman.serving.faults import RequestError, in_words
from dragoman.serving.registry import Registry, ServedModel
from dragoman.serving.routes import UNKNOWN
from dragoman.serving.service import found_of, submitted
from dragoman.serving.settings import ServeSettings
from dragoman.text.sentences import Segment as Gap
from dragoman.text.sentences import join_text
from dragoman.translation import Translation, Translator

if TYPE_CHECKING:
    from dragoman.audio.segments import Segment
    from dragoman.audio.waveform import Waveform
    from dragoman.config import DecodingConfig

DECODED_AT_ONCE = 2
USUAL_RATE = 48_000  # Hz; of a sound at a higher one fewer seconds are taken, in as much memory


class Transcribing:
    """Writes down recordings with the models of a registry.

    Args:
        registry: the models.
        settings: the limits.
    """

    def __init__(self, registry: Registry, settings: ServeSettings) -> None:
        self.registry, self._limits = registry, settings.limits
        self._decoders = asyncio.Semaphore(DECODED_AT_ONCE)

    async def transcribe(self, job: SoundJob, spend: Callable[[float], None]) -> Transcribed:
        """Write down a recording.

        Args:
            job: the recording, and how.
            spend: is told how many seconds it has, before it is searched; may raise.

        Raises:
            RequestError: it is no sound, beyond the limits, or no model hears it.
            OverloadError: too much waits already.
            TimeoutError: it took too long.
            DragomanError: an option is wrong.
        """
        if (asked := max(job.options.get(name) or 0 for name in ("beam_size", "n_best"))) > self._limits.beam_size:
            raise RequestError(413, "too_much", f"a beam of {asked:,}, more than {self._limits.beam_size:,}")
        model = self.registry.listener(job.source, job.target, job.model)
        async with asyncio.timeout(self._limits.translate_seconds), self.registry.use(model) as scheduler:
            translator = scheduler.translator
            options = _checked_options(translator, job)
            async with self._decoders:
                sound, parts = await asyncio.to_thread(self._decoded, job.data, translator)
            spend(sound.seconds)
            given = [part.of(sound) for part in parts]
            found = await found_of(await submitted(partial(scheduler.submit, given, options))) if given else []
            return await asyncio.to_thread(_told, model, translator, sound, parts, found, job.words)

    def _decoded(self, data: bytes, translator: Translator) -> tuple[Waveform, list[Segment]]:
        """The samples of a file, and the parts of them in which somebody speaks."""
        from dragoman.audio.reading import TooLongError, read_audio
        from dragoman.audio.segments import cut_at_silences

        assert translator.tokenizers.sound is not None
        most = self._limits.audio_seconds
        try:
            sound = read_audio(
                data, sample_rate=translator.tokenizers.sound.sample_rate, limit_seconds=most,
                limit_samples=int(most * USUAL_RATE),
            )  # fmt: skip
        except DataError as error:
            told = in_words(error)
            if isinstance(error, TooLongError):
                raise RequestError(413, "sound_too_long", told, hint="send less at once", param="file") from None
            raise RequestError(422, "wrong_sound", told, hint=error.hint, param="file") from None
        return sound, cut_at_silences(sound)


def _checked_options(translator: Translator, job: SoundJob) -> DecodingConfig:
    from dragoman.studies.transcribing import check_head

    if job.words:
        check_head(translator)
    return translator.options(job.options)


def _told(
    model: ServedModel,
    translator: Translator,
    sound: Waveform,
    parts: Sequence[Segment],
    found: Sequence[Translation],
    words: bool,
) -> Transcribed:
    from dragoman.studies.transcribing import utterances

    said = utterances(translator, sound, parts, [one.text for one in found], words=words)
    outputs = [one for one in found if one.text.strip()]
    target = translator.tokenizers.target
    told = tuple(
        TranscribedPart(one, output, tuple(target.encode(one.text))) for one, output in zip(said, outputs, strict=True)
    )
    text = _joined([one.text for one in said], None if model.target == UNKNOWN else model.target)
    return Transcribed(text, model.source, model.target, model.name, sound.seconds, told)


def _joined(texts: Sequence[str], language: str | None) -> str:
    """The parts of a recording as one text, with blanks between them where the language writes blanks."""
    gaps = [Gap(text, "", " ") for text in texts[:-1]] + [Gap(text, "", "") for text in texts[-1:]]
    return join_text(gaps, texts, language)

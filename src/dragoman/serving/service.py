"""From a job to its outputs: languages detected, texts split, sentences searched beside those of others, joined."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace

from dragoman.jobs import Job, Translated, TranslatedSegment
from dragoman.languages import same_language
from dragoman.serving.faults import RequestError
from dragoman.serving.registry import Registry, ServedModel
from dragoman.serving.routes import UNKNOWN, Route
from dragoman.serving.settings import ServeSettings
from dragoman.text.detecting import Detected, Detector
from dragoman.text.sentences import Segment, join_text, split_text
from dragoman.translation import Scheduler, Translation, Translator
from dragoman.translation.call import Call, Progress
from dragoman.translation.markup import MarkedOutput, Markup
from dragoman.translation.spans import Word, spans

LONG = 2_000  # characters of texts that are not split on the thread that answers requests
SHORT_TO_DETECT = 40  # characters: a shorter text is taken to be in the language of the whole request


class Service:
    """Translates jobs with the models of a registry.

    Args:
        registry: the models.
        settings: the limits.
    """

    def __init__(self, registry: Registry, settings: ServeSettings) -> None:
        self.registry, self.settings = registry, settings
        self._detectors: dict[tuple[str, ...], Detector] = {}

    def detect(self, text: str, model: str | None = None) -> list[Detected]:
        """Return the likeliest languages of a text, among those that can be translated from, by any model or by one."""
        sources = tuple(self.registry.sources(model))
        if sources not in self._detectors and len(self._detectors) > len(self.registry.models):
            self._detectors.clear()  # of models that were there before
        return self._detectors.setdefault(sources, Detector(sources)).detect(text)

    def check(self, job: Job) -> None:
        """Refuse what is beyond the limits, before any work.

        Raises:
            RequestError: there are too many texts or characters, too wide a beam, or not as many prefixes as texts.
        """
        limits = self.settings.limits
        if len(job.texts) > limits.texts:
            raise _too_much("texts", len(job.texts), limits.texts)
        if job.characters + sum(map(len, job.prefixes or ())) > limits.characters:
            raise _too_much("characters", job.characters, limits.characters)
        for name in ("beam_size", "n_best"):
            if (asked := job.options.get(name) or 0) > limits.beam_size:
                raise _too_much(name, asked, limits.beam_size)
        if job.prefixes is not None and len(job.prefixes) != len(job.texts):
            message = f"{len(job.texts)} texts, but {len(job.prefixes)} prefixes"
            raise RequestError(422, "prefixes", message, hint="send one for each text, empty where none is wanted")

    def routes(self, job: Job) -> list[tuple[Route, float | None]]:
        """Return for each text the models that it goes through, and how sure its language is where it was detected.

        Raises:
            RequestError: no model does it.
        """
        if job.source != "auto":
            return [(self.registry.route(job.source, job.target, job.model), None)] * len(job.texts)
        if len(self.registry.sources(job.model)) < 2:
            route = self.registry.route(None, job.target, job.model)
            return [(route, 1.0)] * len(job.texts)
        overall = self.detect("\n".join(job.texts), job.model)
        found: list[tuple[Route, float | None]] = []
        for text in job.texts:
            apart = len(text) > SHORT_TO_DETECT and len(job.texts) > 1
            likely = self.detect(text, job.model) if apart else overall
            found.append((self._from_detected(likely, job), likely[0].confidence))
        return found

    def _from_detected(self, likely: Sequence[Detected], job: Job) -> Route:
        # Where it is in the wanted language already, what is likeliest besides it is meant rather.
        others = [one for one in likely if job.target is None or not same_language(job.target, one.language)]
        return self.registry.route((others or likely)[0].language, job.target, job.model)

    async def translate(self, job: Job) -> list[Translated]:
        """Translate the texts of a job.

        Raises:
            RequestError: it is beyond the limits, or no model does it.
            OverloadError: too much waits already.
            TimeoutError: it took too long.
            DragomanError: an option is wrong.
        """
        self.check(job)
        if job.format != "text":
            return await self._translate_markup(job)
        routes = self.routes(job)
        results: list[Translated | None] = [None] * len(job.texts)
        async with asyncio.timeout(self.settings.limits.translate_seconds):
            for route in dict.fromkeys(route for route, _ in routes):
                places = [place for place, (own, _) in enumerate(routes) if own == route]
                texts = [job.texts[place] for place in places]
                prefixes = None if job.prefixes is None else [job.prefixes[place] for place in places]
                found = await self._through(route, replace(job, texts=texts, prefixes=prefixes))
                for place, one in zip(places, found, strict=True):
                    results[place] = replace(one, confidence=routes[place][1])
        return [one for one in results if one is not None]

    async def _through(
        self, route: Route, job: Job, on_progress: Callable[[int, Progress], None] | None = None
    ) -> list[Translated]:
        """The texts of a job, all of one language, through one model or two."""
        *before, last = route.hops
        for hop in before:
            first = await self._with(hop, replace(job, prefixes=None, words=False, options={}), None)
            job = replace(job, texts=[one.text for one in first], words=False)
        found = await self._with(last, job, on_progress)
        names = tuple(model.name for model in route.models)
        return [replace(one, source=route.source, models=names, pivot=route.pivot) for one in found]

    async def _with(
        self, hop: tuple[ServedModel, str, str], job: Job, on_progress: Callable[[int, Progress], None] | None
    ) -> list[Translated]:
        """The texts of a job through one model, from a language to another."""
        model, source, target = hop
        split = [await self._split(text, source, job.sentences) for text in job.texts]
        flat = [segment.text for segments in split for segment in segments]
        forced = _forced(split, job.prefixes)
        async with self.registry.use(model) as scheduler:
            speaking = model.speaking(scheduler.translator, source, target)
            found = await _search(scheduler, speaking, job, flat, forced, on_progress)
        outputs = iter(found)
        return [_joined(segments, [next(outputs) for _ in segments], hop, job) for segments in split]

    async def _split(self, text: str, source: str, sentences: bool) -> list[Segment]:
        language = None if source == UNKNOWN else source
        if len(text) > LONG:
            return await asyncio.to_thread(split_text, text, language, sentences)
        return split_text(text, language, sentences)

    async def _translate_markup(self, job: Job) -> list[Translated]:
        """Markup: its texts are translated with the alignments of their words, by which tags find their places."""
        kind = "xml" if job.format == "xml" else "html"
        documents = [await asyncio.to_thread(Markup, text, kind, **job.markup) for text in job.texts]
        plain = [text for document in documents for text in document.texts]
        inner = replace(job, texts=plain, prefixes=None, words=True, format="text", markup={})
        found = iter(await self._translate_plain(inner))
        results = []
        for document, given in zip(documents, job.texts, strict=True):
            parts = [next(found) for _ in document.texts]
            outputs = [MarkedOutput(part.text, _words_of_text(part)) for part in parts]
            text = await asyncio.to_thread(document.put, outputs)
            results.append(_of_parts(parts, text) if parts else self._unchanged(given, job))
        return results

    def _unchanged(self, text: str, job: Job) -> Translated:
        """What has nothing to translate in it."""
        route = self.routes(replace(job, texts=[text]))[0][0]
        return Translated(text, route.source, route.target, tuple(one.name for one in route.models), route.pivot)

    async def _translate_plain(self, job: Job) -> list[Translated]:
        """As `translate`, however many texts there are: their characters were counted already."""
        size = self.settings.limits.texts
        found: list[Translated] = []
        for start in range(0, len(job.texts), size):
            found += await self.translate(replace(job, texts=job.texts[start : start + size]))
        return found

    async def stream(self, job: Job) -> AsyncIterator[tuple[str, object]]:
        """Yield what becomes of the one text of a job: `start`, `progress` as often as it changes, `result`.

        A slow reader gets the newest state, not every one.

        Raises:
            RequestError: as `translate`; so do the other errors.
        """
        self.check(job)
        ((route, confidence),) = self.routes(job)
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        newest: dict[int, Progress] = {}

        def tell(place: int, progress: Progress) -> None:
            newest[place] = progress
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        yield "start", route
        task = asyncio.create_task(self._within(self._through(route, job, tell)))
        task.add_done_callback(lambda _: changed.set())
        try:
            split = await self._split(job.texts[0], route.source, job.sentences) if not route.pivot else []
            told = ("", "")
            while not task.done():
                await changed.wait()
                changed.clear()
                if route.pivot or task.done():  # what comes from the language between is not told
                    continue
                state = _state(split, dict(newest), route.target)
                if state != told:
                    told = state
                    yield "progress", {"stable": state[0], "tentative": state[1]}
            (result,) = task.result()
            yield "result", replace(result, confidence=confidence)
        finally:
            task.cancel()

    async def _within(self, work: Awaitable[list[Translated]]) -> list[Translated]:
        async with asyncio.timeout(self.settings.limits.translate_seconds):
            return await work


async def _search(
    scheduler: Scheduler,
    translator: Translator,
    job: Job,
    texts: Sequence[str],
    prefixes: Sequence[str] | None,
    on_progress: Callable[[int, Progress], None] | None,
) -> list[Translation]:
    options = translator.options(job.options) if job.options else None

    def submit() -> Call:
        told = None if on_progress is None else lambda progress: on_progress(progress.place, progress)
        return scheduler.submit(
            texts, options, prefixes=prefixes, alignments=job.words, on_progress=told, translator=translator
        )

    return await found_of(await submitted(submit) if sum(map(len, texts)) > LONG else submit())


async def submitted(submit: Callable[[], Call]) -> Call:
    """Return a call that is made on another thread; one that nobody waits for any more when it is made is given up."""
    making = asyncio.ensure_future(asyncio.to_thread(submit))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_give_up)
        raise


def _give_up(making: asyncio.Future[Call]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().cancel()


async def found_of(call: Call) -> list[Translation]:
    """Return what a call finds; it is given up where this task is.

    Raises:
        RequestError: 503, the model was closed meanwhile.
    """
    try:
        return await asyncio.wrap_future(call.future)
    except CancelledError:  # of the future, not of this task: the scheduler was closed
        raise RequestError(503, "closing", "the model was closed", hint="send it again", wait=1.0) from None


def _forced(split: Sequence[Sequence[Segment]], prefixes: Sequence[str] | None) -> list[str] | None:
    """The prefix of each segment: that of a text belongs to its first sentence."""
    if prefixes is None:
        return None
    forced: list[str] = []
    for segments, prefix in zip(split, prefixes, strict=True):
        for segment in segments:
            forced.append(prefix if segment.text else "")
            prefix = "" if segment.text else prefix
    return forced


def _joined(
    segments: Sequence[Segment], found: Sequence[Translation], hop: tuple[ServedModel, str, str], job: Job
) -> Translated:
    """One text, of its sentences."""
    model, source, written = hop
    target = None if written == UNKNOWN else written
    own = [
        TranslatedSegment(segment, one, spans(one) if job.words else None)
        for segment, one in zip(segments, found, strict=True)
    ]
    most = max((len(one.alternatives) for one in found), default=1)
    texts = [
        join_text(segments, [one.alternatives[min(rank, len(one.alternatives) - 1)].text for one in found], target)
        for rank in range(most)
    ]
    return Translated(
        join_text(segments, [one.text for one in found], target),
        source=source,
        target=written,
        models=(model.name,),
        truncated=any(one.truncated for one in found),
        unknown=sum(one.unknown for one in found),
        finished=all(one.finished for one in found),
        segments=tuple(own),
        alternatives=tuple(dict.fromkeys(texts[1:])),
    )


def _state(segments: Sequence[Segment], newest: dict[int, Progress], target: str) -> tuple[str, str]:
    """How far a text has come: what is sure of it, and how it goes on."""
    texts, sure = [], []
    for place, segment in enumerate(segments):
        now = newest.get(place, Progress(place, "", "", is_over=not segment.text))
        texts.append(now.stable + now.tentative)
        sure.append(now)
    end = next((place for place, now in enumerate(sure) if not now.is_over), len(segments))
    code = None if target == UNKNOWN else target
    done = join_text(segments[: end + 1], [*texts[:end], *(now.stable for now in sure[end : end + 1])], code)
    if end < len(segments):
        done = done.removesuffix(segments[end].after)  # whatever follows an unfinished sentence is not sure
        done = done if sure[end].stable else done.rstrip()
    shown = max((place for place, text in enumerate(texts) if text), default=-1) + 1
    whole = join_text(segments[:shown], texts[:shown], code)
    return done, whole[len(done) :] if whole.startswith(done) else ""


def _words_of_text(found: Translated) -> list[Word]:
    """The words of all sentences of a text, with their places in it and in its source."""
    words: list[Word] = []
    target = source = 0
    for one in found.segments:
        source += len(one.segment.before)
        start = found.text.find(one.text, target) if one.text else target
        for word in one.words or ():
            sources = tuple((begin + source, end + source) for begin, end in word.sources)
            words.append(Word(word.start + start, word.end + start, word.probability, sources))
        target = start + len(one.text)
        source += len(one.segment.text) + len(one.segment.after)
    return words


def _of_parts(parts: Sequence[Translated], text: str) -> Translated:
    first = parts[0]
    return replace(
        first,
        text=text,
        truncated=any(part.truncated for part in parts),
        unknown=sum(part.unknown for part in parts),
        finished=all(part.finished for part in parts),
        segments=(),
        alternatives=(),
    )


def _too_much(what: str, found: int, limit: int) -> RequestError:
    return RequestError(413, "too_much", f"{found:,} {what}, more than {limit:,}", hint="send less at once")

"""Counts for Prometheus: requests by interface and status, latency, and what each model's searches did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from dragoman.serving.registry import Registry

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All counts of one service.

    Args:
        registry: whose models' counts are told.
    """

    def __init__(self, registry: Registry) -> None:
        self._all = CollectorRegistry()
        self._requests = Counter(
            "dragoman_requests", "Requests that were answered.", ["interface", "status"], registry=self._all
        )
        self._seconds = Histogram(
            "dragoman_request_seconds", "From a request's arrival to the end of its answer.", ["interface"],
            buckets=SECONDS, registry=self._all,
        )  # fmt: skip
        self._characters = Counter(
            "dragoman_characters", "Characters that were translated.", ["models"], registry=self._all
        )
        self._sound = Counter(
            "dragoman_sound_seconds", "Seconds of recordings that were written down.", ["model"], registry=self._all
        )
        self._under_way = 0
        self._all.register(_Models(self, registry))  # type: ignore[arg-type]

    @property
    def under_way(self) -> int:
        """Requests that are answered now."""
        return self._under_way

    def begin(self) -> None:
        """Count a request that came in."""
        self._under_way += 1

    def end(self, interface: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._under_way -= 1
        self._requests.labels(interface, str(status)).inc()
        self._seconds.labels(interface).observe(seconds)

    def translated(self, models: str, characters: int) -> None:
        """Count what was translated."""
        self._characters.labels(models).inc(characters)

    def transcribed(self, model: str, seconds: float) -> None:
        """Count what was written down."""
        self._sound.labels(model).inc(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._all)


class _Models:
    """What schedulers know, told when it is asked for."""

    def __init__(self, metrics: Metrics, registry: Registry) -> None:
        self._metrics, self._registry = metrics, registry

    def collect(self) -> Iterator[Any]:
        """Yield the families; named by Prometheus's interface."""
        yield GaugeMetricFamily("dragoman_requests_under_way", "Requests now.", self._metrics.under_way)
        open_models = [(name, one) for name, one in self._registry.models.items() if one.scheduler is not None]
        told = {
            "sentences": "Sentences that were searched.",
            "source_tokens": "Tokens that were read.",
            "target_tokens": "Tokens that were written.",
            "cancelled": "Calls whose callers went away.",
            "failed": "Calls that failed.",
            "healed": "Faults that the search survived.",
            "seconds": "Seconds of searching.",
            "slices": "Turns of searching.",
        }
        for field, meaning in told.items():
            family = CounterMetricFamily(f"dragoman_model_{field}", meaning, labels=["model"])
            for name, model in open_models:
                if model.scheduler is not None:
                    family.add_metric([name], getattr(model.scheduler.counts, field))
            yield family
        calls = GaugeMetricFamily("dragoman_model_calls", "Calls that are not over.", labels=["model"])
        tokens = GaugeMetricFamily("dragoman_model_tokens", "Source tokens x beams that wait.", labels=["model"])
        rows = GaugeMetricFamily("dragoman_model_batch_sentences", "Sentences in the batches.", labels=["model"])
        for name, model in open_models:
            if model.scheduler is not None:
                waiting = model.scheduler.waiting
                calls.add_metric([name], waiting[0])
                tokens.add_metric([name], waiting[1])
                rows.add_metric([name], model.scheduler.searched)
        yield from (calls, tokens, rows)

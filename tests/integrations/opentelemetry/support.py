"""Recorders of spans and measurements: with the bare API, and with the SDK and its exporters in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("opentelemetry")

from opentelemetry import metrics, trace


class RecordedSpan(trace.NonRecordingSpan):
    def __init__(self, name: str, attributes: Any, parent: Any) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.attributes, self.parent = name, dict(attributes), parent
        self.status: Any = None
        self.is_ended = False

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        self.attributes.update(attributes)

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.is_ended = True


class Spans(trace.TracerProvider, trace.Tracer):
    """A tracer that keeps its spans, without an SDK."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Any = None, **options: Any) -> RecordedSpan:
        parent = trace.get_current_span(context).get_span_context() if context is not None else None
        span = RecordedSpan(name, options["attributes"], parent)
        self.spans.append(span)
        return span

    def start_as_current_span(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Histogram:
    def __init__(self, name: str, unit: str, kept: list[tuple[float, dict[str, Any]]]) -> None:
        self.name, self.unit, self.kept = name, unit, kept

    def record(self, amount: float, attributes: dict[str, Any]) -> None:
        self.kept.append((amount, attributes))


class Durations(metrics.MeterProvider):
    """A meter that keeps what it is given, without an SDK."""

    def __init__(self) -> None:
        self.durations: list[tuple[float, dict[str, Any]]] = []
        self.others: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        self.observed: dict[str, Any] = {}
        self.units: dict[str, str] = {}

    def get_meter(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def create_histogram(self, name: str, unit: str = "", **options: Any) -> Any:
        self.units[name] = unit
        kept = self.durations if name == "mcp.server.operation.duration" else self.others.setdefault(name, [])
        return Histogram(name, unit, kept)

    def create_observable_up_down_counter(self, name: str, callbacks: Any, **options: Any) -> None:
        self.observed[name] = callbacks[0]

    def read(self, name: str) -> int:
        (observation,) = self.observed[f"ferrule.server.{name}"](None)
        return observation.value


class Telemetry:
    """Providers of the SDK that keep everything in memory.

    Args:
        processors: further span processors, such as one that exports.
        readers: further metric readers.
    """

    def __init__(self, *, processors: Sequence[Any] = (), readers: Sequence[Any] = ()) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        for processor in (SimpleSpanProcessor(self._exporter), *processors):
            self.tracers.add_span_processor(processor)
        self.meters = MeterProvider([self._reader, *readers], shutdown_on_exit=False)

    @property
    def providers(self) -> dict[str, Any]:
        """Keyword arguments of `instrument`."""
        return {"tracer_provider": self.tracers, "meter_provider": self.meters}

    def spans(self, name: str | None = None) -> list[Any]:
        """The spans that have ended, in the order of their end; those of one name."""
        return [span for span in self._exporter.get_finished_spans() if name in (None, span.name)]

    def span(self, name: str, kind: str | None = None) -> Any:
        """The one span with a name, and of a kind if one is given."""
        (found,) = [span for span in self.spans(name) if kind in (None, span.kind.name)]
        return found

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (() if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def units(self) -> dict[str, str | None]:
        """The unit of each metric that has data."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: metric.unit
            for resource in (() if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def parent_of(span: Any, spans: Sequence[Any]) -> Any:
    """The span among ``spans`` whose child this one is; ``None`` for a root."""
    if span.parent is None:
        return None
    (found,) = [each for each in spans if each.context.span_id == span.parent.span_id]
    return found

"""OpenTelemetry spans: one for each call, in the trace that its client began, if it says so (`traceparent`).

A span has events for the first text and the first sound, and at its end what came of it. Needs the extra `traces`;
where spans go is told by OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME.
"""

import os
from typing import TYPE_CHECKING

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest, Stats
from oscine_service.observe.outcomes import CANCELLED, OK, outcome
from oscine_service.security import principal
from oscine_service.visits import Visit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

NAME = "oscine"


def desk() -> "Traces":
    """One that sends spans over OTLP and HTTP. Raises InvalidInput where OpenTelemetry is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise InvalidInput(f"traces need OpenTelemetry ({error.name}): pip install 'oscine[traces]'") from error
    named = "OTEL_SERVICE_NAME" in os.environ or SERVICE_NAME in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create(None if named else {SERVICE_NAME: NAME}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)


class Traces:
    """A desk that makes spans."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer(NAME)
        self._propagator = TraceContextTextMapPropagator()

    def attend(self, visit: Visit, request: SessionRequest) -> "Spanned":
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(
            "speak", self._propagator.extract(visit.trace), SpanKind.SERVER, attributes=_about(visit, request)
        )
        return Spanned(span)

    def close(self) -> None:
        """Send what has not been sent yet. Takes up to some seconds."""
        self._provider.shutdown()


class Spanned:
    """One call's attendant."""

    def __init__(self, span: "Span") -> None:
        self._span = span
        self._characters = self._frames = 0

    def text(self, characters: int) -> None:
        if not self._characters and characters:
            self._span.add_event("first text")
        self._characters += characters

    def sent(self, samples: int, frames: int) -> None:
        if not self._frames:
            self._span.add_event("first sound")
        self._frames += frames

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        from opentelemetry.trace import Status, StatusCode

        word, span = outcome(stats, error), self._span
        told: dict[str, str | int | float] = {"oscine.outcome": word, "oscine.characters": self._characters}
        if stats is not None:
            told |= {"oscine.audio_seconds": stats.audio_s, "oscine.underruns": stats.underruns}
            told |= {"oscine.starved": stats.starved, "oscine.segments": stats.segments}
        span.set_attributes(told)
        if word not in (OK, CANCELLED):
            # The word alone: a message may quote what was said.
            span.set_status(Status(StatusCode.ERROR, word))
        span.end()


def _about(visit: Visit, request: SessionRequest) -> dict[str, str]:
    told = {"oscine.protocol": visit.protocol, "oscine.mode": str(request.mode)}
    if request.voice is not None:
        told["oscine.voice"] = request.voice
    if key := principal.current().name:
        told["oscine.key"] = key
    return told

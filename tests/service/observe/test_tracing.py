"""Spans as a collector gets them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
import websockets
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import UnknownVoice
from oscine_engine.events import SessionRequest, Stats
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.config.model import Observe, Settings
from oscine_service.observe import tracing
from oscine_service.security.principal import Principal, acting_for
from oscine_service.visits import Visit
from tests.service.calls import config, text
from tests.service.security.conftest import house

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STATS = Stats(audio_s=2.5, segments=1, speech_tokens=60, first_packet_s=0.1, busy_s=1.0, underruns=1)


class Collector(HTTPServer):
    received: list[ExportTraceServiceRequest]

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    server = Collector(("127.0.0.1", 0), Handler)
    server.received = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def attributes(span: Span) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}


def test_a_call_is_a_span_in_the_trace_of_its_client(collector: Collector) -> None:
    traces = tracing.desk()
    visit = Visit("grpc", trace={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    with acting_for(Principal(name="anna")):
        call = traces.attend(visit, SessionRequest(voice="fledgling"))
    call.text(0)
    call.text(5)
    call.text(6)
    call.sent(480, 1)
    call.sent(480, 1)
    call.ended(STATS, None)
    traces.close()
    (span,) = collector.spans
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("speak", TRACE, PARENT)
    assert span.kind == Span.SPAN_KIND_SERVER and span.status.code == Status.STATUS_CODE_UNSET
    assert [event.name for event in span.events] == ["first text", "first sound"]
    told = attributes(span)
    assert told["oscine.protocol"] == "grpc" and told["oscine.key"] == "anna" and told["oscine.voice"] == "fledgling"
    assert told["oscine.outcome"] == "ok" and told["oscine.characters"] == 11
    assert told["oscine.audio_seconds"] == 2.5 and told["oscine.underruns"] == 1
    resource = collector.received[0].resource_spans[0].resource
    assert {"service.name": "oscine"}.items() <= {a.key: a.value.string_value for a in resource.attributes}.items()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownVoice("there is no voice 'my secret'"), Status.STATUS_CODE_ERROR),
        (asyncio.CancelledError(), Status.STATUS_CODE_ERROR),
        (None, Status.STATUS_CODE_UNSET),
    ],
)
def test_a_span_says_how_the_call_ended_and_not_what_was_said(
    collector: Collector, error: BaseException | None, status: int
) -> None:
    traces = tracing.desk()
    call = traces.attend(Visit("http", trace={"traceparent": "nonsense"}), SessionRequest())
    call.ended(None, error)
    traces.close()
    (span,) = collector.spans
    assert span.status.code == status and not span.parent_span_id
    assert "secret" not in str(collector.received)


def test_the_environment_may_name_the_service(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "voice")
    traces = tracing.desk()
    traces.attend(Visit("http"), SessionRequest()).ended(None, None)
    traces.close()
    assert 'string_value: "voice"' in str(collector.received)


async def test_a_trace_goes_on_through_each_door(collector: Collector, checkpoint: Checkpoint) -> None:
    parent = f"00-{TRACE}-{PARENT}-01"
    async with house(checkpoint, replace(Settings(), observe=Observe(traces=True))) as found:
        async with found.channel() as channel:
            call = SpeechServiceStub(channel).Synthesize(
                iter([config(), *text("Hello.")]), metadata=(("traceparent", parent),)
            )
            assert [response async for response in call][-1].HasField("done")
        address = f"ws://{found.http_address}/v1/speech"
        async with websockets.connect(address, proxy=None, additional_headers={"traceparent": parent}) as socket:
            await socket.send('{"type": "start", "context": "a"}')
            async with asyncio.timeout(30):
                while '"started"' not in str(message := await socket.recv()):
                    assert '"error"' not in str(message)
    spans = collector.spans
    assert {attributes(span)["oscine.protocol"] for span in spans} == {"grpc", "websocket"}
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in spans} == {(TRACE, PARENT)}

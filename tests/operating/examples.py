"""What a good call and a bad one leave in the log and in a trace: python -m tests.operating.examples PAGE [MODEL]

Starts a service, makes both calls and writes the examples of that page anew, from what it left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bench.chaos import engine_of
from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from tests.service.calls import config, text
from tests.service.observe.test_tracing import PARENT, TRACE, Collector, Handler, attributes

GOOD = "The kettle is on, and the rain has stopped."
BAD = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 20
DEATH = "(death 1 in a row)"
PATIENCE_S = 60.0
SHOWN = re.compile(r"<!-- (?P<name>[\w-]+) -->\n```json\n(?P<lines>.*?)```\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Left:
    """logs: lines of each call, from info on. spans: one of each. By the names that the page has for them."""

    logs: Mapping[str, list[dict[str, Any]]]
    spans: Mapping[str, dict[str, Any]]

    @property
    def all(self) -> dict[str, list[dict[str, Any]]]:
        return {**self.logs, **{name: [span] for name, span in self.spans.items()}}


def made(model: Path | None, folder: Path) -> Left:
    """Make both calls of a service. The bad one loses its engine in its midst."""
    with collecting() as (collector, environment):
        flags = ("--utilisation", "inf", "--traces", "--log-level", "info", "--log-format", "json")
        log = folder / "log"
        with served(*flags, model=model, environment=environment, log=log) as service:
            with grpc.insecure_channel(service.grpc, (("grpc.enable_http_proxy", 0),)) as channel:
                speech, parent = SpeechServiceStub(channel), (("traceparent", f"00-{TRACE}-{PARENT}-01"),)
                good = speech.Synthesize(iter([config(), *text(GOOD)]), metadata=parent)
                assert [response.WhichOneof("response") for response in good][-1] == "done"
                bad = speech.Synthesize(iter([config(), *text(BAD)]), metadata=parent)
                while not next(bad).HasField("audio"):
                    pass
                os.kill(engine_of(service.pid), signal.SIGKILL)
                with contextlib.suppress(grpc.RpcError):
                    for _ in bad:
                        pass
                assert bad.code() is grpc.StatusCode.UNAVAILABLE
            deadline = time.monotonic() + PATIENCE_S
            while DEATH not in log.read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            service.process.terminate()
            service.process.wait(PATIENCE_S)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    good_end, bad_end = [line for line in lines if line["event"] == "call ended"]
    (death,) = [line for line in lines if DEATH in line["event"]]
    logs = {"log-good": [good_end], "log-bad": [death, bad_end]}
    good_span, bad_span = sorted(collector.spans, key=lambda span: span.start_time_unix_nano)
    return Left(logs, {"span-good": _told(good_span), "span-bad": _told(bad_span)})


@contextmanager
def collecting() -> Iterator[tuple[Collector, dict[str, str]]]:
    """A collector of spans, and what a service needs to find it."""
    collector = Collector(("127.0.0.1", 0), Handler)
    collector.received = []
    Thread(target=collector.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{collector.server_port}"
    try:
        yield collector, {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "NO_PROXY": "127.0.0.1"}
    finally:
        collector.shutdown()
        collector.server_close()


def _told(span: Span) -> dict[str, Any]:
    """A span as it is read: times in seconds from its beginning."""
    began = span.start_time_unix_nano

    def since(at: int) -> float:
        return round((at - began) / 1e9, 3)

    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex(),
        "seconds": since(span.end_time_unix_nano),
        "events": {event.name: since(event.time_unix_nano) for event in span.events},
        "attributes": attributes(span),
        "status": {0: "unset", 1: "ok", 2: f"error: {span.status.message}"}[span.status.code],
    }


def shown(page: str) -> dict[str, list[dict[str, Any]]]:
    """The examples of a page, by their names."""
    decoder, found = json.JSONDecoder(), {}
    for match in SHOWN.finditer(page):
        objects, rest = [], match["lines"].strip()
        while rest:
            each, end = decoder.raw_decode(rest)
            objects.append(each)
            rest = rest[end:].strip()
        found[match["name"]] = objects
    return found


def written(page: str, left: Left) -> str:
    """The page with these examples."""

    def example(match: re.Match[str]) -> str:
        lines = "\n".join(_broken(json.dumps(each, ensure_ascii=False)) for each in left.all[match["name"]])
        return f"<!-- {match['name']} -->\n```json\n{lines}\n```\n"

    return SHOWN.sub(example, page)


def _broken(line: str, width: int = 118) -> str:
    """An object over several lines, broken between its fields."""
    found, current = [], ""
    for piece in re.split(r"(?<=,) (?=\")", line):
        if current and len(current) + 1 + len(piece) > width:
            found.append(current)
            current = " " + piece
        else:
            current = f"{current} {piece}" if current else piece
    return "\n".join([*found, current])


if __name__ == "__main__":
    path, *models = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        path.write_text(written(path.read_text(), made(next(iter(models), None), Path(folder))))

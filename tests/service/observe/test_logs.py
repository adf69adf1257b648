"""Logs, for people and for machines."""

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from oscine_service.observe import logs

log = logging.getLogger("oscine.test")


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What was written to standard error; logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_an_object_with_its_fields(written: Callable[[], str]) -> None:
    logs.set_up("info", "json")
    with logs.bound(call=7):
        logs.event(log, logging.INFO, "call ended", voice="anna", seconds=1.5, key=None)
        log.debug("not this")
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        log.exception("a fault with %s", "arguments")
    first, second = (json.loads(line) for line in written().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "oscine.test",
        "event": "call ended",
        "call": 7,
        "voice": "anna",
        "seconds": 1.5,
    }
    assert second["event"] == "a fault with arguments" and "ValueError: broken\nin two" in second["error"]
    assert "call" not in second


def test_people_read_the_fields_behind_the_event(written: Callable[[], str]) -> None:
    logs.set_up("info", "text")
    logs.event(log, logging.WARNING, "call ended", voice="anna b", seconds=1.23456, key="")
    assert written().endswith('WARNING oscine.test: call ended voice="anna b" seconds=1.235 key=""\n')
    logs.event(log, logging.WARNING, "call ended", voice="x\n2026 ERROR \x1b[31m")
    assert written().endswith('call ended voice="x\\n2026 ERROR \\u001b[31m"\n')


@pytest.mark.usefixtures("written")
def test_lines_of_another_process_keep_to_the_format() -> None:
    lines = [b'{"event": "ready", "level": "info"}', b"Segmentation fault \xff", b"[1, 2]"]
    logs.set_up("info", "text")
    assert logs.format_now() == "text"
    assert logs.relay(lines[1:2], "engine 1") == b"engine 1: Segmentation fault \xff\n"
    logs.set_up("info", "json")
    assert logs.format_now() == "json"
    ready, fault, odd = (json.loads(line) for line in logs.relay(lines, "engine 1").splitlines())
    assert ready == {"event": "ready", "level": "info", "process": "engine 1"}
    assert fault["event"] == "Segmentation fault \ufffd" and fault["process"] == "engine 1"
    assert odd["event"] == "[1, 2]"

"""The fuzz run: that it draws the same again, and that it sees what it looks for."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from random import Random

import pytest

from bench.fuzz import child, over_grpc, over_websocket, parsers
from bench.fuzz.__main__ import service, socket_door, wrong
from bench.fuzz.parsers import Case, Parser
from oscine_codecs.errors import CodecError
from oscine_engine.errors import InternalError, InvalidInput, OscineError


@pytest.mark.parametrize("name", [*over_websocket.DIALECTS, over_grpc.OSCINE, over_grpc.RIVA])
def test_a_case_is_drawn_from_its_number(name: str) -> None:
    def drawn(number: int) -> object:
        if name in over_websocket.DIALECTS:
            return over_websocket.WebSocketDoor(name, "", "")._drawn(Random(number))
        return over_grpc.drawn(name, Random(number))

    cases = [drawn(number) for number in range(20)]
    assert cases == [drawn(number) for number in range(20)]
    assert len({str(case) for case in cases}) > 10


@pytest.mark.parametrize("name", ["settings", "keys", "lists", "unit"])
def test_every_case_is_served_or_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = child.run(name, 1, 0, 60)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")] == []
    assert sum(told["ended"].values()) == 60 and told["ended"]["served"] and len(told["ended"]) > 1


@pytest.mark.parametrize(
    ("error", "typed"),
    [
        (InvalidInput("no"), True),
        (CodecError("no"), True),
        (ValueError("no"), False),
        (InternalError("no"), False),
        (OscineError("no"), False),
        (InvalidInput(""), False),
    ],
    ids=lambda each: f"{type(each).__name__} {str(each) or 'without a word'}" if isinstance(each, Exception) else "",
)
def test_what_is_no_answer_is_a_fault(
    error: Exception, typed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    def make(stack: ExitStack) -> Callable[[Random], Case]:
        return lambda random: (fail, "what was sent")

    monkeypatch.setitem(parsers.PARSERS, "failing", Parser(make))
    told = child.run("failing", 0, 5, 6)
    faults = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    if typed:
        assert not faults and told["ended"] == {type(error).__name__: 1}
    else:
        assert told["ended"] == {} and faults[0]["case"] == 5 and "what was sent" in faults[0]["input"]


def test_what_is_left_behind_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []

    def make(stack: ExitStack) -> Callable[[Random], Case]:
        stack.callback(lambda: [os.close(each) for each in left])
        return lambda random: (lambda: left.append(os.open(os.devnull, os.O_RDONLY)), None)

    monkeypatch.setitem(parsers.PARSERS, "leaking", Parser(make))
    # Looked at while they are open, as is what a reader keeps.
    told = child.run("leaking", 0, 0, 20)
    assert told["grown"]["descriptors"] == 10
    assert wrong({"faults": [], "grown": told["grown"]}) == ["10 more descriptors"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpc", "riva", "websocket", "deepgram", "speech", "voices", "tokens", "wire"])
def test_a_service_stands_what_it_is_sent(name: str) -> None:
    with service() as running:
        told = socket_door(name, running, 7, range(160))
    assert wrong(told) == []
    assert sum(told["ended"].values()) >= 20

"""What a request may ask for: ranges, kinds, and messages that name the field."""

import math
from typing import Any

import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_engine.options import ColdVoice, Knobs

RANGES: list[tuple[str, float, float]] = [
    ("speed", 0.5, 2.0),
    ("temperature", 0.1, 2.0),
    ("top_p", 0.01, 1.0),
    ("top_k", 1, 100),
    ("repetition_window", 0, 100),
    ("repetition_limit", 1, 100),
]


@pytest.mark.parametrize(("name", "least", "most"), RANGES)
def test_a_range_holds_its_ends_and_nothing_beyond(name: str, least: float, most: float) -> None:
    step = 1 if isinstance(least, int) else 1e-6
    for value in (least, most):
        assert getattr(SessionRequest(**{name: value}), name) == value
    beyond: list[Any] = [least - step, most + step, math.nan, math.inf, -math.inf, 10**400, -(10**400)]
    for value in [*beyond, "1", True, [1], *([1.5] if isinstance(least, int) else [])]:
        with pytest.raises(InvalidInput, match=rf"^{name}: .*use {least:g} to {most:g}"):
            SessionRequest(**{name: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"language": "xx"}, "language: 'xx' is unknown; use one of zh, en, ja"),
        ({"language": ["en"]}, "language: "),
        ({"instruction": 3}, "instruction: 3 is no text"),
        ({"instruction": "So\ud83d"}, "instruction: half of a surrogate pair stands alone (character 2)"),
        ({"voice": "\ud83d"}, "voice: half of a surrogate pair"),
        ({"pronunciations": {"a": "\ud83d"}}, "pronunciations: half of a surrogate pair"),
        ({"pronunciations": {"a": 1}}, "pronunciations: "),
        ({"pronunciations": ["a"]}, "pronunciations: "),
        ({"pronunciations": dict.fromkeys(map(str, range(201)), "x")}, "pronunciations: 201 words; at most 200"),
        ({"voice": "ann", "reference": ColdVoice(b"x")}, "voice, reference: "),
    ],
)
def test_what_is_no_wish_is_refused_by_its_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        SessionRequest(**fields)
    assert str(refusal.value).startswith(message)


def test_as_usual_nothing_is_asked_for() -> None:
    assert SessionRequest().knobs == Knobs()
    assert SessionRequest(top_k=3).knobs == Knobs(top_k=3)

"""Silences that a text asks for, `<break time="…">`, on their way through it: one character each (`controls.py`)."""

from oscine_engine.text import controls

_STEP_S = 0.01
SHORTEST_S = 0.5
"""Shorter ones are a pause inside a sentence."""
LONGEST_S = controls.LONGEST_SILENCE * _STEP_S


def mark(seconds: float) -> str:
    """What stands in the text for a silence of so long, at most LONGEST_S."""
    return controls.mark(controls.SILENCES + round(min(seconds, LONGEST_S) / _STEP_S))


def of_mark(character: str) -> float | None:
    """Its length in seconds; None for a mark of anything else."""
    steps = controls.number(character) - controls.SILENCES
    return steps * _STEP_S if steps >= 0 else None

"""What a case may come to."""

from __future__ import annotations


class FaultError(Exception):
    """What must not have happened."""


HANGING_S = 60.0
"""For one case to come to its end, on however busy a machine."""

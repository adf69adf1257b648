"""What the process that looks after a copy tells its service: a line of JSON each time. Pure."""

import json
from dataclasses import asdict, dataclass, replace

TOLD_WHY = 3
"""Status of a process that ends for the reason that it told last; one that fails otherwise ends with another."""
MOST_ERROR = 2000
"""Characters: what servers say of themselves may be a page, and a line is read whole."""


@dataclass(frozen=True, slots=True)
class Report:
    """After a look at the source. voices: in the copy. failing: beside them, those that could not be copied. error: why
    the source could not be read, "" if it was."""

    voices: int
    error: str = ""
    failing: int = 0


def line(report: Report) -> str:
    return json.dumps(asdict(replace(report, error=report.error[:MOST_ERROR]))) + "\n"


def read(line: str | bytes) -> Report:
    """Raises ValueError, TypeError for what is no report."""
    return Report(**json.loads(line))

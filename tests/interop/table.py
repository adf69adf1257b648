"""What came of a run, row by row, and the part of docs/interop.md that is written from it."""

import platform
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.environments import versions
from tests.interop.rows import ROWS, Row

BEGIN, END = "<!-- written by make interop -->", "<!-- until here -->"
COLUMNS = ("speech", "word times", "interruption", "abandonment")


@dataclass
class Findings:
    """By column, what is wrong; None where nothing is. notes: what is told of a column that is right."""

    wrong: dict[str, str | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def cell(self, column: str) -> str:
        if column not in self.wrong:
            return ""
        if self.wrong[column] is not None:
            return "**no**"
        return self.notes.get(column, "yes")


Results = dict[Row, Findings]


def page(results: Results) -> str:
    """Markdown of all rows that ran, and of what is wrong with them."""
    lines = [
        f"Run on {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {platform.machine()}.",
        "",
        f"| client | | door | {' | '.join(COLUMNS)} |",
        f"| --- | --- | --- | {' | '.join('---' for _ in COLUMNS)} |",
    ]
    for row, found in results.items():
        cells = [found.cell(column) for column in COLUMNS]
        lines.append(f"| {_client(row)} | {row.told} | {row.protocol} | {' | '.join(cells)} |")
    faults = [(row, column, why) for row, each in results.items() for column, why in each.wrong.items() if why]
    if faults:
        lines += ["", *(f"* {_client(row)}, {row.told}, {column}: {why}" for row, column, why in faults)]
    return "\n".join(lines)


def write(path: Path, results: Results) -> None:
    """Put it between the marks of a page. Raises ValueError where there are none."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{path} lacks the lines {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{page(results)}\n\n{END}{after}")


def complete(results: Results) -> bool:
    return list(results) == list(ROWS)


def _client(row: Row) -> str:
    """The first package of an environment; our own with the protobuf beside it."""
    first, *others = versions(row.environment)
    return f"{first} beside {others[0]}" if row.environment.startswith("protobuf") else first

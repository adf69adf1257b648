"""How services stand, as lines for a terminal. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oscine_service.top.standing import Engine, Service, Stage

T = TypeVar("T")
NAME = 21
"""Columns of a name, of 80."""
NONE = "-"


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """width: of the head and every cell, which are set to the right."""

    head: str
    width: int
    cell: Callable[[T], str]


def _number(value: float | None, digits: int = 0, scale: float = 1.0) -> str:
    return NONE if value is None else f"{value * scale:.{digits}f}"


def _rate(value: float) -> str:
    return _number(value, 1)


def _ms(value: float | None) -> str:
    return _number(value, 1 if value is not None and value < 0.01 else 0, 1000)


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def _mebibytes(value: float | None) -> str:
    return _number(value, 0, 1 / (1 << 20))


SERVICES: tuple[Column[Service], ...] = (
    Column("CALLS", 5, lambda each: _number(each.calls)),
    Column("ENDED/s", 7, lambda each: _rate(each.ended)),
    Column("REFUSED/s", 9, lambda each: _rate(each.refused)),
    Column("FAILED/s", 8, lambda each: _rate(each.failed)),
    Column("P50 ms", 6, lambda each: _ms(each.first_packet_p50)),
    Column("P95 ms", 6, lambda each: _ms(each.first_packet_p95)),
    Column("MEMORY", 6, lambda each: _share(each.memory_share)),
    # For those who have more than 80 columns.
    Column("LATE ms", 7, lambda each: _ms(each.late)),
    Column("MiB", 6, lambda each: _mebibytes(each.memory)),
)
ENGINES: tuple[Column[Engine], ...] = (
    Column("STREAMS", 7, lambda each: "down" if not each.up else f"{_number(each.streams)}/{_number(each.places)}"),
    Column("COMPUTE", 7, lambda each: _rate(each.computing)),
    Column("TEXT", 5, lambda each: _rate(each.waiting_for_text)),
    Column("LISTEN", 6, lambda each: _rate(each.waiting_for_listener)),
    Column("SPEECH", 6, lambda each: _rate(each.speech)),
    Column("DRY", 4, lambda each: _number(each.underruns)),
    Column("STARVED", 7, lambda each: _number(each.starved)),
    Column("RESTARTS", 8, lambda each: _number(each.restarts)),
    Column("FIRST", 5, lambda each: _number(each.expecting)),
    Column("IDLE", 5, lambda each: _rate(each.idle)),
    Column("PAGES", 5, lambda each: _share(each.pages)),
    Column("MiB", 6, lambda each: _mebibytes(each.memory)),
    Column("P50 ms", 6, lambda each: _ms(each.first_packet_p50)),
    Column("P95 ms", 6, lambda each: _ms(each.first_packet_p95)),
)
STAGES: tuple[Column[Stage], ...] = (
    Column("STAGE", 8, lambda each: each.stage),
    Column("TICKS/s", 8, lambda each: _rate(each.ticks)),
    Column("MS EACH", 8, lambda each: _number(each.tick_s, 2, 1000)),
    Column("BATCH", 7, lambda each: _number(each.batch, 1)),
    Column("OF TIME", 8, lambda each: _share(each.share)),
)


def lines(services: Sequence[Service], clock: str, width: int = 80, height: int | None = None) -> list[str]:
    """At most `height` lines of at most `width` columns; without a height, all there is to say."""
    # Names and reasons are what others say, and may hold what a terminal obeys.
    found = [_plain(line).rstrip()[:width] for line in _all(services, clock, width)]
    if height is None or len(found) <= height:
        return found
    left = len(found) - height + 1
    return [*found[: height - 1], f"... {left} more lines: a taller terminal shows them, or --once"[:width]]


def _plain(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line)


def _all(services: Sequence[Service], clock: str, width: int) -> Iterator[str]:
    answering = [each for each in services if each.trouble is None]
    engines = [(each.service, engine) for each in answering for engine in each.engines]
    up = sum(engine.up for _, engine in engines)
    over = max((each.seconds for each in answering), default=0.0)
    yield (
        f"oscine top  {clock}  over {over:.0f} s  {len(answering)} of {len(services)} services answer, "
        f"{up} of {len(engines)} engines up"
    )
    yield ""
    yield from _table("SERVICE", [(each.service, each) for each in answering], SERVICES, width)
    for each in services:
        if each.trouble is not None:
            yield f"{_named(each.service)} {each.trouble}"
    if engines:
        yield ""
        yield from _table("ENGINE", [(f"{name}/{engine.engine}", engine) for name, engine in engines], ENGINES, width)
        yield ""
        rows = [(f"{name}/{engine.engine}", stage) for name, engine in engines for stage in engine.stages]
        yield from _table("ENGINE", rows, STAGES, width)


def _table(head: str, rows: Sequence[tuple[str, T]], columns: Sequence[Column[T]], width: int) -> Iterator[str]:
    """A line for each row, with as many of the columns as there is room for."""
    shown: list[Column[T]] = []
    taken = NAME
    for column in columns:
        taken += 1 + column.width
        if taken > width:
            break
        shown.append(column)
    yield " ".join([head.ljust(NAME), *(column.head.rjust(column.width) for column in shown)])
    for name, row in rows:
        yield " ".join([_named(name), *(column.cell(row).rjust(column.width) for column in shown)])


def _named(name: str) -> str:
    """The end of a name tells more than its beginning: ports and numbers stand there."""
    return (name if len(name) <= NAME else f"~{name[1 - NAME :]}").ljust(NAME)

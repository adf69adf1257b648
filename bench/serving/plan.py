"""Which servers are measured under which loads. Plain data: processes hand it to each other as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from oscine_engine.settings import Precision

GIB = 1 << 30
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
RATES = (1, 2, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60)
TOKENS = (1.0, 2.0, 2.5)
"""Tokens a step of the language model besides the published 2.98; 1.0 is without a draft."""
PUBLISHED_TOKENS = 2.98
CLIENTS_AN_ENGINE, RATE_AN_ENGINE = 32, 30.0
"""Of the rows of several engines."""
QUICK = ("k21 c1", "k21 c8", "k21 c32", "k21 open 30")


@dataclass(frozen=True, slots=True)
class Server:
    """One service to start.

    engines: engine processes behind its port, on a GPU the first one on cuda:0, the next one on cuda:1 and so on.
    model: "full" or "tiny". head_start: k, new ids in the first chunk. extra_ids: ids that are waited for before
    a chunk begins, beyond the ones it needs.
    tokens: mean ids that a step of the language model says with all its guesses, whose acceptance is drawn; a busy step
    has fewer of them and says less. None is without a draft.
    voices, prompt_tokens, voice_bytes: registered voices, the ids of each, and the budget of their pages.
    side_by_side: see `DeviceLimits`.
    without: parts that are switched off: "graphs" launches kernel by kernel, "packing" has one stream in each step,
    "overlap" waits for every step of the flow, "incremental" solves all that came before a chunk again with it.
    """

    model: str = "full"
    device: str = "cpu"
    precision: Precision = "float32"
    head_start: int = 21
    extra_ids: int = 0
    tokens: float | None = None
    voices: int = 1
    prompt_tokens: int = 97
    voice_bytes: int = GIB
    max_streams: int = 64
    side_by_side: bool = False
    without: tuple[str, ...] = ()
    engines: int = 1

    @classmethod
    def read(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "without": tuple(values["without"])})

    def write(self) -> str:
        return json.dumps(asdict(self))

    def alone(self, number: int) -> Self:
        """What engine `number` is told, from 0."""
        device = f"cuda:{number}" if self.device == "cuda" and self.engines > 1 else self.device
        return replace(self, device=device, engines=1)

    @property
    def voice_names(self) -> list[str]:
        return [f"voice{number:02}" for number in range(self.voices)]


@dataclass(frozen=True, slots=True)
class Load:
    """Clients that each call again when they have heard all, or calls that come by chance, so many a second.

    per_s: text ids a second, one a message, in interleaved mode; None sends the whole text in one message. sentences:
    of a text; more than one are as long as each other. engines: how many of the server's take calls, the first one
    only or (None) all.
    """

    clients: int | None = None
    rate: float | None = None
    encoding: str = "pcm16"
    per_s: float | None = None
    sentences: int = 1
    engines: Literal[1] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `name` is unique. over: the row whose throughput this one's is compared with."""

    name: str
    server: Server
    load: Load
    over: str | None = None


def rows(base: Server) -> Iterator[Row]:
    """Everything there is to measure, servers one after the other. `base`: the model, device and precision of all."""
    k21, k10 = replace(base, head_start=21), replace(base, head_start=10)
    for label, server in (("k21", k21), ("k10", k10)):
        for clients in CLIENTS:
            yield Row(f"{label} c{clients}", server, Load(clients=clients))
        for rate in RATES:
            yield Row(f"{label} open {rate}", server, Load(rate=rate))
        for clients in (1, 32):
            yield Row(f"{label} opus c{clients}", server, Load(clients=clients, encoding="opus"))
            yield Row(f"{label} fed c{clients}", server, Load(clients=clients, per_s=50.0))
        for clients in (1, 8):
            yield Row(f"{label} long c{clients}", server, Load(clients=clients, sentences=10))
    for tokens in TOKENS:
        server = replace(k21, tokens=None if tokens == 1.0 else tokens)
        for clients in (1, 32):
            yield Row(f"tokens {tokens} c{clients}", server, Load(clients=clients))
    yield Row("cold 5 s c1", replace(k21, voices=4, prompt_tokens=125, voice_bytes=0), Load(clients=1))
    many = replace(k21, voices=64, voice_bytes=64 * GIB)
    for clients in (1, 32):
        yield Row(f"64 voices c{clients}", many, Load(clients=clients))
    # It needs 24; with two more it waits for the 26 that peers need.
    yield Row("26 ids c1", replace(k21, extra_ids=2), Load(clients=1))
    beside = replace(k21, side_by_side=True)
    for clients in (1, 8, 32, 64):
        yield Row(f"side by side c{clients}", beside, Load(clients=clients))
    yield Row("side by side open 30", beside, Load(rate=30))
    for part in ("graphs", "packing", "overlap", "incremental"):
        for clients in (1, 8):
            yield Row(f"without {part} c{clients}", replace(k21, without=(part,)), Load(clients=clients))


def rows_of_several(base: Server, clients: int, rate: float) -> Iterator[Row]:
    """One engine, and all of `base` under as many times its load: `clients` and `rate` are those of one."""
    server, count = replace(base, head_start=21), base.engines
    first = f"1 engine c{clients}"
    yield Row(first, server, Load(clients=clients, engines=1))
    yield Row(f"{count} engines c{count * clients}", server, Load(clients=count * clients), over=first)
    # As many calls as come are served, or they are late: throughput says nothing here.
    yield Row(f"1 engine open {rate:g}", server, Load(rate=rate, engines=1))
    yield Row(f"{count} engines open {count * rate:g}", server, Load(rate=count * rate))

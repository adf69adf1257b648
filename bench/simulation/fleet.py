"""Devices behind a balancer, on one clock; a single device is a fleet of one."""

import heapq
import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.simulation.device import Simulated
from bench.simulation.load import Utterance
from bench.simulation.stream import NEVER, Heard, Stream, Voice


@dataclass(frozen=True, slots=True)
class Failures:
    """mtbf_s: mean time between failures of one device, NEVER for none. repair_s: until it takes streams again.

    A client whose stream broke asks again after `retry_s`, from the beginning.
    """

    mtbf_s: float = NEVER
    repair_s: float = 15.0
    retry_s: float = 0.1


@dataclass(slots=True, eq=False)
class Node:
    device: Simulated
    up: bool = True
    alarm: int = 0
    """Of the wake-up that counts; older ones in the heap are void."""


@dataclass(slots=True)
class Outcome:
    """heard: one for each utterance, in order of arrival. elapsed_s: until the last ended."""

    heard: list[Heard] = field(default_factory=list)
    elapsed_s: float = 0.0
    busy_s: float = 0.0
    failures: int = 0
    most_open: int = 0


MOST_TRIES = 5


def run(
    make: Callable[[], Simulated],
    devices: int,
    voice: Voice,
    utterances: Iterable[Utterance],
    rng: random.Random,
    failures: Failures | None = None,
    *,
    retries: bool = False,
) -> Outcome:
    """Simulate until every utterance has ended.

    Balancing is least-request as Envoy does it: of two devices drawn at random the one with fewer streams. With
    `retries`, a refused client asks again after the hint, `MOST_TRIES` times in all; without, it goes away. Waiting
    counts into its first packet either way.
    """
    return _Run(make, devices, voice, rng, failures or Failures(), retries).go(utterances)


class _Run:
    def __init__(
        self,
        make: Callable[[], Simulated],
        devices: int,
        voice: Voice,
        rng: random.Random,
        failures: Failures,
        retries: bool,
    ) -> None:
        self._make, self._voice, self._rng, self._failures, self._retries = make, voice, rng, failures, retries
        self._nodes = [Node(make()) for _ in range(devices)]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._outcome = Outcome()
        self._open = 0

    def go(self, utterances: Iterable[Utterance]) -> Outcome:
        left = iter(utterances)
        self._next_arrival(left)
        if self._failures.mtbf_s < NEVER:
            for node in self._nodes:
                self._fails_some_day(node, 0.0)
        while self._events and (self._open or self._arriving):
            now, _, what = heapq.heappop(self._events)
            what(now)
            self._outcome.elapsed_s = now
        self._outcome.busy_s += sum(node.device.busy_s for node in self._nodes)
        return self._outcome

    def _at(self, when: float, what: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def _next_arrival(self, left: Iterable[Utterance]) -> None:
        utterance = next(iter(left), None)
        self._arriving = utterance is not None
        if utterance is not None:
            self._at(utterance.arrives, lambda now: self._arrive(utterance, left, now))

    def _arrive(self, utterance: Utterance, left: Iterable[Utterance], now: float) -> None:
        heard = Heard()
        self._outcome.heard.append(heard)
        self._open += 1
        self._outcome.most_open = max(self._outcome.most_open, self._open)
        self._ask(utterance, heard, now, 1)
        self._next_arrival(left)

    def _ask(self, utterance: Utterance, heard: Heard, now: float, tries: int) -> None:
        up = [node for node in self._nodes if node.up]
        if not up:
            self._at(now + 1.0, lambda later: self._ask(utterance, heard, later, tries))
            return
        node = min(self._rng.sample(up, min(2, len(up))), key=lambda each: len(each.device.streams))
        stream = Stream(utterance, self._voice, now, heard)
        if heard.first_packet_s is None:
            # Earlier tries, and waiting for them, are part of what the caller waits for.
            stream.arrived -= now - utterance.arrives
        if refusal := node.device.offer(stream, now):
            heard.refused += 1
            if self._retries and tries < MOST_TRIES:
                self._at(now + refusal.retry_after_s, lambda later: self._ask(utterance, heard, later, tries + 1))
            else:
                self._open -= 1
            return
        self._wake(node, now)

    def _wake(self, node: Node, now: float) -> None:
        before = len(node.device.streams)
        again = node.device.wake(now)
        self._open -= before - len(node.device.streams)
        node.alarm += 1
        alarm = node.alarm
        if again < NEVER:
            self._at(again, lambda later: self._wake(node, later) if node.alarm == alarm else None)

    def _fails_some_day(self, node: Node, now: float) -> None:
        self._at(now + self._rng.expovariate(1 / self._failures.mtbf_s), lambda later: self._fail(node, later))

    def _fail(self, node: Node, now: float) -> None:
        lost = node.device.streams
        self._outcome.busy_s += node.device.busy_s
        self._outcome.failures += 1
        node.device, node.up = self._make(), False
        node.alarm += 1
        for stream in lost:
            stream.heard.broken += 1
            utterance, heard = stream.utterance, stream.heard
            self._at(
                now + self._failures.retry_s,
                lambda later, utterance=utterance, heard=heard: self._ask(utterance, heard, later, 1),  # type: ignore[misc]
            )
        self._at(now + self._failures.repair_s, lambda later: self._repair(node, later))

    def _repair(self, node: Node, now: float) -> None:
        node.up = True
        self._fails_some_day(node, now)

"""Threads that encode, shared by all calls of a process: what a listener needs first is encoded first."""

import asyncio
import functools
import heapq
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")
MOST_THREADS = 4
"""As many as one event loop can keep busy. Each takes Python's lock for a moment at every frame, and so does the event
loop at every callback: the more they are, the longer it waits for its turn."""


class Encoders:
    """As many works as there are `threads` run at a time; the others wait, the earliest due first.

    In the order in which they come, 800 ms of speech that nobody hears before the 200 ms in front of them have gone by
    would keep those waiting that somebody else is about to hear.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "oscine-encode")
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Callable[[], Any], Future[Any]]] = []
        self._numbers = count()

    async def run(self, work: Callable[[], T], due: float) -> T:
        """What `work` gives, or raises, done in another thread. due: until when it is wanted, in seconds of a clock
        that all callers share. A caller that is cancelled before its turn leaves nothing to do."""
        future: Future[T] = Future()
        with self._lock:
            # The number keeps those that are due at the same time in order, and works from being compared.
            heapq.heappush(self._waiting, (due, next(self._numbers), work, future))
        self._pool.submit(self._next)
        return await asyncio.wrap_future(future)

    def _next(self) -> None:
        with self._lock:
            _, _, work, future = heapq.heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


@functools.cache
def encoders() -> Encoders:
    """Those of this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Encoders(min(cores, MOST_THREADS))

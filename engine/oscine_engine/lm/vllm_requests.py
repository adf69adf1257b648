"""Requests to an asynchronous engine, made from a thread without an event loop: they run in a thread that has one."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from oscine_engine.errors import Unavailable
from oscine_engine.lm.drawing import Drawing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Go on after `prompt`, ids of the merged vocabulary, by `least` to `most` ids; eos, which counts as one, may be
    among them once `least` are said, and ends it. seed: not negative. drawing: how, None for as the model says."""

    prompt: tuple[int, ...]
    least: int
    most: int
    seed: int
    drawing: Drawing | None = None


class Engine(Protocol):
    """What vLLM is to us."""

    def generate(self, ask: Ask) -> AsyncIterator[list[int]]:
        """Ids as they come. Cancelling the task that iterates aborts it. Raises Unavailable once the engine is dead."""
        ...


class Over:
    """The request has said all it will say."""


OVER = Over()
News: TypeAlias = list[int] | Over | Exception


class Request:
    """One Ask under way. `news` fills up in the order it comes, until `drop`."""

    __slots__ = ("_tell", "dropped", "news", "task")

    def __init__(self, tell: Callable[[], None]) -> None:
        self.news: deque[News] = deque()
        self.dropped = False
        self.task: asyncio.Task[None] | None = None
        self._tell = tell

    def deliver(self, news: News) -> None:
        if not self.dropped:
            self.news.append(news)
            self._tell()


class Requests:
    """`start` opens the engine, `stop` closes it; `ask` and `drop` are for one thread in between.

    opened: the engine, for as long as the block is entered; may take minutes. tell: called in the other thread whenever
    a request has news. `engine`: once started. `dead`: why it will never say anything again.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Engine]], tell: Callable[[], None]) -> None:
        self.engine: Engine
        self.dead: Unavailable | None = None
        self._opened = opened
        self._tell = tell
        self._loop = asyncio.new_event_loop()
        self._ready: Future[Engine] = Future()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="oscine-vllm", daemon=True)

    def start(self) -> None:
        """Returns once requests can be made. Raises what keeps the engine from starting."""
        self._thread.start()
        self.engine = self._ready.result()

    def stop(self) -> None:
        """Drop every request and close the engine. Does nothing before `start` and the second time."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def ask(self, ask: Ask) -> Request:
        request = Request(self._tell)
        self._loop.call_soon_threadsafe(self._begin, ask, request)
        return request

    def drop(self, request: Request) -> None:
        """Abort it; nothing more comes of it. Doing so again changes nothing."""
        if not request.dropped:
            request.dropped = True
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._end, request)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns, run beside the requests."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _begin(self, ask: Ask, request: Request) -> None:
        if not request.dropped:
            request.task = task = self._loop.create_task(self._speak(ask, request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _end(self, request: Request) -> None:
        if request.task is not None:
            request.task.cancel()

    async def _speak(self, ask: Ask, request: Request) -> None:
        try:
            async for ids in self.engine.generate(ask):
                request.deliver(ids)
        except Exception as error:
            if isinstance(error, Unavailable):
                self.dead = error
            request.deliver(error)
        else:
            request.deliver(OVER)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        try:
            async with self._opened() as engine:
                self._ready.set_result(engine)
                await self._ended.wait()
                for task in list(self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

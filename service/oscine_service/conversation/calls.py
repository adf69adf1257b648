"""Who is being served, through whatever front door: what a service that stops waits for, and what it then cuts off."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from oscine_engine.errors import Unavailable
from oscine_service.telephony.sink import Sinks

T = TypeVar("T")
ELSEWHERE_S = 1.0
"""After which whoever is refused by a service that stops may find another one at its address."""


class Calls:
    """Shared by all front doors of a service. Belongs to one event loop."""

    def __init__(self) -> None:
        self._cuts: dict[object, Callable[[], object]] = {}
        self._ended = asyncio.Event()
        self._closing = asyncio.Event()
        self._stopped = False
        self.sinks = Sinks()
        """The telephone calls that are up, which conversations may speak into."""

    @property
    def running(self) -> int:
        return len(self._cuts)

    @property
    def closing(self) -> bool:
        """No new call is taken: the service is about to stop, and those that run may end."""
        return self._closing.is_set()

    def close(self) -> None:
        self._closing.set()

    async def closed(self) -> None:
        """Wait until no new call is taken."""
        await self._closing.wait()

    @contextmanager
    def joined(self, cut: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Count as a call until the block is left. `cut` is called if the service cannot wait for that; by default what
        the call waits for is cut off itself."""
        key = object()
        self._cuts[key] = cut
        try:
            if self._stopped:
                cut()
            yield
        finally:
            del self._cuts[key]
            self._ended.set()

    async def ended(self, patience_s: float) -> None:
        """Wait until no call is left, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._cuts:
                    self._ended.clear()
                    await self._ended.wait()

    def stop(self) -> None:
        """Cut off every call, those that are still to come included."""
        self.close()
        self._stopped = True
        for cut in list(self._cuts.values()):
            cut()

    async def unless_stopped(self, awaitable: Awaitable[T]) -> T:
        """The result of `awaitable`, which counts as a call. Raises Unavailable if the service stops before that."""
        task = asyncio.ensure_future(awaitable)
        stopped = False

        def cut() -> None:
            nonlocal stopped
            stopped = not task.done()
            task.cancel()

        with self.joined(cut):
            try:
                return await task
            except asyncio.CancelledError:
                if stopped and task.cancelled():
                    raise stopping(0) from None
                raise
            finally:
                task.cancel()


def closing() -> Unavailable:
    """What a call is refused with that comes too late."""
    return Unavailable("the service is stopping, and takes no new calls: call again in a moment", ELSEWHERE_S)


def stopping(samples: int) -> Unavailable:
    """What a call ends with that was cut off after so many samples."""
    return Unavailable(
        f"the service is stopping; {samples} samples of this call were sent, and the rest is lost: "
        "call again, from the start"
    )

"""The event loop of both processes, and what would hold it up."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: asyncio's own loop serves
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def lasting() -> Iterator[None]:
    """What there is now stays until the block is left: to walk all of it again and again would stop every thread for
    tens of milliseconds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        # What is frozen is not taken down at the end, which some libraries complain about on standard error.
        gc.unfreeze()

"""The event loop of both processes."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: asyncio's own loop serves
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

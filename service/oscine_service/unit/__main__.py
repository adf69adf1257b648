"""`python -m oscine_service.unit`: the engine process of a unit. The service starts it; nobody else needs to.

Standard input is a pipe from the service: when it closes, because the service dismissed this process or is gone, this
process ends. Signals that a terminal or a service manager sends to a whole group are ignored, so that running calls may
end. Standard output is for `control` lines, standard error for logs.
"""

import argparse
import asyncio
import contextlib
import ctypes
import faulthandler
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

_PR_SET_PDEATHSIG = 1
_END_S = 3.0
"""How long the end may take, before the process just goes: it has nothing to save. Less than `Times.end`."""
_SWITCH_S = 0.0005


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oscine_service.unit")
    parser.add_argument("--socket", required=True, help="path of the socket to make")
    parser.add_argument("--parent", type=int, required=True, help="process id of the service")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--lm-file", choices=["llm", "llm.rl"], default="llm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-streams", type=int, default=8)
    parser.add_argument("--max-waiting", type=float, default=10.0)
    parser.add_argument("--utilisation", type=float, required=True)
    parser.add_argument("--voice-bytes", type=int, default=1 << 30)
    parser.add_argument("--log-level", default="WARNING")
    options = parser.parse_args()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    _die_with(options.parent)
    faulthandler.enable()
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # The pipe to the service stays free of what a library may print.
    control = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return _run(options, control)


def _die_with(parent: int) -> None:
    """End even if this process hangs or is stopped, which would keep it from seeing its input close. Linux only."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        sys.exit("the service was gone before its engine process had started")


class _Dismissal:
    """Standard input has closed. While nobody waits for that, the process just ends."""

    def __init__(self) -> None:
        self._home: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        threading.Thread(target=self._watch, name="oscine-parent", daemon=True).start()

    async def wait(self) -> None:
        self._home = asyncio.get_running_loop()
        await self._event.wait()

    def _watch(self) -> None:
        while os.read(0, 4096):
            pass
        if self._home is not None:
            with contextlib.suppress(RuntimeError):  # closed: the process is ending already
                self._home.call_soon_threadsafe(self._event.set)
            threading.Event().wait(_END_S)
        os._exit(0)


def _run(options: argparse.Namespace, control: TextIO) -> int:
    dismissal = _Dismissal()
    # Slow to import, so only when this process is sure to end with its service.
    from oscine_engine.errors import OscineError
    from oscine_service.event_loop import new_event_loop
    from oscine_service.unit.control import Failed, write

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(options, control, dismissal))
    except OscineError as error:
        control.write(write(Failed(error)))
        control.flush()
        return 1
    return 0


async def _serve(options: argparse.Namespace, control: TextIO, dismissal: _Dismissal) -> None:
    from oscine_engine.runtime.device import Device, DeviceLimits
    from oscine_service.unit.control import Ready, write
    from oscine_service.unit.host import hosting

    limits = DeviceLimits(options.max_streams, options.max_waiting, options.utilisation, options.voice_bytes)
    device = Device.load(options.model, limits, lm_file=options.lm_file, device=options.device, threads=options.threads)
    # The loop's thread is busy between two looks at the socket: let the event loop in sooner than every 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    async with device, hosting(device, options.max_streams, options.socket):
        control.write(write(Ready()))
        control.flush()
        await dismissal.wait()


if __name__ == "__main__":
    sys.exit(main())

"""Being the engine process of a unit: ends with its service, keeps its standard output for `control` lines.

Standard input is a pipe from the service: when it closes, because the service dismissed this process or is gone, this
process ends. Signals that a terminal or a service manager sends to a whole group are ignored, so that running calls may
end. Standard error is for logs.
"""

import argparse
import asyncio
import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TextIO

from oscine_service.observe import logs
from oscine_service.signals import leave_to_service

if TYPE_CHECKING:
    from oscine_engine.runtime.device import Device

_PR_SET_PDEATHSIG = 1
_END_S = 3.0
"""How long the end may take, before the process just goes: it has nothing to save. Less than `Times.end`."""
_SWITCH_S = 0.0005


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every engine process is told by its service."""
    parser.add_argument("--socket", required=True, help="path of the socket to make")
    parser.add_argument("--parent", type=int, required=True, help="process id of the service")
    parser.add_argument("--max-streams", type=int, default=8)
    parser.add_argument("--log-level", default="WARNING")
    parser.add_argument("--log-format", choices=["text", "json"], default="text")


def pinned(device: str) -> str:
    """Let this process see no GPU but `device`, and return what that is called from then on. A CPU stays what it is.

    Libraries then find it wherever they ask for the current GPU, in any thread, and hold no memory of another. To be
    called before CUDA is used. Raises InvalidInput for a GPU that is not there.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return device
    import torch

    from oscine_engine.errors import InvalidInput

    index, seen = int(number or 0), os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in seen.split(",")] if seen is not None else None
    os.environ["CUDA_VISIBLE_DEVICES"] = str(index) if names is None else "".join(names[index : index + 1])
    if torch.cuda.device_count() == 0:
        among = "nvidia-smi -L lists what there is" if names is None else f"CUDA_VISIBLE_DEVICES is {seen!r}"
        raise InvalidInput(f"{device} is not there, or torch {torch.__version__} cannot use it: {among}")
    return "cuda"


def run(options: argparse.Namespace, load: "Callable[[], Device]") -> NoReturn:
    """Host the device that `load` makes until the service dismisses this process, and end it.

    `load` is called when this process is sure to end with its service, and imports what is slow to import. What it
    raises of the engine's errors the service is told.
    """
    leave_to_service()
    _die_with(options.parent)
    faulthandler.enable()
    logs.set_up(options.log_level, options.log_format)
    # The pipe to the service stays free of what a library may print.
    control = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    status = _run(options, load, control)
    sys.stderr.flush()
    # Python would take down every module first, and libraries their threads: seconds of a busy machine, for nothing.
    os._exit(status)


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


def _run(options: argparse.Namespace, load: "Callable[[], Device]", control: TextIO) -> int:
    dismissal = _Dismissal()
    # Slow to import, so only when this process is sure to end with its service.
    from oscine_engine.errors import OscineError
    from oscine_service.event_loop import new_event_loop
    from oscine_service.unit.control import Failed, write

    try:
        # Not closed: that would wait for threads, which may be in the midst of a recording.
        asyncio.Runner(loop_factory=new_event_loop).run(_serve(options, load, control, dismissal))
    except OscineError as error:
        control.write(write(Failed(error)))
        control.flush()
        return 1
    return 0


async def _serve(
    options: argparse.Namespace, load: "Callable[[], Device]", control: TextIO, dismissal: _Dismissal
) -> None:
    from oscine_service.event_loop import lasting
    from oscine_service.unit.control import Ready, write
    from oscine_service.unit.host import hosting

    device = load()
    # The loop's thread is busy between two looks at the socket: let the event loop in sooner than every 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    async with device, hosting(device, options.max_streams, options.socket):
        with lasting():
            control.write(write(Ready()))
            control.flush()
            await dismissal.wait()

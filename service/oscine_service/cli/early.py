"""A service that is told to stop before it listens to signals itself, while its libraries load."""

import os
import signal
from types import FrameType

from oscine_service.cli.telling import tell

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED_EARLY = "stopped before it was serving"


def heeded() -> list[signal.Signals]:
    """Those that end a service. `nohup` has SIGHUP ignored, and means it."""
    return [each for each in SIGNALS if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]


def end_well_on_signals() -> None:
    """End with status 0 on any of SIGNALS: nothing is lost, and whoever sent them asked for the end."""

    def end(number: int, frame: FrameType | None) -> None:
        tell(STOPPED_EARLY)
        # An exception could come between any two lines, and what was being made would complain.
        os._exit(0)

    for each in heeded():
        signal.signal(each, end)

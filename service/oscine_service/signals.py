"""What ends a service, and is left to it by the processes that it starts."""

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded() -> list[signal.Signals]:
    """Those that end this service. `nohup` has SIGHUP ignored, and means it."""
    return [each for each in ENDING if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]


def leave_to_service() -> None:
    """A terminal sends them to all processes of a service; which of those end, and when, it decides."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)

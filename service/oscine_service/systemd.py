"""What systemd is told of a service: sd_notify(3), datagrams to the socket that it names in the environment.

Nothing is told where no service manager asks for it.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

_log = logging.getLogger(__name__)
_SOCKET, _WATCHDOG, _WATCHED = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


@dataclass(frozen=True, slots=True)
class Manager:
    """address: of the socket, as the kernel wants it; None: nobody asks. watchdog_s: without a sign of life for so long
    the service is taken to hang, and started again; None: nobody watches."""

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "Manager":
        """Who asks in `environment`, from which it is taken: processes that this one starts have nothing to tell."""
        address, patience = environment.pop(_SOCKET, ""), environment.pop(_WATCHDOG, "")
        watched = environment.pop(_WATCHED, "") in ("", str(os.getpid()))
        if address[:1] not in ("/", "@"):  # others, such as vsock:, are for virtual machines
            return cls()
        watchdog_s = int(patience) / 1e6 if patience.isdigit() and watched else None
        return cls(address.replace("@", "\0", 1) if address[0] == "@" else address, watchdog_s)

    def ready(self, status: str) -> None:
        """Calls are taken. status: one line, which `systemctl status` shows."""
        self._tell(f"READY=1\nSTATUS={status}")

    def stopping(self, status: str) -> None:
        self._tell(f"STOPPING=1\nSTATUS={status}")

    @asynccontextmanager
    async def watchdog(self) -> AsyncIterator[None]:
        """While the block runs, tell that the event loop turns: one that hangs tells nothing."""
        if self.address is None or self.watchdog_s is None:
            yield
            return
        beating = asyncio.create_task(self._beat(self.watchdog_s / 3), name="oscine-watchdog")
        try:
            yield
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _beat(self, every_s: float) -> None:
        while True:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(every_s)

    def _tell(self, what: str) -> None:
        if self.address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto(what.encode(), self.address)
        except OSError as error:  # calls are served all the same
            _log.warning("the service manager was not told %r: %s", what, error)

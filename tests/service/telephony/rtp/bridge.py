"""A telephone exchange in small: SIP (RFC 3261) over UDP on one side, `/v1/calls` on the other.

It takes every INVITE, and passes its offer on; the answer goes into its 200, and a BYE, from either side, hangs up.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from tests.service.telephony.rtp.telephones import HOST


@dataclass(frozen=True)
class Message:
    """start: its first line. headers: those that are answered with, in order."""

    start: str
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str:
        return next(value for key, value in self.headers if key.lower() == name.lower())


def read(data: bytes) -> Message:
    head, _, body = data.decode().partition("\r\n\r\n")
    start, *lines = head.split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return Message(start, [(name.strip(), value.strip()) for name, _, value in pairs], body)


class Bridge(asyncio.DatagramProtocol):
    """calls: the Call-IDs of those that are up, which are their names there, too. refused: statuses of those that were
    not taken."""

    def __init__(self, service: httpx.AsyncClient) -> None:
        self.calls: set[str] = set()
        self.refused: list[int] = []
        self._service = service
        self._answers: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport
        self.port: int = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not data.strip():
            return
        task = asyncio.create_task(self._take(read(data), addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, message: Message, addr: tuple[str, int]) -> None:
        method, call = message.start.split()[0], message.header("Call-ID")
        match method:
            case "INVITE" if call not in self._answers:
                self._answers[call] = self._written(message, "100 Trying")
                self._transport.sendto(self._answers[call], addr)
                headers = {"content-type": "application/sdp"}
                # As exchanges do for who does not know by which address others reach it: it is where it asks from.
                offer = re.sub(r"^c=IN IP4 \S+", f"c=IN IP4 {addr[0]}", message.body, flags=re.MULTILINE)
                told = await self._service.post("/v1/calls", params={"id": call}, content=offer, headers=headers)
                if told.status_code == 201:
                    self.calls.add(call)
                    self._answers[call] = self._written(message, "200 OK", told.text)
                else:
                    self.refused.append(told.status_code)
                    self._answers[call] = self._written(message, "488 Not Acceptable Here")
                self._transport.sendto(self._answers[call], addr)
            case "INVITE":
                self._transport.sendto(self._answers[call], addr)
            case "BYE":
                await self._service.delete(f"/v1/calls/{call}")
                self.calls.discard(call)
                self._transport.sendto(self._written(message, "200 OK"), addr)

    def _written(self, asked: Message, status: str, body: str = "") -> bytes:
        kept = [(name, value) for name, value in asked.headers if name.lower() in ("via", "from", "call-id", "cseq")]
        to = asked.header("To")
        lines = [
            f"SIP/2.0 {status}",
            *(f"{name}: {value}" for name, value in kept),
            f"To: {to if 'tag=' in to else to + ';tag=bridge'}",
            f"Contact: <sip:{HOST}:{self.port}>",
            *(["Content-Type: application/sdp"] if body else []),
            f"Content-Length: {len(body.encode())}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@asynccontextmanager
async def bridge(address: str) -> AsyncIterator[Bridge]:
    """In front of the service at `address`."""
    async with httpx.AsyncClient(base_url=f"http://{address}") as service:
        loop = asyncio.get_running_loop()
        transport, made = await loop.create_datagram_endpoint(lambda: Bridge(service), (HOST, 0))
        try:
            yield made
        finally:
            transport.close()

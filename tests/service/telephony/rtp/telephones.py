"""The other side of calls over RTP: real sockets, and what came to them."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from oscine_service.telephony.rtp.exchange import Exchange, Place, exchange
from oscine_service.telephony.rtp.packet import Packet, is_rtcp, parse
from oscine_service.telephony.rtp.rtcp import Report
from oscine_service.telephony.rtp.rtcp import parse as parse_reports
from oscine_service.telephony.rtp.sdp import Description
from oscine_service.telephony.rtp.sdp import parse as parse_sdp
from oscine_service.telephony.sink import Sinks

HOST = "127.0.0.1"


@dataclass
class Telephone:
    """rtp, rtcp: its sockets, one where both share it. raw: what came; moments: when."""

    rtp: socket.socket
    rtcp: socket.socket
    raw: list[bytes] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    reports_raw: list[bytes] = field(default_factory=list)

    @property
    def port(self) -> int:
        number: int = self.rtp.getsockname()[1]
        return number

    @property
    def reports_to(self) -> str:
        """The attribute that says where its other port is."""
        return f"a=rtcp:{self.rtcp.getsockname()[1]}"

    @property
    def packets(self) -> list[Packet]:
        return [parse(each) for each in self.raw]

    @property
    def reports(self) -> list[Report]:
        return [report for each in self.reports_raw for report in parse_reports(each)]

    def spoken(self, silence: bytes) -> bytes:
        """The payloads that are not all silence."""
        return b"".join(each.payload for each in self.packets if each.payload != silence)

    async def has(self, packets: int, within_s: float = 30.0) -> None:
        """Wait until so many have come in all."""
        async with asyncio.timeout(within_s):
            while len(self.raw) < packets:
                await asyncio.sleep(0.01)

    async def more(self, packets: int) -> None:
        await self.has(len(self.raw) + packets)


class _Ears(asyncio.DatagramProtocol):
    def __init__(self, telephone: Telephone) -> None:
        self._telephone = telephone

    def datagram_received(self, data: bytes, addr: object) -> None:
        if is_rtcp(data):
            self._telephone.reports_raw.append(data)
        else:
            self._telephone.raw.append(data)
            self._telephone.moments.append(time.monotonic())


@asynccontextmanager
async def telephone(host: str = HOST) -> AsyncIterator[Telephone]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(2)]
        for each in sockets:
            each.setblocking(False)
            each.bind((host, 0))
        made = Telephone(*sockets)
        loop = asyncio.get_running_loop()
        for each in sockets:
            transport, _ = await loop.create_datagram_endpoint(lambda: _Ears(made), sock=each.dup())
            stack.callback(transport.close)
        yield made


@asynccontextmanager
async def taking(place: Place | None = None) -> AsyncIterator[tuple[Exchange, Sinks]]:
    sinks = Sinks()
    async with exchange(place or Place(HOST), sinks) as calls:
        yield calls, sinks


def understood(answer: str) -> Description:
    return parse_sdp(answer)


def open_files() -> Iterator[str]:
    import os

    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/self/fd/{name}")

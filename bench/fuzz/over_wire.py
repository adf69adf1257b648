"""Bytes that are no HTTP, no HTTP/2 and no WebSocket, at the ports themselves."""

from __future__ import annotations

import asyncio
import base64
import struct
from random import Random

from bench.fuzz import draw
from bench.fuzz.verdict import FaultError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ANSWERED_S = 0.05
"""That something is given to answer before the other half of a connection is closed."""
_WAIT_S = 40.0
"""More than the time that a port gives to a client that sends half a head."""


class WireDoor:
    """Both ports: connections that are opened, fed and half closed, which must then be closed from the other side."""

    def __init__(self, grpc: str, http: str, key: str) -> None:
        self._grpc, self._http = grpc, http
        self._key = key

    async def case(self, random: Random) -> list[str]:
        over_http = draw.chance(random, 0.7)
        data = self._for_http(random) if over_http else self._for_grpc(random)
        host, _, port = (self._http if over_http else self._grpc).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        answer = bytearray()
        try:
            for piece in (data,) if draw.chance(random, 0.7) else (data[: len(data) // 2], data[len(data) // 2 :]):
                writer.write(piece)
                await asyncio.wait_for(writer.drain(), _WAIT_S)
                await asyncio.sleep(random.choice((0.0, 0.0, ANSWERED_S)))
            writer.write_eof()
            async with asyncio.timeout(_WAIT_S):
                while piece := await reader.read(65536):
                    answer += piece
        except TimeoutError as error:
            raise FaultError(f"the connection stayed open; sent: {draw.shown(data)}") from error
        except OSError:
            return ["reset"]
        finally:
            writer.close()
        if over_http and answer.startswith(b"HTTP/1.1 5"):
            raise FaultError(f"{draw.shown(bytes(answer))}; sent: {draw.shown(data)}")
        return ["answered" if answer else "closed"]

    def _for_http(self, random: Random) -> bytes:
        if draw.chance(random, 0.1):
            return draw.noise(random, 20_000)
        key = self._key if draw.chance(random, 0.9) else "x"
        head = [f"Host: {self._http}", f"Authorization: Bearer {key}"]
        if draw.chance(random, 0.5):
            return self._for_websocket(random, head)
        body = draw.noise(random, 300)
        length = random.choice((str(len(body)), "-1", "99999999999999999999", "+5", "0x10", str(len(body) + 9)))
        head += random.choice(([f"Content-Length: {length}"], ["Transfer-Encoding: chunked"], ["Connection: close"]))
        if "chunked" in head[-1]:
            body = random.choice(
                (b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\nx", b"5\r\nhe", b"-1\r\n\r\n", body)
            )
        if draw.chance(random, 0.1):
            head.append(f"X: {'a' * random.choice((100, 70_000, 300_000))}")
        path = random.choice(("/v1/audio/speech", "/v1/tokens", "/livez", "/v1/audio/voices", "/metrics", "*", "//"))
        request = f"{random.choice(('GET', 'POST', 'DELETE', 'BREW'))} {path} HTTP/1.1\r\n" + "\r\n".join(head)
        whole = request.encode() + b"\r\n\r\n" + body
        return draw.damaged(random, whole) if draw.chance(random, 0.6) else whole * random.choice((1, 1, 3))

    def _for_websocket(self, random: Random, head: list[str]) -> bytes:
        """A handshake, and frames that are none."""
        key = base64.b64encode(random.randbytes(16)).decode()
        head = [*head, "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}"]
        head.append(f"Sec-WebSocket-Version: {random.choice((13, 13, 13, 8, 99))}")
        path = random.choice(("/v1/speech", "/tts/websocket", "/v1/speak", "/api-ws/v1/inference", "/nowhere"))
        request = f"GET {path} HTTP/1.1\r\n" + "\r\n".join(head)
        frames = b"".join(_frame(random) for _ in range(random.randrange(6)))
        whole = request.encode() + b"\r\n\r\n"
        return (draw.damaged(random, whole) if draw.chance(random, 0.15) else whole) + frames

    def _for_grpc(self, random: Random) -> bytes:
        if draw.chance(random, 0.2):
            return draw.noise(random, 4096)
        frames = b"".join(
            struct.pack(">I", random.choice((len(body), 0, 1 << 14, 0xFFFFFF)))[1:]
            + bytes((random.randrange(12), random.choice((0, 1, 4, 5, 0xFF))))
            + struct.pack(">I", random.choice((0, 1, 3, 0x7FFFFFFF, 0xFFFFFFFF)))
            + body
            for body in (draw.noise(random, 200) for _ in range(random.randrange(5)))
        )
        return PREFACE[: random.choice((len(PREFACE), 10, 20))] + frames


def _frame(random: Random) -> bytes:
    body = random.choice((b'{"type":"flush"}', draw.noise(random, 200), b"\xff\xfe", b"\x03\xe8bye", b""))
    first = random.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x00, 0x83, 0xF1, random.randrange(256)))
    masked = draw.chance(random, 0.85)
    said = random.choice((len(body), len(body), len(body), 126, 127, 0))
    length = (
        bytes((said | 0x80 * masked,))
        if said < 126
        else bytes((126 | 0x80 * masked,)) + struct.pack(">H", random.choice((len(body), 0xFFFF)))
        if said == 126
        else bytes((127 | 0x80 * masked,)) + struct.pack(">Q", random.choice((len(body), 1 << 40, (1 << 63) + 1)))
    )
    mask = random.randbytes(4) if masked else b""
    return (
        bytes((first,))
        + length
        + mask
        + bytes(each ^ mask[at % 4] for at, each in enumerate(body) if mask)
        + (b"" if mask else body)
    )

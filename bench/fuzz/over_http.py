"""Requests of every route over HTTP, whose bodies, forms and headers are not what they should be."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from random import Random
from typing import Any
from urllib.parse import quote

from bench.fuzz import draw
from bench.fuzz.recordings import recording
from bench.fuzz.verdict import HANGING_S, FaultError

OPENAI, VOICES, TOKENS = "speech", "voices", "tokens"
STATUSES = frozenset({200, 201, 204, 400, 401, 403, 404, 405, 408, 409, 413, 429})
SPEECH = {
    "model": "oscine",
    "input": "Hello there.",
    "voice": "ada",
    "response_format": "pcm",
    "stream_format": "audio",
    "speed": 1.0,
    "seed": 1,
    "instructions": "",
    "language": "en",
}
_BOUNDARY = "----fuzz"


class HttpDoor:
    """One kind of route on one port."""

    def __init__(self, name: str, address: str, key: str) -> None:
        self._name = name
        self._address = address
        self._key = key

    async def case(self, random: Random) -> list[str]:
        """The status of an answer. Raises FaultError."""
        method, path, headers, body = {OPENAI: _speech, VOICES: _voices, TOKENS: _tokens}[self._name](random)
        headers = {"Authorization": f"Bearer {self._key}", **headers}
        if draw.chance(random, 0.05):
            headers |= _odd_header(random)
        status, answer, kind = await asyncio.to_thread(self._ask, method, path, headers, body)
        told = f"{method} {path[:200]} {headers} {draw.shown(body)}"
        if status == -1:
            return ["cut off"]
        if status == 307 and path.lower().endswith(("/", "%2f")):
            return ["307"]  # to the same without the slash
        if status not in STATUSES:
            raise FaultError(f"{status} {draw.shown(answer)}: {told}")
        if status >= 400 and method != "HEAD" and not _reason(answer, kind):
            raise FaultError(f"{status} without a reason: {draw.shown(answer)}: {told}")
        return [str(status)]

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        """Status, body and its type; status -1 for who was cut off while it sent too much."""
        connection = http.client.HTTPConnection(self._address, timeout=HANGING_S)
        try:
            try:
                connection.request(method, path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                if len(body) < 1 << 20:
                    raise FaultError(f"cut off: {method} {path} {draw.shown(body)}") from None
            try:
                response = connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                if len(body) < 1 << 20:
                    raise FaultError(f"no answer: {method} {path} {headers} {draw.shown(body)}") from None
                return -1, b"", ""
            return response.status, response.read(), response.headers.get("content-type", "")
        finally:
            connection.close()


def _reason(answer: bytes, kind: str) -> bool:
    """An error in words, in the envelope that clients read."""
    if not kind.startswith("application/json"):
        return False
    error = json.loads(answer).get("error")
    return isinstance(error, dict) and bool(error.get("message")) and bool(error.get("code"))


def _speech(random: Random) -> tuple[str, str, dict[str, str], bytes]:
    if draw.chance(random, 0.05):
        return "GET", f"/v1/models/{quote(draw.plain(random, 30), safe='')}", {}, b""
    wanted: Any = dict(SPEECH)
    wanted["response_format"] = random.choice(("pcm", "wav", "mp3", "flac", "opus", "aac"))
    wanted["stream"] = draw.chance(random, 0.8)
    if draw.chance(random, 0.2):
        wanted["stream_format"] = "sse"
    if draw.chance(random, 0.5):
        wanted["input"] = draw.plain(random)
    if draw.chance(random, 0.04):
        del wanted["voice"]
        wanted["ref_audio"] = base64.b64encode(recording(random)).decode()
        wanted["ref_text"] = draw.plain(random, 60)
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        wanted = draw.altered(random, wanted)
    body = draw.dumped(random, wanted).encode(errors="surrogatepass")
    return "POST", "/v1/audio/speech", {"Content-Type": "application/json"}, _body(random, body)


def _body(random: Random, body: bytes) -> bytes:
    if draw.chance(random, 0.1):
        return draw.damaged(random, body)
    if draw.chance(random, 0.002):
        return body + bytes(random.choice((2 << 20, 13 << 20, 33 << 20)))
    return body


def _voices(random: Random) -> tuple[str, str, dict[str, str], bytes]:
    name = quote(random.choice(("ada", "v1", "v2", draw.plain(random, 40))), safe="") or "x"
    match random.randrange(8):
        case 0:
            asked = random.choice(("", "page_size=3", "page_token=x", f"{quote(draw.plain(random, 12))}=1"))
            return "GET", f"/v1/audio/voices?{asked}", {}, b""
        case 1:
            value = quote(str(random.choice((*draw.NUMBERS, draw.plain(random, 20)))))
            return "GET", f"/v1/audio/voices?page_size={value}", {}, b""
        case 2:
            return "GET", f"/v1/audio/voices/{name}", {}, b""
        case 3:
            return "DELETE", f"/v1/audio/voices/{name}", {}, b""
        case 4:
            return random.choice(("PUT", "PATCH", "OPTIONS", "POST")), f"/v1/audio/voices/{name}", {}, b""
    fields = {"name": f"v{random.randrange(50)}", "transcript": draw.plain(random, 40), "consent": "c", "language": ""}
    if draw.chance(random, 0.4):
        fields[random.choice((*fields, "replace", "type", draw.plain(random, 10)))] = draw.plain(random, 40)
    form = b"".join(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    )
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="audio_sample"; filename="a.wav"\r\n'
    form += head.encode() + b"Content-Type: audio/wav\r\n\r\n" + recording(random) + b"\r\n"
    form += f"--{_BOUNDARY}--\r\n".encode()
    kind = random.choice((*[f"multipart/form-data; boundary={_BOUNDARY}"] * 9, "multipart/form-data", "text/plain"))
    return "POST", "/v1/audio/voices", {"Content-Type": kind}, _body(random, form)


def _tokens(random: Random) -> tuple[str, str, dict[str, str], bytes]:
    wanted: Any = {"expires_in": random.choice((1, 60, 3600))}
    for _ in range(random.randrange(3)):
        wanted = draw.altered(random, wanted)
    body = b"" if draw.chance(random, 0.05) else draw.dumped(random, wanted).encode(errors="surrogatepass")
    headers = {}
    if draw.chance(random, 0.2):
        # Not as header lines can hold it: as they can.
        headers["Authorization"] = f"Bearer ost_{quote(draw.plain(random, 60))}.{quote(draw.plain(random, 40))}"
    return "POST", "/v1/tokens", headers, _body(random, body)


def _odd_header(random: Random) -> dict[str, str]:
    nonsense = quote(draw.plain(random, 40), safe=" []:/?=;,.")
    name = random.choice(
        ("Authorization", "X-API-Key", "Origin", "Host", "Content-Type", "traceparent", "Accept", "Content-Encoding",
         "Access-Control-Request-Method", "Transfer-Encoding-X", "Cookie", "Range", "Expect-X", "X-Forwarded-For")
    )  # fmt: skip
    return {name: nonsense}

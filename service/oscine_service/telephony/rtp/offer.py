"""An offered session -> what is spoken to whom (RFC 3264), or why not. No I/O."""

import ipaddress
from dataclasses import dataclass
from enum import StrEnum

from oscine_codecs import opus
from oscine_engine.errors import InvalidInput
from oscine_service.audio import Format
from oscine_service.telephony.rtp import sdes
from oscine_service.telephony.rtp.codecs import CODECS, FRAME_MS, OPUS, Codec
from oscine_service.telephony.rtp.sdes import Crypto
from oscine_service.telephony.rtp.sdp import Description, Media, parse

PLAIN, SECURE = ("RTP/AVP", "RTP/AVPF"), ("RTP/SAVP", "RTP/SAVPF")
_RATES = tuple(rate for rate in opus.SAMPLE_RATES if rate <= 24000)
"""Of Opus: speech is made at 24 kHz, more would carry nothing."""


class Direction(StrEnum):
    """Of media, as its sender sees it."""

    SENDRECV = "sendrecv"
    SENDONLY = "sendonly"
    RECVONLY = "recvonly"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class Peer:
    """Where the other side listens. rtcp_port: the same as `port` where both come to one."""

    address: str
    port: int
    rtcp_address: str
    rtcp_port: int
    mux: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """What was understood, and chosen, of an offered session.

    media: all of it, in order; index: of the one that is spoken in. payload_type: of `codec`. events: the payload type
    of keys that are pressed, None where none is offered. crypto: the keys that the other side encrypts with, None for
    plain RTP. hears: the direction that is answered; it is sendrecv or sendonly.
    """

    media: tuple[Media, ...]
    index: int
    peer: Peer
    codec: Codec
    payload_type: int
    format: Format
    events: int | None
    crypto: Crypto | None
    hears: Direction


def read(text: str) -> Offer:
    """The first audio of an offer that can be spoken in, in the first codec of it that there is here. Raises
    InvalidInput, which says of the last one why it cannot be."""
    description = parse(text)
    why: InvalidInput | None = None
    for index, media in enumerate(description.media):
        if media.kind != "audio" or not media.port:
            continue
        try:
            return _understood(description, index)
        except InvalidInput as error:
            why = error
    raise why or InvalidInput("offer: no audio in it; an m=audio line with a port is needed")


def _understood(description: Description, index: int) -> Offer:
    media = description.media[index]
    if media.protocol not in (*PLAIN, *SECURE):
        raise InvalidInput(
            f"offer: {media.protocol[:40]} is not spoken here; offer {PLAIN[0]}, or {SECURE[0]} with keys in a=crypto"
        )
    codec, payload_type, parameters = _codec(media)
    return Offer(
        media=description.media,
        index=index,
        peer=_peer(media),
        codec=codec,
        payload_type=payload_type,
        format=_format(codec, parameters),
        events=_events(media, codec),
        crypto=sdes.choose(media.all("crypto")) if media.protocol in SECURE else None,
        hears=_hears(description, media),
    )


def _hears(description: Description, media: Media) -> Direction:
    said = [each.name for each in (*media.attributes, *description.attributes) if each.name in set(Direction)]
    match Direction(said[0]) if said else Direction.SENDRECV:
        case Direction.SENDRECV:
            return Direction.SENDRECV
        case Direction.RECVONLY:
            return Direction.SENDONLY
        case other:
            raise InvalidInput(f"offer: the audio is {other}, and so hears nothing; offer sendrecv or recvonly")


def _codec(media: Media) -> tuple[Codec, int, dict[str, str]]:
    named = _maps(media)
    for format in media.formats:
        number = _payload_type(format)
        told = named.get(number)
        for codec in CODECS:
            if codec.payload_type == number if told is None else _is(codec, told):
                return codec, number, _parameters(media, number)
    offered = ", ".join(named.get(_payload_type(format), format) for format in media.formats)
    raise InvalidInput(f"offer: the audio is in {offered[:200]}; offer opus/48000/2, PCMU/8000 or PCMA/8000")


def _maps(media: Media) -> dict[int, str]:
    found: dict[int, str] = {}
    for value in media.all("rtpmap"):
        number, _, name = value.partition(" ")
        if not name.strip():
            raise InvalidInput(f"offer: {'a=rtpmap:' + value[:40]!r}; expected a=rtpmap:TYPE NAME/RATE")
        found[_payload_type(number)] = name.strip()
    return found


def _payload_type(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) < 128):
        raise InvalidInput(f"offer: {text[:20]!r} is no payload type; use 0 to 127")
    return int(text)


def _is(codec: Codec, told: str) -> bool:
    name, _, rest = told.partition("/")
    wanted = str(codec.clock_rate) if codec.channels == 1 else f"{codec.clock_rate}/{codec.channels}"
    return name.lower() == codec.name.lower() and rest in (wanted, f"{codec.clock_rate}/{codec.channels}")


def _parameters(media: Media, number: int) -> dict[str, str]:
    for value in media.all("fmtp"):
        format, _, told = value.partition(" ")
        if format == str(number):
            pairs = (each.partition("=") for each in told.split(";"))
            return {name.strip().lower(): value.strip() for name, _, value in pairs}
    return {}


def _format(codec: Codec, parameters: dict[str, str]) -> Format:
    if codec is not OPUS:
        return Format(codec.encoding, codec.clock_rate)
    # What the other side plays at, and the bit rate that it wants at most, are wishes (RFC 7587, section 6.1).
    highest = _number(parameters.get("maxplaybackrate"), _RATES[-1])
    rate = max((rate for rate in _RATES if rate <= highest), default=_RATES[0])
    bitrate = min(opus.DEFAULT_BITRATE, _number(parameters.get("maxaveragebitrate"), opus.DEFAULT_BITRATE))
    return Format(codec.encoding, rate, max(opus.MIN_BITRATE, bitrate))


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else otherwise


def _events(media: Media, codec: Codec) -> int | None:
    """Keys are told with the clock of the speech (RFC 4733, section 2.1)."""
    wanted = f"telephone-event/{codec.clock_rate}"
    return next((number for number, name in _maps(media).items() if name.lower() == wanted), None)


def _peer(media: Media) -> Peer:
    _checked_times(media)
    address = _address(media.address)
    mux = media.has("rtcp-mux")
    rtcp_address, rtcp_port = address, media.port if mux else media.port + 1
    if not mux and (told := media.all("rtcp")):
        port, _, elsewhere = told[0].partition(" ")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
            raise InvalidInput(f"offer: {'a=rtcp:' + told[0][:40]!r}; expected a=rtcp:PORT")
        rtcp_port = int(port)
        if elsewhere:
            rtcp_address = _address(elsewhere.split()[-1])
    if rtcp_port > 65535:
        raise InvalidInput("offer: no port is behind 65535 for RTCP; offer an even port, a=rtcp:PORT or a=rtcp-mux")
    return Peer(address, media.port, rtcp_address, rtcp_port, mux)


def _checked_times(media: Media) -> None:
    """Packets here hold 20 ms; `ptime` is a wish, `maxptime` is not."""
    for told in media.all("maxptime"):
        if told.isascii() and told.isdigit() and int(told[:9]) < FRAME_MS:
            raise InvalidInput(f"offer: maxptime is {told[:9]} ms; packets here hold {FRAME_MS} ms")


def _address(text: str) -> str:
    """A literal address of one machine: names are not looked up."""
    if not text:
        raise InvalidInput("offer: no c= line says where the audio is to be sent")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise InvalidInput(f"offer: {text[:60]!r} is no IP address; names are not looked up here") from None
    if address.is_unspecified or address.is_multicast or str(address) == "255.255.255.255":
        raise InvalidInput(f"offer: {address} is not the address of one machine")
    return str(address)

"""What is answered to an offered session (RFC 3264, section 6). No I/O."""

from collections.abc import Iterator

from oscine_service.telephony.rtp.codecs import FRAME_MS, OPUS
from oscine_service.telephony.rtp.offer import Offer
from oscine_service.telephony.rtp.sdes import Crypto
from oscine_service.telephony.rtp.sdp import Media


def write(
    offer: Offer,
    *,
    address: str,
    port: int,
    rtcp_port: int,
    source: int,
    name: str,
    session: int,
    crypto: Crypto | None = None,
) -> str:
    """port, rtcp_port: where packets are taken, at `address`. source, name: of what is sent. session: a number of this
    session's own. crypto: what is sent is encrypted with it."""
    family = "IP6" if ":" in address else "IP4"
    lines = [
        "v=0",
        f"o=- {session} 1 IN {family} {address}",
        "s=-",
        f"c=IN {family} {address}",
        "t=0 0",
    ]
    for number, media in enumerate(offer.media):
        if number != offer.index:
            lines += _declined(media)
        else:
            lines += _spoken(offer, media, port, rtcp_port, source, name, crypto)
    return "".join(f"{line}\r\n" for line in lines)


def _declined(media: Media) -> Iterator[str]:
    """Port 0; the rest is there because a line has it."""
    yield f"m={media.kind} 0 {media.protocol} {' '.join(media.formats)}"
    yield from _mid(media)


def _spoken(
    offer: Offer, media: Media, port: int, rtcp_port: int, source: int, name: str, crypto: Crypto | None
) -> Iterator[str]:
    codec, number = offer.codec, offer.payload_type
    types = [number] if offer.events is None else [number, offer.events]
    yield f"m=audio {port} {media.protocol} {' '.join(map(str, types))}"
    yield from _mid(media)
    channels = f"/{codec.channels}" if codec.channels > 1 else ""
    yield f"a=rtpmap:{number} {codec.name}/{codec.clock_rate}{channels}"
    if codec is OPUS:
        # What is sent is mono, and no more than so much of the band.
        yield f"a=fmtp:{number} sprop-stereo=0; sprop-maxcapturerate={offer.format.sample_rate}"
    if offer.events is not None:
        yield f"a=rtpmap:{offer.events} telephone-event/{codec.clock_rate}"
        yield f"a=fmtp:{offer.events} 0-15"
    yield f"a=ptime:{FRAME_MS}"
    yield f"a={offer.hears}"
    if offer.peer.mux:
        yield "a=rtcp-mux"
    elif rtcp_port != port + 1:
        yield f"a=rtcp:{rtcp_port}"
    if crypto is not None:
        yield f"a=crypto:{crypto.line}"
    yield f"a=ssrc:{source} cname:{name}"


def _mid(media: Media) -> Iterator[str]:
    """What the other side calls the media (RFC 5888)."""
    yield from (f"a=mid:{value}" for value in media.all("mid")[:1])

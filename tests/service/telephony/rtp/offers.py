"""Offers as telephones write them."""

from collections.abc import Sequence


def offer(
    *lines: str,
    formats: str = "0 8 101",
    port: int = 40000,
    address: str = "127.0.0.1",
    protocol: str = "RTP/AVP",
    maps: Sequence[str] = ("0 PCMU/8000", "8 PCMA/8000", "101 telephone-event/8000"),
) -> str:
    """One of audio; `lines` stand at its end."""
    family = "IP6" if ":" in address else "IP4"
    return "\r\n".join(
        [
            "v=0",
            f"o=alice 2890844526 2890844526 IN {family} {address}",
            "s=A call",
            f"c=IN {family} {address}",
            "t=0 0",
            f"m=audio {port} {protocol} {formats}",
            *(f"a=rtpmap:{each}" for each in maps),
            *lines,
            "",
        ]
    )


def opus(*lines: str, port: int = 40000, parameters: str = "") -> str:
    told = (f"a=fmtp:111 {parameters}",) if parameters else ()
    return offer(*told, *lines, formats="111", maps=["111 opus/48000/2"], port=port)

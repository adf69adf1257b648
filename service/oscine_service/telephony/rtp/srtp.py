"""SRTP (RFC 3711) of one call, over pylibsrtp and the libsrtp in it: an extra, `pip install 'oscine[srtp]'`."""

from types import ModuleType

from oscine_codecs.errors import CodecMissing
from oscine_service.telephony.rtp.packet import Malformed
from oscine_service.telephony.rtp.sdes import Crypto

_PROFILES = {
    "AES_CM_128_HMAC_SHA1_80": "SRTP_PROFILE_AES128_CM_SHA1_80",
    "AES_CM_128_HMAC_SHA1_32": "SRTP_PROFILE_AES128_CM_SHA1_32",
    "AEAD_AES_128_GCM": "SRTP_PROFILE_AEAD_AES_128_GCM",
    "AEAD_AES_256_GCM": "SRTP_PROFILE_AEAD_AES_256_GCM",
}


class Srtp:
    """ours: what we send is encrypted with it; theirs: what they send. Raises CodecMissing without the library.

    What goes out and what comes in have nothing in common: each may be in a thread of its own.
    """

    def __init__(self, ours: Crypto, theirs: Crypto) -> None:
        library = _library()
        self._error: type[Exception] = library.Error
        outbound, inbound = library.Policy.SSRC_ANY_OUTBOUND, library.Policy.SSRC_ANY_INBOUND
        self._out = library.Session(policy=_policy(library, ours, outbound))
        # Reports leave from another thread than speech does, and a session is for one.
        self._reports = library.Session(policy=_policy(library, ours, outbound))
        self._in = library.Session(policy=_policy(library, theirs, inbound))

    def speech(self, packet: bytes) -> bytes:
        """An RTP packet to send, encrypted."""
        data: bytes = self._out.protect(packet)
        return data

    def report(self, packet: bytes) -> bytes:
        """An RTCP packet to send, encrypted."""
        data: bytes = self._reports.protect_rtcp(packet)
        return data

    def came(self, data: bytes, *, rtcp: bool) -> bytes:
        """What was received, decrypted. Raises Malformed for what was not encrypted with their key, or came before."""
        try:
            packet: bytes = self._in.unprotect_rtcp(data) if rtcp else self._in.unprotect(data)
        except self._error as error:
            raise Malformed(f"not of this call: {error}") from error
        return packet


def _library() -> ModuleType:
    try:
        import pylibsrtp
    except ImportError as error:
        raise CodecMissing("SRTP is an extra: pip install 'oscine[srtp]' and start again, or offer RTP/AVP") from error
    library: ModuleType = pylibsrtp
    return library


def _policy(library: ModuleType, crypto: Crypto, direction: int) -> object:
    profile = getattr(library.Policy, _PROFILES[crypto.suite])
    return library.Policy(key=crypto.key, ssrc_type=direction, srtp_profile=profile)

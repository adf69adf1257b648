"""What a replay sends, without sending it, and what a decoder that is not the browser's makes of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.transport.replay import FIRST, NEXT, RATE, ReplayPort
from oscine_codecs.opus import OpusDecoder
from oscine_service.audio import Encoding, Format, writer

Samples = NDArray[np.float32]
PLAYED_RATE = 48000


def spoken(port: ReplayPort, seed: int) -> Samples:
    """The samples [n] at 24 kHz of the call with that seed."""
    pieces, start = [], 0
    while start < port.total:
        count = min(NEXT if start else FIRST, port.total - start)
        pieces.append(port.packet(seed, start, count))
        start += count
    return np.concatenate(pieces)


def heard(samples: Samples, format: Format) -> Samples:
    """What a player makes of samples at 24 kHz that were sent in `format`: [m] at 48 kHz."""
    coder = writer(format)
    # A second at a time, as an engine does.
    blocks = [coder.push(samples[at : at + RATE]) for at in range(0, len(samples), RATE)] + [coder.finish()]
    frames = [frame for block in blocks if block is not None for frame in block.frames]
    total = len(samples) * PLAYED_RATE // RATE
    if format.encoding is Encoding.PCM16:
        return np.concatenate([np.frombuffer(frame, "<i2") for frame in frames]).astype(np.float32)[:total] / 32768
    decoder = OpusDecoder(PLAYED_RATE)
    return np.concatenate([decoder.decode(frame) for frame in frames])[coder.pre_skip :][:total]

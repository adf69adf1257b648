"""Something to say in a call, and how like it is what was heard."""

import numpy as np
from numpy.typing import NDArray

from oscine_service.audio import writer
from oscine_service.telephony.sink import Turn

SECONDS = 2


def speech(rate: int = 24000) -> NDArray[np.float32]:
    """Something that is nowhere like itself: a sweep under an envelope."""
    at = np.arange(SECONDS * rate) / rate
    swept = np.sin(2 * np.pi * (200 * at + 400 * at**2)) * (0.55 + 0.45 * np.sin(2 * np.pi * 3.1 * at))
    return (0.5 * swept).astype(np.float32)


async def say(turn: Turn) -> list[bytes]:
    """`speech`, until it was heard; the frames."""
    encoder = writer(turn.format)
    blocks = [encoder.push(speech()), encoder.flush(), encoder.finish()]
    frames: list[bytes] = []
    for block in filter(None, blocks):
        frames += block.frames
        await turn.write(block.frames, block.samples)
    await turn.flush()
    while turn.heard < turn.written:
        await turn.change()
    return frames


def part(heard: NDArray[np.float32], said: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where `said` fits best into `heard`; shorter where that ends before."""
    size = 1 << (len(heard) + len(said)).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)), size)
    place = int(np.argmax(product[: len(heard)]))
    return heard[place : place + len(said)]


def likeness(heard: NDArray[np.float32], said: NDArray[np.float32]) -> float:
    """The correlation of the two there."""
    piece = part(heard, said)
    said = said[: len(piece)]
    return float((piece * said).sum() / np.sqrt((piece**2).sum() * (said**2).sum()))

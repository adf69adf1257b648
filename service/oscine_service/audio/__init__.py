"""Engine samples -> the frames or bytes of what a listener asked for, with exact positions."""

from oscine_service.audio.formats import SAMPLE_RATE, Container, Encoding, Format
from oscine_service.audio.positions import Positions
from oscine_service.audio.writers import Block, Writer, has_head, takes_long, waits, whole, writer

__all__ = [
    "SAMPLE_RATE",
    "Block",
    "Container",
    "Encoding",
    "Format",
    "Positions",
    "Writer",
    "has_head",
    "takes_long",
    "waits",
    "whole",
    "writer",
]

"""Voices of recordings that come with a request, made in the process that speaks in them."""

from functools import cached_property

from oscine_engine.checkpoint.layout import ModelFiles
from oscine_engine.config import FrontEnd
from oscine_engine.port import HeardVoice
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.registration import Reference, register

NAME = "reference"
"""What such a voice is called in messages; nobody can ask for it by that."""


class Registrar:
    """Loads the encoders of a model when the first recording comes. Raises CheckpointError for a model without them."""

    def __init__(self, files: ModelFiles) -> None:
        self._paths = files.encoders()

    @cached_property
    def _encoders(self) -> Encoders:
        return Encoders(*self._paths)

    def voice(self, rules: FrontEnd, heard: HeardVoice) -> VoicePrompt:
        """Raises InvalidInput for a recording that makes no voice, saying why."""
        reference = Reference(NAME, heard.transcript, heard.language)
        return register(heard.samples, heard.rate, reference, self._encoders, rules)

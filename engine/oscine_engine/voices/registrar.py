"""Voices of recordings that come with a request, made in the process that speaks in them."""

from oscine_engine.checkpoint.layout import ModelFiles
from oscine_engine.config import FrontEnd
from oscine_engine.port import HeardVoice
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.registration import Reference, register

NAME = "reference"
"""What such a voice is called in messages; nobody can ask for it by that."""


class Registrar:
    """The encoders of a model, loaded at once: the released ones take seconds. threads: that one recording may use.

    Raises CheckpointError for a model without them.
    """

    def __init__(self, files: ModelFiles, rules: FrontEnd, *, threads: int = 1) -> None:
        self._rules = rules
        self._encoders = Encoders(*files.encoders(), threads=threads)

    def voice(self, heard: HeardVoice) -> VoicePrompt:
        """Raises InvalidInput for a recording that makes no voice, saying why."""
        reference = Reference(NAME, heard.transcript, heard.language)
        return register(heard.samples, heard.rate, reference, self._encoders, self._rules)

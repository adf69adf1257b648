"""Which word of a text is the last one that the model needs before it can make its first sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from oscine_engine.checkpoint import configuration, layout
from oscine_engine.checkpoint.voices import read_voices
from oscine_engine.errors import UnknownVoice
from oscine_engine.events import Mode
from oscine_engine.planner import Begin, End, Ids, Planner
from oscine_engine.runtime.device import HEAD_START
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.tokenizer import Tokenizer
from oscine_engine.voices.prompt import aligned


@dataclass(frozen=True, slots=True)
class Start:
    """The rules of one model and voice, without its networks.

    ids: text ids an interleaved sentence needs: those of the blocks whose speech ids make up the first chunk of the
    flow and its look-ahead. voice: the name that was chosen.
    """

    front_end: FrontEnd
    voice: str
    ids: int

    @classmethod
    def of(cls, model: Path | None, voice: str | None) -> Self:
        """Read a model directory (None: the embedded voice). Raises CheckpointError or UnknownVoice."""
        files = layout.find(model)
        config = configuration.read_config(files)
        tokenizer = Tokenizer.load(files.text_model)
        voices = read_voices(files.voices, tokenizer.decode) if files.voices else {}
        name = voice or next(iter(voices), "")
        if name not in voices:
            raise UnknownVoice(f"there is no voice {name!r}; this model has {', '.join(voices) or 'none'}")
        chunk = config.flow.dit.static_chunk_size // config.flow.token_mel_ratio
        prompt = aligned(voices[name], chunk, HEAD_START).flow_speech_tokens.numel()
        speech = chunk - prompt % chunk + config.flow.pre_lookahead_len
        text_block, speech_block = config.text.mix_ratio
        return cls(FrontEnd(config.text.front_end, tokenizer), name, text_block * -(-speech // speech_block))

    def needs(self, pieces: Sequence[str], mode: Mode) -> int:
        """Index of the piece with which the first sound can be computed; the last one where only the end settles it."""
        planner = Planner(self.front_end, mode)
        count = 0
        for index, piece in enumerate(pieces):
            for step in planner.push(piece):
                match step:
                    case Begin():
                        count = 0
                    case Ids(ids=ids):
                        count += len(ids)
                        if count >= self.ids:
                            return index
                    case End():
                        return index
        return len(pieces) - 1

"""`oscine voices`: what a model can speak as, without loading its networks."""

from pathlib import Path

from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.voices import read_voices
from oscine_engine.text.tokenizer import Tokenizer


async def voices(model: Path | None) -> None:
    """Print each voice's name, language and description; the first is the default."""
    files = layout.find(model)
    found = read_voices(files.voices, Tokenizer.load(files.text_model).decode) if files.voices else {}
    width = max(map(len, found), default=0)
    for name, voice in found.items():
        print(f"{name:{width}}  {voice.language}  {voice.description}".rstrip())

"""Names that OpenAI's clients use, and what they stand for here."""

from collections.abc import Callable, Mapping, Sequence

from oscine_engine.errors import InvalidInput
from oscine_engine.front import VoiceInfo

OWN_MODEL = "oscine"
MODELS = (OWN_MODEL, "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15")
"""All of them the one model that this service speaks with: clients have lists of their own."""
STOCK_VOICES = (
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "fable",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
)


class UnknownModel(InvalidInput):
    """There is no model of that name."""

    code = "model_not_found"
    param = "model"
    http = 404


def mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Pairs of the form NAME=VOICE -> {NAME: VOICE}. Raises InvalidInput for others."""
    found = {}
    for pair in pairs:
        name, equals, voice = (part.strip() for part in pair.partition("="))
        if not (name and equals and voice):
            raise InvalidInput(f"openai_voices: {pair!r} is not NAME=VOICE, such as alloy=anna")
        found[name] = voice
    return found


def voices(known: Mapping[str, VoiceInfo], given: Mapping[str, str]) -> Callable[[str], str]:
    """A function that says which voice a name stands for: one that was given; else the voice of that name; else, for
    one of OpenAI's, one of the model's, each time the same. Other names are left as they are: a store may know them.
    Whoever has a voice of such a name in a store means that one, and need not ask.

    known: the model's own, the default first. OpenAI's are spread over those of the default's language.
    """
    default = next(iter(known.values()), None)
    alike = [name for name, info in known.items() if default is not None and info.language == default.language]

    def voice_of(name: str) -> str:
        if name in given:
            return given[name]
        if name in known or name not in STOCK_VOICES or not alike:
            return name
        return alike[STOCK_VOICES.index(name) % len(alike)]

    return voice_of

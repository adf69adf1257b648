"""What must be true of what a client heard. Each raises AssertionError with what is wrong."""

from bench.asr import Recogniser
from oscine_service.listening.scoring import edits, syllables, words
from tests.interop.performer import Heard

MOST_WRONG = 0.34
"""Of the words, or of Mandarin's syllables. A small recogniser errs, and so does a small voice; speech that is cut, or
said twice, or at another rate, or that of another turn is beyond this."""
AT_ONCE_S = 1.0
"""After the beginning of the sound, the first word has begun."""


def understood(heard: Heard, text: str, recogniser: Recogniser) -> None:
    assert heard.seconds > 1, f"{heard.seconds:.2f} s of sound"
    said = recogniser.transcribe(heard.samples, heard.rate)
    units = words if recogniser.lang == "en" else syllables
    wrong = edits(units(text), units(said)) / len(units(text))
    assert wrong <= MOST_WRONG, f"{text!r} was heard as {said!r}"


def timed(heard: Heard, text: str) -> None:
    """All words are there, in order, and their times lie in the sound that was heard."""
    told = "".join(word for word, *_ in heard.words)
    assert _letters(told) == _letters(text), f"the words of {text!r} are told as {heard.words}"
    assert len(heard.words) > len(text.split()) / 2, f"few have times of their own: {heard.words}"
    starts = [start for _, start, *_ in heard.words]
    ends = [end for _, start, end in (each if len(each) == 3 else (*each, each[1]) for each in heard.words)]
    assert all(start <= end for start, end in zip(starts, ends, strict=True)), f"a word ends before it starts: {ends}"
    assert starts == sorted(starts) and 0 <= starts[0] < AT_ONCE_S, f"words start at {starts}"
    late = f"the last of {len(starts)} words is at {starts[-1]:.2f} to {ends[-1]:.2f} s of {heard.seconds:.2f} s"
    assert heard.seconds / 2 < starts[-1] and ends[-1] < heard.seconds + 0.1, late


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()

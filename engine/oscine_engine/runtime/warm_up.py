"""Everyday sentences said to nobody before the engine is ready, so that the first listener waits for nothing.

What is captured has run, but not all of what leads there and back: each sentence is said alone, then all are together.
"""

from collections.abc import Sequence

from oscine_engine.errors import Cancelled, OscineError, RunAway
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.runtime.book import ReadyVoice
from oscine_engine.runtime.core import Core
from oscine_engine.runtime.stream import Stream

SENTENCES = (
    "Good morning! How can I help you today?",
    "Just a moment, please, I am looking that up for you.",
    "Your appointment is on Tuesday the 3rd at 10:30.",
    "Thank you for calling, and have a nice day.",
    "您好，请问有什么可以帮您？",
    "请稍等，我马上为您查询。",
    "您的订单将在明天上午送到。",
    "感谢您的来电，再见！",
)
LONGEST_S = 3.0
"""Of each sentence; then all stages have had their first chunk, a whole one and more."""


def speak(core: Core, voice: ReadyVoice, texts: Sequence[Sequence[int]]) -> None:
    """Say `texts`, ids of a sentence each, in every way there is. Leaves nothing behind but truer costs.

    Raises what a sentence fails with, unless the model just does not end it.
    """
    for text in texts:
        _say(core, voice, [text])
    most = core.bounds.limits.streams
    for first in range(0, len(texts), most):
        _say(core, voice, texts[first : first + most])


def _say(core: Core, voice: ReadyVoice, texts: Sequence[Sequence[int]]) -> None:
    errors: list[OscineError] = []

    def deliver(event: PortEvent) -> None:
        if isinstance(event, OscineError) and not isinstance(event, RunAway | Cancelled):
            errors.append(event)

    streams: list[Stream] = []
    observe, core.observe = core.observe, None
    try:
        for seed, text in enumerate(texts):
            stream = core.admit(StreamOptions(voice.name, seed, True), deliver, voice)
            streams.append(stream)
            core.speak(stream, [Begin(whole=seed % 2 == 0), Ids(tuple(text)), End()], end=True)
        while core.turn() or core.wait():
            for stream in streams:
                listener = stream.listener
                core.taken(stream, listener.sent - listener.taken)
                if listener.sent > LONGEST_S * listener.rate:
                    core.end(stream, Cancelled("enough was said"))
    finally:
        for stream in streams:
            core.end(stream, Cancelled("the warm-up is over"))
        core.observe = observe
    if errors:
        raise errors[0]

"""The training form of a sequence: the layout of `interleave`'s table with its targets, written down directly."""

from collections.abc import Sequence
from typing import NamedTuple

from oscine_engine.lm.interleave import Input, Kind, Layout

IGNORE = -1


class TrainingSequence(NamedTuple):
    """Equal-length lists: `kinds` (0 text, 1 speech embedding), `ids` and `targets` (head rows, or IGNORE).

    targets[i] is to be predicted from the hidden state at position i.
    """

    kinds: list[int]
    ids: list[int]
    targets: list[int]


def fits_interleaved(text_count: int, speech_count: int, layout: Layout) -> bool:
    """Whether speech is long enough for every block of the text to be full, with some left for the tail."""
    return speech_count * layout.text_block > text_count * layout.speech_block


def training_sequence(
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    layout: Layout,
    interleaved: bool,
    prefix: Sequence[int] = (),
) -> TrainingSequence:
    """Lay out an utterance: `prefix` (text ids up to and including endofprompt), its text and its speech.

    Raises ValueError if an interleaved layout would leave a block without its speech; see `fits_interleaved`.
    """
    n, m = layout.text_block, layout.speech_block
    blocks = len(text_ids) // n if interleaved else 0
    if len(speech_ids) < blocks * m:
        raise ValueError(
            f"{len(speech_ids)} speech ids cannot fill {blocks} blocks of {m}; lay this utterance out as a whole"
        )
    text = [Input(Kind.TEXT, i) for i in text_ids]
    speech = [Input(Kind.SPEECH, i) for i in speech_ids]
    inputs = [layout.sos, *(Input(Kind.TEXT, i) for i in prefix)]
    for block in range(blocks):
        inputs += text[block * n : (block + 1) * n]
        inputs += speech[block * m : (block + 1) * m]
    inputs += [*text[blocks * n :], layout.task_id, *speech[blocks * m :]]
    targets = [_target(now, after, layout) for now, after in zip(inputs, [*inputs[1:], None], strict=True)]
    return TrainingSequence([i.kind.value for i in inputs], [i.id for i in inputs], targets)


def _target(now: Input, after: Input | None, layout: Layout) -> int:
    """The next speech id; `fill` where text or task_id follows speech; eos at the end; nothing elsewhere."""
    if after is None:
        return layout.eos
    if _is_speech(after, layout):
        return after.id
    return layout.fill if _is_speech(now, layout) else IGNORE


def _is_speech(item: Input, layout: Layout) -> bool:
    return item.kind is Kind.SPEECH and item.id < layout.speech_token_size

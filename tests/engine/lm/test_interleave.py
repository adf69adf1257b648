"""The interleaving table: any arrival of text gives the training layout, and nothing illegal can be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.lm.interleave import Input, Interleaver, Kind, Layout, Phase, Prompt
from oscine_engine.lm.sequence import IGNORE, fits_interleaved, training_sequence

LAYOUT = Layout(speech_token_size=100, text_block=5, speech_block=15, min_ratio=2, max_ratio=20)
SMALL = Layout(speech_token_size=100, text_block=2, speech_block=3, min_ratio=1, max_ratio=9)
PREFIX = (7, 8, 9)


class Listener:
    """Drives a machine with known speech, feeding text in given pieces, and notes every input."""

    def __init__(self, machine: Interleaver, speech: list[int]) -> None:
        self.machine = machine
        self.speech = speech
        self.inputs: list[Input] = []

    def run(self) -> None:
        while self.machine.num_pending and self.machine.phase is not Phase.DONE:
            feed = self.machine.take()
            self.inputs += feed.inputs
            if feed.says:
                said = self.machine.said
                self.machine.say(self.speech[said] if said < len(self.speech) else self.machine.layout.eos)


def replay(
    layout: Layout,
    prompt: Prompt,
    text: list[int],
    speech: list[int],
    pieces: list[int],
    *,
    interleaved: bool,
) -> Listener:
    """Feed `text` in pieces of the given sizes (the rest at once), running the machine dry after each."""
    listener = Listener(Interleaver(layout, prompt, interleaved=interleaved), speech)
    listener.run()
    at = 0
    for size in pieces:
        listener.machine.add_text(text[at : at + size])
        at += size
        listener.run()
    listener.machine.add_text(text[at:])
    listener.machine.end_text()
    listener.run()
    return listener


texts = st.lists(st.integers(0, 49), min_size=1, max_size=23)
pieces = st.lists(st.integers(0, 7), max_size=12)


@given(texts, pieces, st.booleans(), st.integers(0, 30), st.sampled_from([LAYOUT, SMALL]))
def test_replaying_the_truth_feeds_the_training_inputs(
    text: list[int], pieces: list[int], interleaved: bool, extra: int, layout: Layout
) -> None:
    count = max(len(text) // layout.text_block * layout.speech_block, int(layout.min_ratio * len(text))) + extra
    speech = [i % layout.speech_token_size for i in range(min(count, layout.max_ratio * len(text) - 1))]
    heard = replay(layout, Prompt(prefix=PREFIX), text, speech, pieces, interleaved=interleaved)
    wanted = training_sequence(text, speech, layout, interleaved, PREFIX)
    assert [(i.kind, i.id) for i in heard.inputs] == list(zip(wanted.kinds, wanted.ids, strict=True))
    assert heard.machine.phase is Phase.DONE
    assert heard.machine.said == len(speech)


@given(texts, pieces, st.integers(0, 40), st.integers(0, 40))
def test_arrival_of_text_never_shows_in_the_inputs(
    text: list[int], pieces: list[int], transcript_count: int, speech_count: int
) -> None:
    prompt = Prompt(PREFIX, tuple(range(50, 50 + transcript_count)) if speech_count else (), (3,) * speech_count)
    speech = [i % 100 for i in range(12 * len(text) + 200)]
    at_once = replay(LAYOUT, prompt, text, speech, [], interleaved=True)
    in_pieces = replay(LAYOUT, prompt, text, speech, pieces, interleaved=True)
    assert in_pieces.inputs == at_once.inputs
    fed = [i for i in at_once.inputs if i.kind is Kind.TEXT]
    assert [i.id for i in fed] == [*PREFIX, *prompt.transcript, *text]
    said = [i.id for i in at_once.inputs if i.kind is Kind.SPEECH and i.id < 100]
    spoken = [*prompt.speech, *speech[: at_once.machine.said]]
    assert said in (spoken, spoken[:-1])


@pytest.mark.parametrize(
    ("prompt_speech", "transcript", "wanted"),
    [(0, 0, 5), (27, 4, 6), (50, 7, 13), (100, 15, 20), (30, 10, 5), (37, 15, 1)],
)
def test_target_ids_before_speech(prompt_speech: int, transcript: int, wanted: int) -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX, (1,) * transcript, (2,) * prompt_speech), interleaved=True)
    count = 0
    while True:
        if machine.num_pending and machine.take().says:
            break
        machine.add_text([11])
        count += 1
    assert count == wanted


def test_a_block_says_exactly_its_ids_then_waits_for_its_text() -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX), interleaved=True)
    machine.add_text([1, 2, 3, 4, 5, 6, 7, 8, 9])
    for _ in range(15):
        feed = machine.take()
        assert feed.says
        assert not feed.may_end
        machine.say(4)
    assert not machine.take().says
    assert machine.needs_text
    machine.add_text([10])
    assert machine.take().says


def test_early_end_keeps_the_prompt_speech() -> None:
    prompt = Prompt(PREFIX, (1, 2), tuple(range(37)))
    machine = Interleaver(LAYOUT, prompt, interleaved=True)
    machine.add_text([3, 4, 5, 6])
    machine.end_text()
    inputs = machine.take().inputs
    kinds = [i.kind for i in inputs]
    assert [i.id for i in inputs if i.kind is Kind.SPEECH] == [100, *range(15), 102, *range(15, 37)]
    assert kinds[4:9] == [Kind.TEXT] * 5
    assert inputs[24] == Input(Kind.TEXT, 6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_lengths_are_held(interleaved: bool) -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX), interleaved=interleaved)
    machine.add_text([1, 2, 3])
    machine.end_text()
    while machine.phase is not Phase.DONE:
        feed = machine.take()
        assert feed.may_end == (machine.said >= 6)
        machine.say(0)
    assert machine.said == 60


def test_eos_before_the_minimum_is_an_error_and_after_it_the_end() -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX), interleaved=False)
    machine.add_text([1])
    machine.end_text()
    machine.take()
    with pytest.raises(ValueError, match="not legal"):
        machine.say(LAYOUT.eos)
    machine.say(0)
    machine.say(0)
    assert machine.say(LAYOUT.eos) is False
    assert machine.phase is Phase.DONE


@pytest.mark.parametrize("illegal", [100, 102, 103, 150, -1])
def test_control_and_unused_ids_cannot_be_said(illegal: int) -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX), interleaved=True)
    machine.add_text([1] * 5)
    machine.take()
    with pytest.raises(ValueError, match="not legal"):
        machine.say(illegal)


@pytest.mark.parametrize("interleaved", [False, True])
def test_empty_text_says_nothing(interleaved: bool) -> None:
    machine = Interleaver(LAYOUT, Prompt(PREFIX), interleaved=interleaved)
    machine.end_text()
    assert machine.phase is Phase.DONE
    assert machine.num_pending == 0


def test_text_after_its_end_is_refused() -> None:
    machine = Interleaver(LAYOUT, Prompt(), interleaved=False)
    machine.end_text()
    with pytest.raises(ValueError, match="after its end"):
        machine.add_text([1])


def test_a_transcript_without_its_speech_is_refused() -> None:
    with pytest.raises(ValueError, match="transcript"):
        Prompt(PREFIX, transcript=(1,))


def test_training_targets() -> None:
    text, speech = [1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15, 16]
    kinds, ids, targets = training_sequence(text, speech, SMALL, True, (9,))
    assert ids == [100, 9, 1, 2, 10, 11, 12, 3, 4, 13, 14, 15, 5, 102, 16]
    assert kinds == [1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]
    x = IGNORE
    assert targets == [x, x, x, 10, 11, 12, 103, x, 13, 14, 15, 103, x, 16, 101]
    whole = training_sequence(text, speech, SMALL, False)
    assert whole.targets == [x] * 6 + [*speech, 101]


def test_training_layout_of_an_exact_multiple_ends_with_an_empty_row() -> None:
    _, ids, targets = training_sequence([1, 2], [10, 11, 12], SMALL, True)
    assert ids == [100, 1, 2, 10, 11, 12, 102]
    assert targets[-2:] == [103, 101]


def test_speech_too_short_for_its_blocks_is_refused() -> None:
    assert not fits_interleaved(4, 6, SMALL)
    assert fits_interleaved(4, 7, SMALL)
    with pytest.raises(ValueError, match="cannot fill"):
        training_sequence([1, 2, 3, 4], [5], SMALL, True)


@given(st.integers(1, 14), st.lists(st.integers(1, 20), min_size=1, max_size=30), st.booleans())
def test_a_run_of_ids_is_the_ids_one_by_one(words: int, runs: list[int], interleaved: bool) -> None:
    """Wherever there is room for more than the run; and the machine goes on as if nothing had been quick."""
    quick, slow = (Interleaver(LAYOUT, Prompt(PREFIX), interleaved=interleaved) for _ in range(2))
    for machine in (quick, slow):
        machine.add_text(range(words))
        machine.end_text()
    said = 0
    for length in runs:
        fed = [quick.take().inputs, slow.take().inputs]
        assert fed[0] == fed[1]
        if not quick.says:
            continue
        ids = [(said + i) % 100 for i in range(min(length, quick.room))]
        if len(ids) < quick.room:
            quick.ran(ids)
        else:
            for place, id in enumerate(ids):
                quick.say(id)
                if place + 1 < len(ids):
                    quick.take()
        for place, id in enumerate(ids):
            slow.say(id)
            if place + 1 < len(ids):
                assert slow.take().inputs == [(Kind.SPEECH, id)]
        said += len(ids)
        seen = [(m.phase, m.said, m.room, list(m.waiting), m.ends_from, m.capped) for m in (quick, slow)]
        assert seen[0] == seen[1]

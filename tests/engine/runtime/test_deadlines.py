"""Time in the loop, on a clock that ticks move: starts, credit, underruns and starvation of real streams."""

import math
from dataclasses import replace

import numpy as np
import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.events import Audio, Flushed
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.port import Progress
from oscine_engine.runtime.device import DeviceLimits
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.start import DELIVERY_S
from oscine_engine.scheduler.views import Stage, Tick
from tests.engine.runtime.rig import COSTS, SAME, Rig, words

LONG = [words(14)] * 8
RATE = 24000


def slower(factor: float) -> CostModel:
    lm, flow, vocoder = (
        replace(curve, points=tuple((rows, factor * seconds) for rows, seconds in curve.points))
        for curve in (COSTS.lm, COSTS.flow, COSTS.vocoder)
    )
    return replace(COSTS, lm=lm, flow=flow, vocoder=vocoder)


def rig_of(checkpoint: Checkpoint, costs: CostModel = COSTS, **limits: float) -> Rig:
    return Rig(
        checkpoint,
        DeviceLimits(**{"max_streams": 4, "utilisation": math.inf, **limits}),  # type: ignore[arg-type]
        costs=costs,
    )


def test_an_idle_device_sends_the_first_packet_at_once(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint)
    stream, ear = rig.open()
    rig.say(stream, words(9))
    while not ear.of(Audio):
        rig.turn()
    assert ear.of(Audio)[0].samples.size == 7672, "k = 10: 320 ms less 8 samples"
    assert rig.stages.ticks.count((Stage.VOCODER, 1)) == 1


def test_a_packet_is_due_before_its_listener_runs_dry(checkpoint: Checkpoint) -> None:
    """What reaches a listener just then comes too late: to hand it over takes some milliseconds."""
    rig = rig_of(checkpoint)
    stream, _ = rig.open()
    rig.say(stream, *LONG)
    while stream.listener.first:
        rig.turn()
    rig.core._views(rig.clock())
    assert stream.listener.dry_at is not None
    assert stream.view.dry_at == stream.listener.dry_at - DELIVERY_S


def test_a_device_that_needs_longer_for_a_chunk_than_the_first_packet_lasts_holds_it_back(
    checkpoint: Checkpoint,
) -> None:
    """A chunk takes 0.25 s here, its ids as long again: 320 ms would not last, so the start waits until they would."""
    rig = rig_of(checkpoint, slower(5))
    stream, ear = rig.open()
    rig.say(stream, *LONG)
    while not stream.held:
        assert rig.turn()
    made = rig.clock.now
    assert not ear.of(Audio)
    rig.run()
    first = next(time for time, event in ear.events if isinstance(event, Audio))
    assert made < first < made + 0.5
    assert ear.done.stats.underruns == 0
    assert next(event.working for event in ear.of(Progress))
    ear.check()


def test_what_is_held_goes_out_when_the_text_has_run_dry(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint, slower(8))
    stream, ear = rig.open()
    rig.core.speak(stream, [Begin(whole=False), Ids(tuple(words(5)))])
    rig.run()
    assert ear.samples.size > 0 and not stream.held
    rig.core.speak(stream, [End()], end=True)
    rig.run()
    assert ear.done


@pytest.mark.parametrize("mark", [False, True])
def test_a_short_sentence_is_answered_after_it_was_sent(checkpoint: Checkpoint, mark: bool) -> None:
    rig = rig_of(checkpoint, slower(8))
    stream, ear = rig.open()
    rig.say(stream, words(4), mark=mark, end=False)
    rig.say(stream, words(14))
    rig.run()
    first = next(place for place, (_, event) in enumerate(ear.events) if isinstance(event, Audio))
    answers = [
        place
        for place, (_, event) in enumerate(ear.events)
        if isinstance(event, Flushed) or (isinstance(event, Progress) and event.answered)
    ]
    assert answers and min(answers) > first
    ear.check()


def test_credit_bounds_how_far_ahead_a_stream_is_computed(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint, max_waiting_s=2.0)
    rig.takes = False
    stream, ear = rig.open()
    rig.say(stream, *LONG)
    rig.run()
    sent = ear.samples.size
    assert 1.0 < sent / RATE <= 2.0
    assert not ear.of(Progress)[-1].working
    rig.run()
    assert ear.samples.size == sent, "nothing moves until room is made"
    rig.core.taken(stream, RATE)
    rig.run()
    assert sent < ear.samples.size <= 3 * RATE
    sent = ear.samples.size
    rig.core.taken(stream, 60 * RATE)
    rig.core.played(stream, RATE // 4)
    rig.run()
    assert ear.samples.size == sent, "what the listener reports counts from then on, not what it took"
    rig.core.played(stream, sent)
    rig.run()
    assert ear.samples.size > sent
    while not ear.over:
        rig.core.played(stream, ear.samples.size)
        rig.run()
    assert ear.done.stats.underruns == 0 or ear.done.stats.underrun_s >= 0
    assert ear.done.stats.starved == 0, "waiting for its own listener is not waiting for text"
    np.testing.assert_allclose(ear.samples, rig_of(checkpoint).heard(*LONG), atol=SAME)


@pytest.mark.parametrize("most_s", [2.5, 3.5, 5.25])
def test_no_stream_is_ever_further_ahead_than_it_may_be(checkpoint: Checkpoint, most_s: float) -> None:
    """Over the ends of short sentences, too, whose last frames come out of the vocoder late."""
    rig = rig_of(checkpoint, max_waiting_s=most_s)
    rig.takes = False
    stream, ear = rig.open()
    rig.say(stream, *LONG, words(3), words(4), *LONG)
    taken = most = 0
    while not ear.over:
        rig.run()
        most = max(most, ear.samples.size - taken)
        rig.core.taken(stream, RATE // 3)
        taken = min(taken + RATE // 3, ear.samples.size)
    assert most <= most_s * RATE
    assert most > (most_s - 1.5) * RATE, "and it is made use of"


def test_admission_counts_what_a_newcomer_reads(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint)
    stream, _ = rig.open()
    rig.say(stream, words(60))
    rig.core._views(0.0)
    assert 60 < stream.view.lm_rows <= rig.core.bounds.pace.prompt_rows


def test_a_crowd_is_told_different_times(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint, DeviceLimits(max_streams=1, utilisation=math.inf))
    rig.open()
    rig.clock.now += 3.0
    hints = []
    for _ in range(3):
        with pytest.raises(Overloaded) as refused:
            rig.open()
        hints.append(refused.value.retry_after_s)
    assert hints[0] < hints[1] < hints[2]


def test_a_listener_who_waits_for_text_is_starved_and_nothing_else(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint)
    stream, ear = rig.open()
    rig.say(stream, words(9), end=False)
    rig.run()
    audio_s = ear.samples.size / RATE
    rig.clock.now += audio_s + 3.0
    rig.say(stream, words(9))
    rig.run()
    stats = ear.done.stats
    assert (stats.underruns, stats.starved) == (0, 1)
    assert 3.0 <= stats.starved_s < 4.0
    rig.check_idle()


def test_a_pause_after_a_flush_is_no_starvation(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint)
    stream, ear = rig.open()
    rig.say(stream, words(9), mark=True, end=False)
    rig.run()
    rig.clock.now += 60.0
    rig.say(stream, words(9))
    rig.run()
    assert (ear.done.stats.underruns, ear.done.stats.starved) == (0, 0)


def test_a_device_that_is_too_slow_underruns_and_says_so(checkpoint: Checkpoint) -> None:
    rig = rig_of(checkpoint, slower(12))
    stream, ear = rig.open()
    rig.say(stream, *LONG)
    rig.run()
    stats = ear.done.stats
    assert stats.underruns > 0 and stats.underrun_s > 0 and stats.starved == 0
    took = ear.events[-1][0] - next(time for time, event in ear.events if isinstance(event, Audio))
    assert took <= stats.underrun_s + stats.audio_s


def test_five_sentences_join_without_a_gap_beside_eight_others(checkpoint: Checkpoint) -> None:
    """The next sentence is read while the first sounds, so nobody waits at the joints."""
    rig = rig_of(checkpoint, max_streams=9)
    streams = [rig.open(seed) for seed in range(9)]
    for stream, _ in streams:
        rig.say(stream, *[words(9)] * 5)
    rig.run()
    for _, ear in streams:
        assert ear.done.stats.segments == 5
        assert ear.done.stats.underruns == 0
    rig.check_idle()


def test_a_sentences_flow_begins_before_the_one_before_has_left_the_vocoder(checkpoint: Checkpoint) -> None:
    """Upstream first, which no policy does: the second sentence is read and could be solved beside the last mel."""
    rig = rig_of(checkpoint)
    stream, ear = rig.open()
    rig.say(stream, words(9), words(9))
    seen = False
    while not ear.over:
        views = rig.core._views(rig.clock.now)
        segments = stream.lane.segments
        if len(segments) == 2 and segments[0].solved:
            seen |= views[0].ready >= {Stage.FLOW, Stage.VOCODER}
        rig.core._tick(Tick(min(views[0].ready), (0,)), views)
    assert seen
    np.testing.assert_allclose(ear.samples, rig_of(checkpoint).heard(words(9), words(9)), atol=SAME)


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Says three ids for each of its text, no more and no less."""
    rules = replace(synthetic.TINY.text, min_token_text_ratio=3.0, max_token_text_ratio=3.0)
    return load(synthetic.write(tmp_path_factory.mktemp("talkative"), replace(synthetic.TINY, text=rules)))


def test_a_stream_holds_no_more_than_its_share(talkative: Checkpoint) -> None:
    """At every moment of sentences as long as they may be, and the pages go back when the mel is there."""
    limits = DeviceLimits(max_streams=1, utilisation=math.inf)
    rig = Rig(talkative, limits)
    device = rig.device
    longest = 249
    stream, ear = rig.open()
    rig.say(stream, *[words(longest)] * 2)
    most = [0, 0]
    while rig.turn():
        most[0] = max(most[0], device.lm.pool.num_pages - device.lm.pool.num_free)
        most[1] = max(most[1], device.flow.pool.num_pages - device.flow.pool.num_free)
    assert ear.done.stats.speech_tokens == 6 * longest
    assert most[1] == device.flow.pool.num_pages, "the flow's share is what is needed, and no page more"
    assert most[0] <= device.lm.pool.num_pages
    rig.check_idle()


def test_admission_goes_by_what_the_device_can_do(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint, DeviceLimits(max_streams=100), costs=slower(6))
    opened = 0
    while len(rig.core.streams) == opened:
        opened += 1
        try:
            rig.open()
        except Overloaded as error:
            refused = error
    assert 1 <= len(rig.core.streams) < 100
    assert 0 < refused.retry_after_s <= 5


@pytest.mark.parametrize(
    "limits",
    [
        {"max_streams": 0},
        {"max_waiting_s": 0.0},
        {"max_waiting_s": math.nan},
        {"utilisation": 0.0},
        {"voice_bytes": -1},
    ],
)
def test_limits_that_nothing_could_run_under(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(limits))):
        DeviceLimits(**limits)  # type: ignore[arg-type]

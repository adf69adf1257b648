"""What an engine counts of what it does."""

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Cancelled
from oscine_engine.figures import Counts, Standing
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.scheduler.views import Stage
from oscine_engine.settings import DeviceLimits
from tests.engine.runtime.rig import Rig, words


def test_a_value_is_counted_where_it_belongs() -> None:
    counts = Counts((1, 2, 4))
    for value in (0.5, 1, 1.5, 4, 4.5, 100):
        counts.add(value)
    read = counts.read()
    assert (read.counts, read.total) == ((2, 1, 1, 2), 111.5)


def test_what_is_told_adds_up(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    before, start = rig.core.figures(), rig.clock.now
    ears = []
    for seed in range(3):
        stream, ear = rig.open(seed)
        rig.say(stream, words(9), words(5))
        ears.append(ear)
    for _ in range(5):
        rig.turn()
    under_way = rig.core.figures()
    assert (under_way.streams, under_way.expecting) == (3, 3)
    rig.run()
    told = rig.core.figures()
    for stage in Stage:
        sizes = [rows for kind, rows in rig.stages.ticks if kind is stage]
        assert sum(told.ticks[stage].counts) - sum(before.ticks[stage].counts) == len(sizes)
        assert told.batches[stage].total - before.batches[stage].total == sum(sizes)
    spent = sum(told.ticks[stage].total - before.ticks[stage].total for stage in Stage)
    assert spent == pytest.approx(rig.clock.now - start)
    assert told.reads - before.reads == sum(rows for kind, rows in rig.stages.ticks if kind is Stage.LM)
    done = [ear.done.stats for ear in ears]
    assert told.speech_ids - before.speech_ids == sum(stats.speech_tokens for stats in done)
    assert told.audio_s - before.audio_s == pytest.approx(sum(stats.audio_s for stats in done))
    assert told.segments - before.segments == 6
    assert told.first_packets.total - before.first_packets.total == pytest.approx(sum(s.first_packet_s for s in done))
    assert sum(told.first_packets.counts) - sum(before.first_packets.counts) == 3
    assert (told.streams, told.expecting, told.held_pages["lm"]) == (0, 0, 0)
    assert told.held_pages["flow"] == told.held_pages["voices"] > 0
    assert told.flow_pages == rig.device.flow.pool.num_pages


def test_the_time_of_a_stream_is_told_by_what_it_goes_by_with(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    before, opened = rig.core.figures(), rig.clock.now

    def stood(standing: Standing) -> float:
        return rig.core.figures().stood[standing] - before.stood[standing]

    stream, _ = rig.open()
    rig.clock.now += 1.0
    assert stood(Standing.IDLE) == pytest.approx(1.0), "nothing has been asked for"
    rig.core.speak(stream, [Begin(whole=False), Ids(tuple(words(5)))])
    rig.run()
    computing = stood(Standing.COMPUTING)
    assert computing > 0
    rig.clock.now += 2.0
    assert stood(Standing.TEXT) == pytest.approx(2.0), "it is in the midst of a sentence"
    rig.core.speak(stream, [Ids(tuple(words(9))), End()], mark=True)
    rig.run()
    rig.clock.now += 4.0
    assert stood(Standing.IDLE) == pytest.approx(5.0), "all that was asked for has been said"
    rig.core.end(stream, Cancelled("enough"))
    rig.clock.now += 8.0
    in_all = sum(stood(standing) for standing in Standing)
    assert in_all == pytest.approx(rig.clock.now - 8.0 - opened)
    assert stood(Standing.COMPUTING) > computing and stood(Standing.LISTENER) == 0


def test_a_stream_that_is_far_ahead_waits_for_its_listener(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint, DeviceLimits(max_streams=2, utilisation=float("inf"), max_waiting_s=0.5))
    rig.takes = False
    before = rig.core.figures()
    stream, ear = rig.open()
    rig.say(stream, *[words(9)] * 8)
    rig.run()
    assert not ear.over
    rig.clock.now += 3.0
    told = rig.core.figures()
    assert told.stood[Standing.LISTENER] - before.stood[Standing.LISTENER] == pytest.approx(3.0)


def test_ids_of_a_stream_that_is_cut_off_count(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    before = rig.core.figures()
    stream, _ = rig.open()
    rig.say(stream, words(20))
    while not stream.lane.segments[0].given:
        rig.turn()
    said = len(stream.lane.segments[0].lm.tokens)
    rig.core.end(stream, Cancelled("enough"))
    assert rig.core.figures().speech_ids - before.speech_ids == said > 0


def test_waiting_for_the_first_step_is_told(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    rig.heard(words(5))
    before = rig.core.figures().queued
    stream, _ = rig.open(7)
    rig.say(stream, words(5))
    rig.clock.now += 0.4
    rig.run()
    after = rig.core.figures().queued
    assert after.total - before.total == pytest.approx(0.4)
    assert sum(after.counts) - sum(before.counts) == 1

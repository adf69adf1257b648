"""Where segments end, as streams with word times are told."""

import numpy as np
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.events import Audio, Flushed
from oscine_engine.port import Sounded
from tests.engine.runtime.rig import Rig, words


@pytest.mark.parametrize("trim", [False, True])
def test_each_segment_ends_where_its_last_sample_does(checkpoint: Checkpoint, trim: bool) -> None:
    rig = Rig(checkpoint)
    alone = len(rig.heard(words(9), seed=3))
    stream, ear = rig.open(seed=3, trim=trim, word_times=True)
    rig.say(stream, words(9), mark=True, end=False)
    rig.say(stream, words(6, 110), words(5, 120))
    rig.run()
    ends = [event.end_sample for event in ear.of(Sounded)]
    assert len(ends) == 3 and ends == sorted(ends)
    assert ends[0] == ear.of(Flushed)[0].end_sample
    assert ends[-1] == len(ear.samples)
    if not trim:
        assert ends[0] == alone
    borders = np.cumsum([audio.samples.size for audio in ear.of(Audio)])
    assert set(ends) <= set(borders.tolist()), "no packet holds samples of two segments"


def test_nobody_is_told_who_does_not_ask(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    stream, ear = rig.open()
    rig.say(stream, words(9), words(5))
    rig.run()
    assert ear.done and not ear.of(Sounded)

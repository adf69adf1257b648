"""Is a recording fit to be spoken after, and which part of it? Plain arithmetic on samples.

A voice is copied with its flaws: what hums in the reference hums in everything that is said in it. So what is too
short, too long, silent, clipped or noisy is refused, each with a sentence that says what to do, and pauses are tidied:

    before the first sound    LEAD_S is kept
    between two sounds        PAUSE_S is kept of a longer pause
    after the last sound      TAIL_S is kept

What counts as silence is judged against the loudness of the speaker (`guards.levels`).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import InvalidInput
from oscine_engine.guards.levels import LOUD_SHARE, silence_level, window_levels

Samples = NDArray[np.float32]

LOWEST_RATE, HIGHEST_RATE = 16000, 192000
"""Hz. Below the first there is nothing to hear of what tells s from f."""
WINDOW_S = 0.01
LEAD_S, PAUSE_S, TAIL_S = 0.1, 0.5, 0.2
LEAST_S = 1.0
"""Of speech, pauses not counted. Three seconds or more make a better voice."""
LONGEST_S = 30.0
"""After tidying: the speech tokenizer takes no more, and ten seconds are as good."""
SILENT_DB = -55.0
"""A recording whose loud parts are softer than this holds no speech, or next to none."""
CLIPPED_AT, CLIPPED_RUN, CLIPPED_SHARE = 0.99, 3, 0.002
"""Of the peak, so many samples in a row, in more than this share of all: a top that was cut off."""
FULL_SCALE = 0.5
"""A softer peak is no sign of an overdriven input, whatever its shape."""
NOISE_PERCENTILE = 5
CLEAREST_DB = 15.0
"""The least that speech must stand out of what is heard in its pauses."""
BRIDGED_S = 0.06
"""A dip in speech that is no pause: the closure of a stop consonant."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Tidied speech. samples: float32 [n] in [-1, 1], mono. speech_s: seconds of it that are sound."""

    samples: Samples
    rate: int
    speech_s: float

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def inspect(samples: Samples, rate: int) -> Recording:
    """The tidied recording of mono samples in [-1, 1]. Raises InvalidInput for one that makes no voice."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise InvalidInput(
            f"the recording has {rate} Hz; record with at least {LOWEST_RATE} Hz, better 24000 or 48000 Hz"
            if rate < LOWEST_RATE
            else f"the recording has {rate} Hz; at most {HIGHEST_RATE} Hz are taken"
        )
    if not np.isfinite(samples).all():
        raise InvalidInput(
            "the recording holds numbers that are no samples (infinite, or not a number); export it again, "
            "as 16-bit WAV for one"
        )
    samples = (samples - samples.mean(dtype=np.float64)).astype(np.float32) if samples.size else samples
    window = round(WINDOW_S * rate)
    levels = window_levels(samples, window)
    if not len(levels):
        raise InvalidInput("the recording is empty; record three seconds or more of speech")
    loudness = float(np.percentile(levels, LOUD_SHARE))
    if loudness < SILENT_DB:
        raise InvalidInput(
            f"the recording is silent, or nearly so ({loudness:.0f} dB at its loudest); "
            "speak closer to the microphone or turn up its level"
        )
    sound = _bridged(levels > silence_level(loudness), round(BRIDGED_S / WINDOW_S))
    speech_s = float(sound.sum()) * WINDOW_S
    _check_clipping(samples)
    _check_noise(levels, loudness)
    if speech_s < LEAST_S:
        raise InvalidInput(
            f"the recording holds {speech_s:.1f} s of speech; {LEAST_S:g} s are the least, and 3 to 10 s are best"
        )
    tidied = samples[_kept(sound, window, len(samples))]
    if len(tidied) > LONGEST_S * rate:
        raise InvalidInput(
            f"the recording is {len(tidied) / rate:.1f} s long without its long pauses; at most {LONGEST_S:g} s are "
            "taken: send the clearest 3 to 10 s, and the words of that part"
        )
    return Recording(tidied, rate, speech_s)


def _check_clipping(samples: Samples) -> None:
    heights = np.abs(samples)
    peak = float(heights.max())
    if peak < FULL_SCALE:
        return
    edges = np.diff(np.concatenate(([0], (heights >= CLIPPED_AT * peak).astype(np.int8), [0])))
    runs = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    share = runs[runs >= CLIPPED_RUN].sum() / len(samples)
    if share > CLIPPED_SHARE:
        raise InvalidInput(
            f"the recording is clipped: {100 * share:.1f} % of its samples are cut off; turn down the input level and "
            "record again"
        )


def _check_noise(levels: NDArray[np.float64], loudness: float) -> None:
    """Speech without any pause has its own soft parts; noise fills them."""
    clear = loudness - float(np.percentile(levels, NOISE_PERCENTILE))
    if clear < CLEAREST_DB:
        raise InvalidInput(
            f"the recording is noisy: speech stands out by {clear:.0f} dB, and {CLEAREST_DB:g} dB are the least; "
            "record in a quiet place, without music behind the voice"
        )


def _bridged(sound: NDArray[np.bool_], longest: int) -> NDArray[np.bool_]:
    """`sound` with dips of at most `longest` windows between two sounds filled."""
    places = np.flatnonzero(sound)
    filled = sound.copy()
    for before, after in pairwise(places.tolist()):
        if 1 < after - before <= longest + 1:
            filled[before:after] = True
    return filled


def _kept(sound: NDArray[np.bool_], window: int, count: int) -> NDArray[np.bool_]:
    """Which of `count` samples stay, from which windows are sound."""
    lead, pause, tail = (round(seconds / WINDOW_S) for seconds in (LEAD_S, PAUSE_S, TAIL_S))
    places = np.flatnonzero(sound)
    first, last = int(places[0]), int(places[-1])
    keep = np.zeros(len(sound), np.bool_)
    keep[max(0, first - lead) : last + 1 + tail] = True
    for before, after in pairwise(places.tolist()):
        if after - before - 1 > pause:
            # Half of what stays belongs to each side: the end of one sound, the beginning of the next.
            keep[before + 1 + pause // 2 : after - (pause - pause // 2)] = False
    samples = np.zeros(count, np.bool_)
    samples[: len(keep) * window] = np.repeat(keep, window)
    # What is left of a window at the end counts with the last one.
    samples[len(keep) * window :] = keep[-1]
    return samples

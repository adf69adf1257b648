"""Tables of what ticks cost, by device.

h200 is measured, with naive prototypes of the full-size networks in CUDA graphs, random weights, torch only, and is
the only table that is. h100 and l40s are derived from it by data sheets: what a tick takes whatever its size is
latency and one reading of the weights; each further row of language model and flow costs arithmetic; each further row
of the vocoder, and each frame of context, costs memory bandwidth. Take derived figures as plus or minus a quarter
until measured.
"""

from dataclasses import dataclass, replace

from oscine_engine.scheduler.costs import CostModel, Curve, GuessCosts
from oscine_engine.scheduler.guesses import ids_a_step
from oscine_engine.scheduler.views import Stage

FRAME_BYTES = 901_120 * 2 / 10
"""Keys and values of one frame that one Euler step of one stream reads, both guidance rows, in 16 bit."""
WEIGHT_GB = {Stage.LM: 1.0, Stage.FLOW: 0.4, Stage.VOCODER: 0.1}
"""What one tick reads of the network: DiT without its modulations, which are worked out once; vocoder in 32 bit."""
ATTAINED = 0.7
"""Of the data sheet's bandwidth."""


@dataclass(frozen=True, slots=True)
class Device:
    """Of a data sheet: memory bandwidth in TB/s, dense 16-bit arithmetic in TFLOP/s."""

    bandwidth: float
    arithmetic: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A device to simulate. host_s: what the interpreter adds to each tick, `pick` included. source: of the costs."""

    costs: CostModel
    host_s: float
    source: str


DEVICES = {"h200": Device(4.8, 989), "h100": Device(3.35, 989), "l40s": Device(0.864, 362)}

_H200 = {
    Stage.LM: Curve(((1, 0.94e-3), (64, 1.09e-3))),
    Stage.FLOW: Curve(((1, 1.12e-3), (8, 1.79e-3), (32, 4.86e-3))),
    Stage.VOCODER: Curve(((1, 3.8e-3), (8, 7.9e-3), (32, 24.0e-3))),
}


def _on(stage: Stage, device: Device) -> Curve:
    """The measured curve of the H200, taken to another device."""
    base, curve = DEVICES["h200"], _H200[stage]
    weights_s = WEIGHT_GB[stage] / 1e3 / ATTAINED * (1 / device.bandwidth - 1 / base.bandwidth)
    memory, arithmetic = base.bandwidth / device.bandwidth, base.arithmetic / device.arithmetic
    slower = memory if stage is Stage.VOCODER else arithmetic
    first = curve.points[0][1]
    return Curve(tuple((rows, first + weights_s + (s - first) * slower) for rows, s in curve.points))


def _gpu(name: str, source: str) -> Profile:
    device = DEVICES[name]
    curves = [_on(stage, device) for stage in Stage]
    context_s = FRAME_BYTES / (device.bandwidth * 1e12 * ATTAINED)
    return Profile(CostModel(curves[0], curves[1], curves[2], context_s), 0.3e-3, source)


def guessing(profile: Profile, mean: float) -> Profile:
    """A device whose language model has a draft of seven guesses; a step that checks all says `mean` ids.

    What guesses add is measured on one H200, and taken to be the same share of a step elsewhere.
    """
    lm, low, high = profile.costs.lm, 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ids_a_step(7, (middle,) * 7) < mean else (low, middle)
    curves = [(0, lm)]
    for guesses, (few, many) in GUESSES.items():
        curves.append((guesses, Curve(((1, few * lm(1)), (64, many * lm(64))))))
    return replace(profile, costs=profile.costs.guessing(GuessCosts(tuple(curves), (high,) * 7)))


GUESSES = {3: (1.46, 1.70), 7: (1.69, 2.21)}
"""A step with so many guesses checked and made over one without, for one stream and for 64, by `bench.gpu.lm`: 1.30 and
2.06 ms, 1.51 and 2.67, where those without take 0.89 and 1.21."""

_CPU = CostModel(
    Curve(((1, 5.3e-3), (2, 6.0e-3), (4, 7.7e-3), (8, 10.1e-3), (48, 13.7e-3))),
    Curve(((1, 10.5e-3), (2, 19.5e-3), (4, 37.0e-3), (8, 72.0e-3))),
    Curve(((1, 35.0e-3), (2, 58.5e-3), (4, 106.0e-3))),
    12.0e-6,
)
"""The embedded voice on one thread of an Intel Xeon, by the engine's own measurement in seconds of that thread."""

PROFILES = {
    "h200": _gpu("h200", "measured with prototypes on one H200, random full-size weights"),
    "h100": _gpu("h100", "derived from h200 by data sheets"),
    "l40s": _gpu("l40s", "derived from h200 by data sheets"),
    "cpu": Profile(_CPU, 0.1e-3, "measured: the embedded voice on one thread of an Intel Xeon"),
}

"""Costs and streams to schedule in tests."""

from hypothesis import strategies as st

from oscine_engine.scheduler.costs import CostModel, Curve
from oscine_engine.scheduler.views import Stage, StreamView

COSTS = CostModel(
    lm=Curve(((1, 0.94e-3), (64, 1.09e-3))),
    flow=Curve(((1, 1.12e-3), (8, 1.79e-3), (32, 4.86e-3))),
    vocoder=Curve(((1, 3.8e-3), (8, 7.9e-3), (32, 24.0e-3))),
    context_s=50e-9,
)
"""Like one H200."""


def flat(lm: float, flow: float, vocoder: float) -> CostModel:
    """Ticks that cost the same whatever their size, up to 100 rows."""
    return CostModel(*(Curve(((1, seconds), (100, seconds))) for seconds in (lm, flow, vocoder)))


@st.composite
def views(draw: st.DrawFn) -> list[StreamView]:
    """Any streams around the moment 100: late, starved, idle, and in every stage."""
    one = st.builds(
        StreamView,
        arrived=st.floats(97.0, 100.0),
        dry_at=st.none() | st.floats(99.0, 110.0),
        ready=st.frozensets(st.sampled_from(list(Stage))),
        ids_left=st.integers(0, 28),
        lm_rows=st.sampled_from([1, 1, 1, 200]),
        euler_left=st.integers(1, 30),
        context_frames=st.integers(0, 1500),
        held_s=st.sampled_from([0.0, 0.32]),
    )
    return draw(st.lists(one, max_size=24))

"""When a stream's first packet goes out: at once when idle, later when busy."""

from collections.abc import Sequence

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import Demand
from oscine_engine.scheduler.policy import RULES, Rules
from oscine_engine.scheduler.views import StreamView

ALONE = 1.1
"""Margin on a stream's own work, which shares no ticks that could turn out otherwise."""
DELIVERY_S = 0.03
"""By how much longer the way of a packet to its listener may be than that of the first one."""


def release(view: StreamView, others: Sequence[StreamView], now: float, costs: CostModel, rules: Rules = RULES) -> bool:
    """Whether what is held back for `view` (`held_s` seconds, `dry_at` None) should sound now.

    A listener who starts now runs dry in `held_s`. That is in time if the device can make, a moment earlier, the next
    packet of this stream, with a tenth to spare, and of every listener due before it, times the margin of the policy.
    Otherwise the packet waits while the next chunk goes on, for what is missing or until that adds a second to it.

    Never held: a stream that has nothing to compute (its text has run dry, or it has said all), and one that has waited
    for `patience_s`: by then silence is worse than the risk of a pause.
    """
    if not view.ready or now - view.arrived >= rules.patience_s:
        return True
    dry_at = now + view.held_s
    demand = Demand(costs)
    demand.add(view)
    alone_s = demand.seconds
    for other in others:
        if other.ready and other.dry_at is not None and other.dry_at <= dry_at:
            demand.add(other)
    return ALONE * alone_s + rules.margin * (demand.seconds - alone_s) <= view.held_s - DELIVERY_S

"""Which tick runs next, and for whom: a pure function of plain data.

Order of work
    1. DUE    what must run now, or a listener runs dry: the nearest deadline first.
    2. FIRST  streams nobody hears yet, in order of arrival. One whose listener ran dry for want of text is one of them
              again, since what it waits for is again its first sound.
    3. AHEAD  the rest, the nearest deadline first, as far as the sessions' credit lets them be ready.

Between 1 and 2 decides a demand test, not a fixed reserve. A fixed reserve is too long when idle, where the next packet
is 15 ms away, and too short when busy, where it is 200. The test asks what the tick that 2 or 3 would run costs, and
whether every listener's packet can still be made in time after it (`demand.slack_s`): for each deadline in turn the
work due by then must fit before it. That is the feasibility test of earliest-deadline-first, which is optimal for one
device that can be taken away at any time; ours can be taken away between ticks, which are short.

The chosen stream runs its most downstream ready stage: what is closest to sound goes first, so that a chunk once begun
becomes audio before the language model runs further ahead.

Who rides along
    Rows share what a tick costs whatever its size, so riders are what capacity is made of; and each one makes the tick
    longer for whom it was chosen. So:
    * with a FIRST, other firsts ride if they cost clearly less than a tick of their own would (`peer_price`); listeners
      then fill up the tick to `first_stretch` times what the firsts alone would take;
    * with AHEAD, whoever is ready rides, up to `longest_tick_s`, which bounds how long a new stream waits for a tick;
    * with DUE, the next ones by deadline ride while the chosen one still comes in time with them, or within
      `due_stretch`: a stream that is late anyway must not leave the device to ticks of one row, which lose everybody.

What is approximated
    * The demand test lets all that is due by a deadline share ticks. Streams at different stages share less; `margin`
      stands for that, and for what a cost model does not know (random loads whose true costs were 0.8 to 1.3 times the
      model's stay in time, see tests/engine/scheduler).
    * It looks at each listener's next packet only. Later packets are due a chunk (1 s) later, and that they fit is a
      matter of the load as a whole, which admission bounds.
    * When even that fails, a FIRST counts as due `patience_s` after it arrived, so deadlines alone decide: each
      stream's is a fixed moment and everybody else's moves on with every packet, so nobody waits for ever.

`docs/decisions/0008-deadlines-by-demand.md` has the measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import slack_s
from oscine_engine.scheduler.views import Stage, StreamView, Tick

__all__ = ["RULES", "Rules", "Stage", "StreamView", "Tick", "pick"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What can be tuned. Ratios are of seconds to seconds.

    margin: on the demand test. first_stretch: how much longer listeners may make a first's tick. peer_price: what a
    first may add to another's tick, over a tick of its own. due_stretch: the same as first_stretch for a late stream.
    longest_tick_s: no rider beyond it. patience_s: a first counts as due so long after it arrived.
    """

    margin: float = 1.5
    first_stretch: float = 1.5
    peer_price: float = 0.5
    due_stretch: float = 3.0
    longest_tick_s: float = 0.015
    patience_s: float = 1.0


RULES = Rules()


@overload
def pick(views: Sequence[StreamView], now: float) -> Stage | None: ...


@overload
def pick(views: Sequence[StreamView], now: float, costs: CostModel, rules: Rules = RULES) -> Tick | None: ...


def pick(
    views: Sequence[StreamView], now: float, costs: CostModel | None = None, rules: Rules = RULES
) -> Tick | Stage | None:
    """The next tick, or None when nobody is ready. Its members are ready in its stage, the one it is for first."""
    if costs is None:
        return _pick_without_costs(views, now)
    firsts: list[int] = []
    listening: list[int] = []
    for place, view in enumerate(views):
        if view.ready:
            (firsts if view.dry_at is None else listening).append(place)
    if not firsts and not listening:
        return None
    firsts.sort(key=lambda place: views[place].arrived)
    listening.sort(key=lambda place: views[place].dry_at or 0.0)
    if firsts:
        tick, seconds = _for_first(views, firsts, listening, costs, rules)
    else:
        tick, seconds = _for_ahead(views, listening, costs, rules)
    if not listening or slack_s([views[place] for place in listening], now, costs, rules.margin) >= seconds:
        return tick
    return _for_due(views, [*firsts, *listening], now, costs, rules)


class _Batch:
    """A tick being put together, and what it costs."""

    __slots__ = ("_context", "_costs", "_rows", "_stage", "_views", "members", "seconds")

    def __init__(self, views: Sequence[StreamView], stage: Stage, costs: CostModel) -> None:
        self._views, self._stage, self._costs = views, stage, costs
        self._rows = self._context = 0
        self.members: list[int] = []
        self.seconds = 0.0

    def _size(self, place: int) -> tuple[int, int]:
        view = self._views[place]
        return (view.lm_rows if self._stage is Stage.LM else 1), view.context_frames

    def with_(self, place: int) -> float:
        """Seconds of the tick if this one rides too."""
        rows, context = self._size(place)
        return self._costs.tick_s(self._stage, self._rows + rows, self._context + context)

    def alone(self, place: int) -> float:
        rows, context = self._size(place)
        return self._costs.tick_s(self._stage, rows, context)

    def add(self, place: int, seconds: float) -> None:
        rows, context = self._size(place)
        self._rows += rows
        self._context += context
        self.seconds = seconds
        self.members.append(place)

    def fill(self, places: Sequence[int], limit_s: float) -> None:
        """Add those ready, in this order, until the tick would take longer than `limit_s`."""
        for place in places:
            if self._stage in self._views[place].ready:
                seconds = self.with_(place)
                if seconds > limit_s:
                    return
                self.add(place, seconds)

    def tick(self) -> Tick:
        return Tick(self._stage, tuple(self.members))


def _begin(views: Sequence[StreamView], lead: int, costs: CostModel) -> tuple[Stage, _Batch]:
    stage = max(views[lead].ready)
    batch = _Batch(views, stage, costs)
    batch.add(lead, batch.alone(lead))
    return stage, batch


def _for_first(
    views: Sequence[StreamView], firsts: Sequence[int], listening: Sequence[int], costs: CostModel, rules: Rules
) -> tuple[Tick, float]:
    stage, batch = _begin(views, firsts[0], costs)
    for place in firsts[1:]:
        if stage in views[place].ready:
            seconds = batch.with_(place)
            if seconds - batch.seconds <= rules.peer_price * batch.alone(place):
                batch.add(place, seconds)
    batch.fill(listening, rules.first_stretch * batch.seconds)
    return batch.tick(), batch.seconds


def _for_ahead(
    views: Sequence[StreamView], listening: Sequence[int], costs: CostModel, rules: Rules
) -> tuple[Tick, float]:
    _, batch = _begin(views, listening[0], costs)
    batch.fill(listening[1:], rules.longest_tick_s)
    return batch.tick(), batch.seconds


def _for_due(views: Sequence[StreamView], places: Sequence[int], now: float, costs: CostModel, rules: Rules) -> Tick:
    def due(place: int) -> float:
        view = views[place]
        return view.arrived + rules.patience_s if view.dry_at is None else view.dry_at

    ordered = sorted(places, key=due)
    lead = ordered[0]
    view = views[lead]
    stage, batch = _begin(views, lead, costs)
    # What the lead still needs after this stage, and how long each tick of this stage may be for it to come in time.
    after, ticks = 0.0, 1
    if stage is not Stage.VOCODER:
        after, ticks = costs.tick_s(Stage.VOCODER, 1), max(view.euler_left, 1)
    if stage is Stage.LM:
        after += view.euler_left * costs.tick_s(Stage.FLOW, 1, view.context_frames)
        ticks = max(view.ids_left, 1)
    in_time = (due(lead) - now - after) / ticks
    batch.fill(ordered[1:], max(rules.due_stretch * batch.seconds, min(in_time, rules.longest_tick_s)))
    return batch.tick()


def _pick_without_costs(views: Sequence[StreamView], now: float, margin_s: float = 0.25) -> Stage | None:
    """The stage to tick for all that are ready in it, by a fixed margin: for a loop that has not measured its costs."""
    best: tuple[int, float] | None = None
    stage: Stage | None = None
    for view in views:
        if not view.ready:
            continue
        if view.dry_at is None:
            rank = (1, view.arrived)
        elif view.dry_at - now < margin_s:
            rank = (0, view.dry_at)
        else:
            rank = (2, view.dry_at)
        if best is None or rank < best:
            best, stage = rank, max(view.ready)
    return stage

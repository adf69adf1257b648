"""Which tick runs next, and for whom: a pure function of plain data.

Order of work
    1. DUE    what must run now, or a listener runs dry: the nearest deadline first.
    2. FIRST  streams nobody hears yet, in order of arrival. One whose listener ran dry for want of text is one of them
              again, since what it waits for is again its first sound.
    3. AHEAD  the rest, the nearest deadline first, as far as the sessions' credit lets them be ready.

Between 1 and 2 decides a demand test, not a fixed reserve. A fixed reserve is too long when idle, where the next packet
is 15 ms away, and too short when busy, where it is 200. The test asks what the tick that 2 or 3 would run costs, and
whether every listener's packet can still be made in time after it (`demand.tightest`): for each deadline in turn the
work due by then must fit before it. That is the feasibility test of earliest-deadline-first, which is optimal for one
device that can be taken away at any time; ours can be taken away between ticks, which are short.

Which stage
    The one chosen runs its most downstream ready stage: what is closest to sound goes first, so that a chunk once begun
    becomes audio before the language model runs further ahead. Unless waiting is cheaper: when others of its class come
    to that stage so soon that keeping it waiting for them costs less, over all, than keeping them waiting until it is
    through (`_stage_for`), they are fetched first, and go through the stage in its ticks. Without this each stream runs
    its ten Euler steps in ticks of its own; with it a device serves about half as many more.

Who rides along
    Rows share what a tick costs whatever its size, so riders are what capacity is made of; and each one makes the tick
    longer for whom it was chosen.
    * With a FIRST, other firsts ride if they cost clearly less than a tick of their own would (`peer_price`); listeners
      then fill up the tick to `first_stretch` times what the firsts alone would take.
    * With AHEAD, whoever is ready rides, up to `longest_tick_s`, which bounds how long a new stream waits for a tick.
    * With DUE, all that the tightest deadline asks for ride, since the test counted on that; others only within
      `due_stretch`, for the demand was worked out without them.

What is approximated
    * The demand test lets all that is due by a deadline share ticks. Streams at different stages share less; `margin`
      stands for that, and for what a cost model does not know.
    * It looks at each listener's next packet only. Later packets are due a chunk (1 s) later, and that they fit is a
      matter of the load as a whole, which admission bounds.
    * It does not look ahead in time: a tick is chosen for now, and what arrives meanwhile waits for its end.
    * Should admission have let in too much, a FIRST counts as due `patience_s` after it arrived. Then deadlines alone
      decide, each stream's is a fixed moment, and everybody else's moves on with every packet: nobody waits for ever.

`docs/decisions/0008-deadlines-by-demand.md` has the measurements behind the numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import tightest
from oscine_engine.scheduler.views import Stage, StreamView, Tick


@dataclass(frozen=True, slots=True)
class Rules:
    """What can be tuned. Ratios are of seconds to seconds.

    margin: on the demand test. first_stretch: how much longer listeners may make a first's tick. peer_price: what a
    first may add to another's tick, over a tick of its own. due_stretch: how much longer others may make a tick that is
    due. longest_tick_s: AHEAD takes no rider beyond it. patience_s: a first counts as due so long after it arrived.
    gather: whether streams wait for others of their class where that is cheaper.
    """

    margin: float = 2.0
    first_stretch: float = 4.0
    peer_price: float = 0.5
    due_stretch: float = 1.25
    longest_tick_s: float = 0.015
    patience_s: float = 2.0
    gather: bool = True


RULES = Rules()


def pick(views: Sequence[StreamView], now: float, costs: CostModel, rules: Rules = RULES) -> Tick | None:
    """The next tick, or None when nobody is ready. Its members are ready in its stage, in order of their need."""
    arrived: list[tuple[float, int]] = []
    deadlines: list[tuple[float, int]] = []
    for place, view in enumerate(views):
        if view.ready:
            if view.dry_at is None:
                arrived.append((view.arrived, place))
            else:
                deadlines.append((view.dry_at, place))
    if not arrived and not deadlines:
        return None
    arrived.sort()
    deadlines.sort()
    firsts, listening = [place for _, place in arrived], [place for _, place in deadlines]
    if firsts:
        batch = _for_first(views, firsts, listening, costs, rules)
    else:
        batch = _for_ahead(views, listening, costs, rules)
    slack, pressed = tightest([views[place] for place in listening], now, costs, rules.margin, batch.seconds)
    if slack < batch.seconds:
        waited = [place for place in firsts if now - views[place].arrived >= rules.patience_s]
        batch = _for_due(views, waited, firsts[len(waited) :], listening, pressed, costs, rules)
    return Tick(batch.stage, tuple(batch.members))


def pick_beside(views: Sequence[StreamView], seconds: float, costs: CostModel) -> Tick | None:
    """The step of the language model to run beside an Euler step that takes so many seconds; None if none pays.

    On a device that does two things at once it mostly fits in. It must not be the longer of both, or whoever waits for
    the next Euler step would wait for it; and it must do for half of those that have work, since it costs much the same
    for a few.
    """
    batch = _Batch(views, Stage.LM, costs)
    working = [place for place, view in enumerate(views) if view.ready]
    # Texts, which are long, come last.
    batch.fill(sorted(working, key=lambda place: views[place].lm_rows), seconds)
    if not batch.members or 2 * len(batch.members) < len(working):
        return None
    return Tick(batch.stage, tuple(batch.members))


class _Batch:
    """A tick being put together, and what it costs."""

    __slots__ = ("_context", "_context_s", "_curve", "_factor", "_rows", "_views", "members", "seconds", "stage")

    def __init__(self, views: Sequence[StreamView], stage: Stage, costs: CostModel) -> None:
        self.stage = stage
        self.members: list[int] = []
        self.seconds = 0.0
        self._views = views
        self._curve, self._factor = costs.curve(stage), costs.correction[stage]
        self._context_s = costs.context_s if stage is Stage.FLOW else 0.0
        self._rows = self._context = 0

    def lead(self, place: int) -> None:
        """Begin with this one, which is ready, whatever it costs."""
        view = self._views[place]
        self.members.append(place)
        self._rows, self._context = view.lm_rows if self.stage is Stage.LM else 1, view.context_frames
        self.seconds = (self._curve(self._rows) + self._context_s * self._context) * self._factor

    def fill(self, places: Sequence[int], limit_s: float = math.inf, price: float = math.inf) -> None:
        """Add those ready, in this order, until the tick would take longer than `limit_s`.

        Left out is who would make it longer by more than `price` times what a tick of its own would take, unless the
        tick is empty. This is `CostModel.tick_s`, opened up, since it runs for every stream in every tick.
        """
        views, stage, members = self._views, self.stage, self.members
        curve, context_s, factor = self._curve, self._context_s, self._factor
        table, end = curve.table, len(curve.table)
        rows, context, seconds = self._rows, self._context, self.seconds
        priced, reading = price < math.inf, stage is Stage.LM
        if not priced:
            # Mostly all fit in: curves do not fall, so whoever comes before the last does then, too.
            ready = [place for place in places if stage in views[place].ready]
            seats = rows + (sum([views[place].lm_rows for place in ready]) if reading else len(ready))
            if context_s:
                context += sum([views[place].context_frames for place in ready])
            alone = table[seats] if seats < end else curve(seats)
            longer = (alone + context_s * context) * factor
            if ready and longer <= limit_s:
                self._rows, self._context, self.seconds = seats, context, longer
                members += ready
                return
            context = self._context
        for place in places:
            view = views[place]
            if stage not in view.ready:
                continue
            more = view.lm_rows if reading else 1
            seats = rows + more
            alone = table[seats] if seats < end else curve(seats)
            longer = (alone + context_s * (context + view.context_frames)) * factor
            if longer > limit_s:
                break
            if (
                priced
                and members
                and longer - seconds > price * (curve(more) + context_s * view.context_frames) * factor
            ):
                continue
            rows, context, seconds = seats, context + view.context_frames, longer
            members.append(place)
        self._rows, self._context, self.seconds = rows, context, seconds


def _for_first(
    views: Sequence[StreamView], firsts: Sequence[int], listening: Sequence[int], costs: CostModel, rules: Rules
) -> _Batch:
    """`firsts` in order of arrival, `listening` by deadline."""
    batch = _Batch(views, _stage_for([views[place] for place in firsts], costs, rules), costs)
    batch.fill(firsts, price=rules.peer_price)
    batch.fill(listening, rules.first_stretch * batch.seconds)
    return batch


def _for_ahead(views: Sequence[StreamView], listening: Sequence[int], costs: CostModel, rules: Rules) -> _Batch:
    """`listening` by deadline."""
    batch = _Batch(views, max(views[listening[0]].ready), costs)
    batch.lead(listening[0])
    batch.fill(listening[1:], rules.longest_tick_s)
    return batch


def _for_due(
    views: Sequence[StreamView],
    waited: Sequence[int],
    firsts: Sequence[int],
    listening: Sequence[int],
    pressed: int,
    costs: CostModel,
    rules: Rules,
) -> _Batch:
    """For the first `pressed` of `listening`, and for `waited`, firsts that have lost their patience."""

    def due_at(place: int) -> float:
        dry_at = views[place].dry_at
        return views[place].arrived + rules.patience_s if dry_at is None else dry_at

    due = sorted([*waited, *listening[:pressed]], key=due_at)
    batch = _Batch(views, _stage_for([views[place] for place in due], costs, rules), costs)
    batch.fill(due)
    batch.fill([*listening[pressed:], *firsts], rules.due_stretch * batch.seconds)
    return batch


def _stage_for(group: Sequence[StreamView], costs: CostModel, rules: Rules) -> Stage:
    """The stage to run for `group`, whose first comes first: its most downstream one, or the one before it.

    To fetch others from the stage before keeps those here waiting for some steps; to leave them there keeps them
    waiting until those here are through. Whichever makes less waiting in all is done. Each newcomer has more steps to
    go than the last, so this ends by itself unless more arrive than could be served in any order.
    """
    stage = max(group[0].ready)
    if not rules.gather or stage is Stage.LM:
        return stage
    before = Stage.FLOW if stage is Stage.VOCODER else Stage.LM
    here, behind = 0, []
    for view in group:
        furthest = max(view.ready)
        if furthest is stage:
            here += 1
        elif furthest is before:
            behind.append((view.euler_left if before is Stage.FLOW else view.ids_left, view.lm_rows - 1))
    if not behind:
        return stage
    behind.sort()
    steps_here = group[0].euler_left if stage is Stage.FLOW else 1
    through_s = steps_here * costs.tick_s(stage, here)
    step_s = costs.tick_s(before, len(behind))
    each_s = costs.an_id(len(behind)) * costs.correction[before] if before is Stage.LM else step_s
    unread = 0
    for count, (left, rows) in enumerate(behind, 1):
        unread += rows
        fetch_s = left * each_s
        if unread and before is Stage.LM:  # prompts, which a language model reads in one go
            fetch_s += costs.tick_s(before, len(behind) + unread) - step_s
        if here * fetch_s < count * through_s:
            return before
    return stage

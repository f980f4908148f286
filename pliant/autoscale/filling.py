"""How big every group should be, by whichever order a policy puts them in."""

from __future__ import annotations

from pliant.autoscale.crews import Crew, is_measured
from pliant.autoscale.draft import Draft, too_much
from pliant.autoscale.givers import Asker, Givers
from pliant.autoscale.letting_in import Door
from pliant.autoscale.model import Cluster, Code, Plan, Verdict
from pliant.autoscale.order import Order
from pliant.autoscale.packing import LIMITED
from pliant.autoscale.sharing import Shares
from pliant.autoscale.words import several


def planned(cluster: Cluster, order: Order) -> Plan:
    """A verdict on every group."""
    draft = drafted(cluster, order)
    return {crew.elastic.key: verdict(crew, draft) for crew in draft.crews}


def drafted(cluster: Cluster, order: Order) -> Draft:
    """Where everybody would sit if all went as planned."""
    draft = Draft(cluster, order)
    Door(draft).let_in()
    for crew in draft.crews:
        if crew.keeps_waiting and crew.reason is None:  # who has given way does not wait for what it gave
            _wait_on(crew, draft)
    _shed(draft)
    Shares(draft).share()
    return draft


def _wait_on(crew: Crew, draft: Draft) -> None:
    """Seat the members of a group that must not shrink where there is room; the others go on waiting."""
    while crew.least <= len(crew.seats) < min(crew.elastic.size, crew.ceiling):
        node = draft.place(crew)
        draft.add(crew, draft.floor.nowhere if node is None else node)


def _shed(draft: Draft) -> None:
    """Have members leave where more is given away than may be, of groups whose policy wants that."""
    floor, lanes = draft.floor, draft.floor.lanes
    signs = lanes.signs(LIMITED)
    if floor.slack & signs == signs:
        return
    givers = Givers(crew for crew in draft.crews if crew.sheds)

    def gives(giver: Crew) -> bool | None:
        over = [name for name in LIMITED if lanes.amount(floor.slack, name) < 0]
        if not floor.is_open[giver.seats[-1]] or not any(name in over for name, _ in giver.foot.shape.needs):
            return None
        giver.reason = giver.reason or (Code.FULL, too_much(over[0], draft.cluster.load))
        draft.drop(giver)
        return True

    everybody = Asker(max((crew.priority for crew in draft.crews), default=0))
    while floor.slack & signs != signs and givers.first(everybody, gives):
        pass


def verdict(crew: Crew, draft: Draft) -> Verdict:
    """The size of a group as planned, and why."""
    elastic, size = crew.elastic, crew.size
    if elastic.is_fixed:
        return Verdict(size, Code.FIXED, elastic.note or "its size must stay what it is")
    if not is_measured(elastic):
        why = "its members ask for no CPU, memory or device, so nobody can tell how many fit"
        return Verdict(size, Code.FIXED, why)
    if size > elastic.size:
        return Verdict(size, Code.GROWS, _more(size - elastic.size))
    if size < elastic.size:
        return Verdict(size, *_fewer(crew, draft))
    return Verdict(size, *_same(crew, draft))


def _more(number: int) -> str:
    return f"{number} more {'fits' if number == 1 else 'fit'}"


def _fewer(crew: Crew, draft: Draft) -> tuple[Code, str]:
    elastic = crew.elastic
    if elastic.size > elastic.most == crew.size:
        return Code.MOST, f"may have {elastic.most} at most" + (f": {elastic.note}" if elastic.note else "")
    if crew.takers and not crew.reason:
        others = min(crew.takers) if len(crew.takers) == 1 else f"{len(crew.takers)} others"
        return Code.SHARES, f"shares with {others}"
    return crew.reason or draft.obstacle(crew)


def _same(crew: Crew, draft: Draft) -> tuple[Code, str]:
    elastic = crew.elastic
    if len(crew.seats) < crew.least:
        missing = crew.least - len(crew.seats)
        code, why = draft.obstacle(crew)
        return code, f"{several(missing, 'member')} of the least {crew.least} cannot come: {why}"
    if crew.size >= elastic.most:
        return Code.MOST, f"has {crew.size}, the most it may have"
    if not elastic.may_grow and crew.size >= crew.ceiling:
        return Code.SETTLING, elastic.note or "it may not grow now"
    return draft.obstacle(crew)

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import Elastic, GroupKey, Shape
from pliant.autoscale.pacing import History, Pace, next_look, paced

PACE = Pace()
NOW = 10_000.0


def a_group(size: int = 4, places: tuple[str, ...] = ("n", "n", "n", "n")) -> Elastic:
    return Elastic(
        key=GroupKey("default", "PyTorchJob.kubeflow.org", "a", "worker"),
        least=2,
        most=8,
        size=size,
        shape=Shape.of({"cpu": 1000}),
        places=places,
    )


def test_a_group_that_nothing_has_happened_to_may_do_as_it_likes() -> None:
    group = a_group()
    assert paced(group, History(), NOW, PACE) is group
    assert next_look(History(), NOW, PACE) is None


def freedoms(history: History, after: float) -> tuple[bool, bool]:
    """Whether a group may grow, and whether it may shrink."""
    group = paced(a_group(), history, NOW + after, PACE)
    assert not group.is_fixed
    return group.may_grow, group.may_shrink


def test_a_group_that_has_grown_may_grow_on_soon_and_shrink_later() -> None:
    history = History().resized(2, NOW)
    assert [freedoms(history, after) for after in (9.9, 10, 29.9)] == [
        (False, False),
        (True, False),
        (True, False),
    ]
    assert paced(a_group(), history, NOW + 30, PACE) == a_group()
    assert [next_look(history, NOW + after, PACE) for after in (0, 10, 30)] == [NOW + 10, NOW + 30, None]


def test_a_group_that_has_shrunk_may_shrink_on_soon_and_grow_later() -> None:
    history = History().resized(-2, NOW)
    assert [freedoms(history, after) for after in (9.9, 10, 29.9)] == [
        (False, False),
        (False, True),
        (False, True),
    ]
    assert paced(a_group(), history, NOW + 30, PACE) == a_group()


def test_a_group_that_starts_anew_with_each_change_stays_for_longer_each_time() -> None:
    history = History(starts_anew=True)
    for wait in (120, 240, 480, 600, 600):
        history = history.resized(2, NOW)
        assert freedoms(history, wait - 0.1) == (False, False)
        assert paced(a_group(), history, NOW + wait, PACE) == a_group()


def test_a_cool_down_that_was_made_short_is_short_both_ways() -> None:
    assert paced(a_group(), History().resized(2, NOW), NOW + 5, Pace(cooldown=5)) == a_group()


def test_a_group_of_which_it_is_not_known_how_it_changed_stays_for_the_longer_time() -> None:
    assert freedoms(History(changed_at=NOW), 29) == (False, False)


def test_a_size_that_was_set_by_hand_is_left_alone_for_a_while() -> None:
    history = History(edited_at=NOW)
    held = paced(a_group(), history, NOW + 299, PACE)
    assert held.is_fixed
    assert held.note == "its size was set by hand less than 5 min ago"
    assert next_look(history, NOW, PACE) == NOW + 300
    assert not paced(a_group(), history, NOW + 300, PACE).is_fixed


def test_a_group_of_which_a_member_has_ended_is_left_to_end() -> None:
    history = History(is_ending=True, changed_at=NOW)
    assert paced(a_group(), history, NOW, PACE).is_fixed
    assert next_look(history, NOW, PACE) is None


def test_a_group_that_is_coming_up_does_not_grow() -> None:
    coming = paced(a_group(), History(is_up=False), NOW, PACE)
    assert (coming.may_grow, coming.may_shrink) == (False, True)
    assert coming.note == "its members are still coming up"


def test_a_group_that_starts_anew_with_each_change_is_let_come_up_first() -> None:
    assert not paced(a_group(), History(is_up=False, starts_anew=True), NOW, PACE).may_shrink


def waiting(history: History, now: float, places: tuple[str, ...] = ("n", "n", "n", "n", "", "")) -> History:
    return history.seen(a_group(len(places), places), is_up=False, is_ending=False, now=now)


def test_members_that_no_node_takes_are_given_up_after_a_while() -> None:
    group = a_group(6, ("n", "n", "n", "n", "", ""))
    history = waiting(History(changed_at=0.0, changed_by=2), NOW)
    assert next_look(history, NOW, PACE) == NOW + 60
    assert paced(group, history, NOW + 59, PACE).most == 8
    given_up = paced(group, waiting(history, NOW + 60), NOW + 60, PACE)
    assert (given_up.most, given_up.may_grow) == (4, False)
    assert given_up.note == "no node took more members for 60 s"


def test_a_waiting_member_amid_others_is_not_given_up_at_their_cost() -> None:
    group = a_group(4, ("n", "", "n", "n"))
    history = waiting(History(), NOW, group.places)
    assert paced(group, history, NOW + 60, PACE).most == 4


def test_nobody_is_given_up_below_the_least_size() -> None:
    group = a_group(4, ("", "", "", ""))
    history = waiting(History(), NOW, group.places)
    assert paced(group, history, NOW + 60, PACE).most == 2


def test_each_time_members_are_given_up_the_next_try_is_put_off_for_longer() -> None:
    history, now, waits = History(), NOW, []
    for _ in range(6):
        history = waiting(history.resized(2, now), now + 1)
        history = history.resized(-2, now + 61)
        history = history.seen(a_group(), is_up=True, is_ending=False, now=now + 62)
        start = now = now + 61
        while not paced(a_group(), history, now, PACE).may_grow:
            now = next_look(history, now, PACE) or pytest.fail("held for ever")
        waits.append(now - start)
    assert waits == [60, 120, 240, 480, 480, 480]


def test_growth_that_succeeds_makes_up_for_misses() -> None:
    history = waiting(History(), NOW).resized(-2, NOW + 30).resized(2, NOW + 100)
    assert history.misses == 1
    history = history.seen(a_group(), is_up=True, is_ending=False, now=NOW + 110)
    assert history.misses == 0
    assert paced(a_group(), history, NOW + 130, PACE) == a_group()


def test_a_clock_that_was_put_back_holds_nobody_for_ever() -> None:
    history = History(changed_at=NOW + 10_000, edited_at=NOW + 10_000)
    assert paced(a_group(), history, NOW, PACE) == a_group()


times = st.none() | st.integers(0, 400).map(float)
histories = st.builds(
    History,
    changed_at=times,
    changed_by=st.integers(-2, 2),
    changes=st.integers(0, 5),
    edited_at=times,
    is_up=st.booleans(),
    is_ending=st.booleans(),
    starts_anew=st.booleans(),
    waits_since=times,
    misses=st.integers(0, 5),
    missed_at=times,
)


@given(histories, st.integers(0, 1000).map(float), st.integers(1, 400).map(float))
def test_nothing_changes_before_the_next_look(history: History, now: float, later: float) -> None:
    """Times that lie ahead are left out: they happen by a mishap of clocks alone."""
    past = (
        each for each in (history.changed_at, history.edited_at, history.waits_since, history.missed_at) if each
    )
    now += max(past, default=0.0)
    look = next_look(history, now, PACE)
    moment = now + later if look is None else min(now + later, look - 0.5)
    assert paced(a_group(), history, now, PACE) == paced(a_group(), history, moment, PACE)


def test_without_news_a_group_is_looked_at_a_few_times_and_then_never_again() -> None:
    history = waiting(replace(History(), edited_at=NOW), NOW).resized(-1, NOW)
    looks, now = 0, NOW
    while (look := next_look(history, now, PACE)) is not None:
        now, looks = look, looks + 1
    assert looks == 4

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.cooldowns import GroupScaleHistory, ResizeCooldowns, next_cooldown_end, with_cooldown_restrictions
from pliant.autoscale.model import ElasticGroup, GroupKey, PodShape

PACE = ResizeCooldowns()
NOW = 10_000.0


def a_group(size: int = 4, places: tuple[str, ...] = ("n", "n", "n", "n")) -> ElasticGroup:
    return ElasticGroup(
        key=GroupKey("default", "PyTorchJob.kubeflow.org", "a", "worker"),
        min_size=2,
        max_size=8,
        size=size,
        shape=PodShape.of({"cpu": 1000}),
        replica_nodes=places,
    )


def test_a_group_that_nothing_has_happened_to_may_do_as_it_likes() -> None:
    group = a_group()
    assert with_cooldown_restrictions(group, GroupScaleHistory(), NOW, PACE) is group
    assert next_cooldown_end(GroupScaleHistory(), NOW, PACE) is None


def freedoms(history: GroupScaleHistory, after: float) -> tuple[bool, bool]:
    """Whether a group may grow, and whether it may shrink."""
    group = with_cooldown_restrictions(a_group(), history, NOW + after, PACE)
    assert not group.is_fixed
    return group.may_grow, group.may_shrink


def test_a_group_that_has_grown_may_grow_on_soon_and_shrink_later() -> None:
    history = GroupScaleHistory().with_resize(2, NOW)
    assert [freedoms(history, after) for after in (9.9, 10, 29.9)] == [(False, False), (True, False), (True, False)]
    assert with_cooldown_restrictions(a_group(), history, NOW + 30, PACE) == a_group()
    assert [next_cooldown_end(history, NOW + after, PACE) for after in (0, 10, 30)] == [NOW + 10, NOW + 30, None]


def test_a_group_that_has_shrunk_may_shrink_on_soon_and_grow_later() -> None:
    history = GroupScaleHistory().with_resize(-2, NOW)
    assert [freedoms(history, after) for after in (9.9, 10, 29.9)] == [(False, False), (False, True), (False, True)]
    assert with_cooldown_restrictions(a_group(), history, NOW + 30, PACE) == a_group()


def test_a_group_that_starts_anew_with_each_change_stays_for_longer_each_time() -> None:
    history = GroupScaleHistory(restarts_on_resize=True)
    for wait in (120, 240, 480, 600, 600):
        history = history.with_resize(2, NOW)
        assert freedoms(history, wait - 0.1) == (False, False)
        assert with_cooldown_restrictions(a_group(), history, NOW + wait, PACE) == a_group()


def test_a_cool_down_that_was_made_short_is_short_both_ways() -> None:
    assert (
        with_cooldown_restrictions(
            a_group(), GroupScaleHistory().with_resize(2, NOW), NOW + 5, ResizeCooldowns(opposite_direction_cooldown=5)
        )
        == a_group()
    )


def test_a_group_of_which_it_is_not_known_how_it_changed_stays_for_the_longer_time() -> None:
    assert freedoms(GroupScaleHistory(last_resized_at=NOW), 29) == (False, False)


def test_a_size_that_was_set_by_hand_is_left_alone_for_a_while() -> None:
    history = GroupScaleHistory(manually_edited_at=NOW)
    held = with_cooldown_restrictions(a_group(), history, NOW + 299, PACE)
    assert held.is_fixed
    assert held.restriction_reason == "a user set its size less than 5 min ago"
    assert next_cooldown_end(history, NOW, PACE) == NOW + 300
    assert not with_cooldown_restrictions(a_group(), history, NOW + 300, PACE).is_fixed


def test_a_group_of_which_a_member_has_ended_is_left_to_end() -> None:
    history = GroupScaleHistory(is_finishing=True, last_resized_at=NOW)
    assert with_cooldown_restrictions(a_group(), history, NOW, PACE).is_fixed
    assert next_cooldown_end(history, NOW, PACE) is None


def test_a_group_that_is_coming_up_does_not_grow() -> None:
    coming = with_cooldown_restrictions(a_group(), GroupScaleHistory(is_fully_running=False), NOW, PACE)
    assert (coming.may_grow, coming.may_shrink) == (False, True)
    assert coming.restriction_reason == "its replicas are still starting"


def test_a_group_that_starts_anew_with_each_change_is_let_come_up_first() -> None:
    assert not with_cooldown_restrictions(
        a_group(), GroupScaleHistory(is_fully_running=False, restarts_on_resize=True), NOW, PACE
    ).may_shrink


def waiting(
    history: GroupScaleHistory, now: float, places: tuple[str, ...] = ("n", "n", "n", "n", "", "")
) -> GroupScaleHistory:
    return history.with_observation(a_group(len(places), places), is_fully_running=False, is_finishing=False, now=now)


def test_members_that_no_node_takes_are_given_up_after_a_while() -> None:
    group = a_group(6, ("n", "n", "n", "n", "", ""))
    history = waiting(GroupScaleHistory(last_resized_at=0.0, last_resize_delta=2), NOW)
    assert next_cooldown_end(history, NOW, PACE) == NOW + 60
    assert with_cooldown_restrictions(group, history, NOW + 59, PACE).max_size == 8
    given_up = with_cooldown_restrictions(group, waiting(history, NOW + 60), NOW + 60, PACE)
    assert (given_up.max_size, given_up.may_grow) == (4, False)
    assert given_up.restriction_reason == "replicas could not be scheduled for 60 s"


def test_a_waiting_member_amid_others_is_not_given_up_at_their_cost() -> None:
    group = a_group(4, ("n", "", "n", "n"))
    history = waiting(GroupScaleHistory(), NOW, group.replica_nodes)
    assert with_cooldown_restrictions(group, history, NOW + 60, PACE).max_size == 4


def test_nobody_is_given_up_below_the_least_size() -> None:
    group = a_group(4, ("", "", "", ""))
    history = waiting(GroupScaleHistory(), NOW, group.replica_nodes)
    assert with_cooldown_restrictions(group, history, NOW + 60, PACE).max_size == 2


def test_each_time_members_are_given_up_the_next_try_is_put_off_for_longer() -> None:
    history, now, waits = GroupScaleHistory(), NOW, []
    for _ in range(6):
        history = waiting(history.with_resize(2, now), now + 1)
        history = history.with_resize(-2, now + 61)
        history = history.with_observation(a_group(), is_fully_running=True, is_finishing=False, now=now + 62)
        start = now = now + 61
        while not with_cooldown_restrictions(a_group(), history, now, PACE).may_grow:
            now = next_cooldown_end(history, now, PACE) or pytest.fail("held for ever")
        waits.append(now - start)
    assert waits == [60, 120, 240, 480, 480, 480]


def test_growth_that_succeeds_makes_up_for_misses() -> None:
    history = waiting(GroupScaleHistory(), NOW).with_resize(-2, NOW + 30).with_resize(2, NOW + 100)
    assert history.failed_growths == 1
    history = history.with_observation(a_group(), is_fully_running=True, is_finishing=False, now=NOW + 110)
    assert history.failed_growths == 0
    assert with_cooldown_restrictions(a_group(), history, NOW + 130, PACE) == a_group()


def test_a_clock_that_was_put_back_holds_nobody_for_ever() -> None:
    history = GroupScaleHistory(last_resized_at=NOW + 10_000, manually_edited_at=NOW + 10_000)
    assert with_cooldown_restrictions(a_group(), history, NOW, PACE) == a_group()


times = st.none() | st.integers(0, 400).map(float)
histories = st.builds(
    GroupScaleHistory,
    last_resized_at=times,
    last_resize_delta=st.integers(-2, 2),
    resize_count=st.integers(0, 5),
    manually_edited_at=times,
    is_fully_running=st.booleans(),
    is_finishing=st.booleans(),
    restarts_on_resize=st.booleans(),
    pending_since=times,
    failed_growths=st.integers(0, 5),
    growth_failed_at=times,
)


@given(histories, st.integers(0, 1000).map(float), st.integers(1, 400).map(float))
def test_nothing_changes_before_the_next_look(history: GroupScaleHistory, now: float, later: float) -> None:
    """Times that lie ahead are left out: they happen by a mishap of clocks alone."""
    past = (
        each
        for each in (
            history.last_resized_at,
            history.manually_edited_at,
            history.pending_since,
            history.growth_failed_at,
        )
        if each
    )
    now += max(past, default=0.0)
    look = next_cooldown_end(history, now, PACE)
    moment = now + later if look is None else min(now + later, look - 0.5)
    assert with_cooldown_restrictions(a_group(), history, now, PACE) == with_cooldown_restrictions(
        a_group(), history, moment, PACE
    )


def test_without_news_a_group_is_looked_at_a_few_times_and_then_never_again() -> None:
    history = waiting(replace(GroupScaleHistory(), manually_edited_at=NOW), NOW).with_resize(-1, NOW)
    looks, now = 0, NOW
    while (look := next_cooldown_end(history, now, PACE)) is not None:
        now, looks = look, looks + 1
    assert looks == 4

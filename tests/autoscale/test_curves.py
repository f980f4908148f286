from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve

LINEAR = SpeedupCurve()
AMDAHL = SpeedupCurve(parallel_cost=1.0, serial_cost=0.1)
CROWDED = SpeedupCurve(parallel_cost=1.0, serial_cost=0.02, communication_cost=0.01)
"""Fastest with ten members."""


def measured(curve: SpeedupCurve, *sizes: int, noise: float = 0.0, seed: int = 0) -> tuple[tuple[int, float], ...]:
    chance = Random(seed)
    return tuple((size, curve.throughput_at(size) * (1 + noise * chance.uniform(-1, 1))) for size in sizes)


def test_a_group_that_was_never_measured_is_taken_to_share_its_work_alike() -> None:
    curve = fit_speedup_curve(())
    assert curve.throughput_at(8) == 8 * curve.throughput_at(1)
    assert curve.max_valid_size == 0


def test_one_measure_is_read_as_well_as_can_be() -> None:
    curve = fit_speedup_curve(((4, 200.0),))
    assert curve.throughput_at(4) == pytest.approx(200)
    assert curve.throughput_at(8) == pytest.approx(400)
    assert curve.max_valid_size == 8


@pytest.mark.parametrize(("truth", "sizes"), [(LINEAR, (1, 2)), (AMDAHL, (2, 8)), (CROWDED, (1, 4, 12))])
def test_as_many_measures_as_a_curve_has_terms_give_it_back(truth: SpeedupCurve, sizes: tuple[int, ...]) -> None:
    curve = fit_speedup_curve(measured(truth, *sizes))
    for size in range(1, 20):
        assert curve.throughput_at(size) == pytest.approx(truth.throughput_at(size), rel=0.05)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("truth", [LINEAR, AMDAHL, CROWDED])
def test_noise_is_seen_through(truth: SpeedupCurve, seed: int) -> None:
    curve = fit_speedup_curve(measured(truth, *range(1, 17), noise=0.1, seed=seed))
    for size in range(1, 17):
        assert curve.throughput_at(size) == pytest.approx(truth.throughput_at(size), rel=0.15)


def test_a_group_that_gets_slower_is_seen_to_do_so() -> None:
    curve = fit_speedup_curve(((2, 100.0), (4, 50.0)))
    assert curve.relative_marginal_gain(2, 2) < 0
    assert curve.log_marginal_speedup(4) < 0


def test_a_member_of_a_linear_group_is_worth_as_much_as_any_other() -> None:
    assert LINEAR.relative_marginal_gain(17, 2) == pytest.approx(1)
    assert AMDAHL.relative_marginal_gain(17, 2) < 0.3


@pytest.mark.parametrize("speed", [0.0, -3.0, float("inf"), float("nan")])
def test_what_is_no_speed_is_not_looked_at(speed: float) -> None:
    assert fit_speedup_curve(((2, speed), (0, 7.0))) == SpeedupCurve()


points = st.tuples(st.integers(1, 10_000), st.floats(1e-6, 1e9))


@given(st.lists(points, max_size=12))
def test_any_measures_give_a_curve_whose_members_pay_less_and_less(found: list[tuple[int, float]]) -> None:
    curve = fit_speedup_curve(tuple(found))
    assert min(curve.parallel_cost, curve.serial_cost, curve.communication_cost) >= 0
    zeals = [curve.log_marginal_speedup(size) for size in range(1, 200)]
    rising = [zeal for zeal in zeals if zeal > 1e-9]
    assert rising == sorted(rising, reverse=True)
    assert all(curve.throughput_at(size) > 0 for size in (1, 2, 100, 100_000))


@given(st.lists(points, max_size=6, unique_by=lambda point: point[0]), st.randoms(use_true_random=False))
def test_the_order_of_measures_makes_no_difference(found: list[tuple[int, float]], chance: Random) -> None:
    mixed = list(found)
    chance.shuffle(mixed)
    assert fit_speedup_curve(tuple(mixed)) == fit_speedup_curve(tuple(found))


@given(st.lists(points, min_size=1, max_size=6), st.integers(-10, 10))
def test_the_units_of_work_make_no_difference(found: list[tuple[int, float]], exponent: int) -> None:
    one = fit_speedup_curve(tuple(found))
    other = fit_speedup_curve(tuple((size, speed * 2.0**exponent) for size, speed in found))
    assert [other.log_marginal_speedup(size) for size in range(1, 9)] == pytest.approx(
        [one.log_marginal_speedup(size) for size in range(1, 9)]
    )


def test_a_little_noise_makes_no_curve_of_a_straight_line() -> None:
    curve = fit_speedup_curve(((1, 10.0), (2, 19.6), (4, 38.6), (8, 77.0)))
    assert (curve.serial_cost, curve.communication_cost) == (0, 0)

"""Amounts of resources, as anybody may write them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pliant.schemas.quantity import parse_quantity
from pliant.schemas.quantity_format import format_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("8Gi", Fraction(8 * 2**30)),
        ("1.5", Fraction(3, 2)),
        ("1e3", Fraction(1000)),
        ("1n", Fraction(1, 10**9)),
        (2, Fraction(2)),
    ],
)
def test_amounts_are_exact(text: str | int, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["1e400", "1e999999999999", "9" * 4000, "99999999Ei", "9" * 5000, "1e" + "9" * 5000])
def test_what_is_too_large_is_the_largest_there_is(text: str) -> None:
    assert parse_quantity(text) == 2**63 - 1
    assert parse_quantity("-" + text) == 1 - 2**63


@pytest.mark.parametrize("text", ["1e-400", "1e-999999999999", "0.1n", f"0.{'0' * 5000}1", "1e-" + "9" * 5000])
def test_what_is_too_fine_is_rounded_up(text: str) -> None:
    assert parse_quantity(text) == Fraction(1, 10**9)


@pytest.mark.parametrize("text", ["", "lots", "1.2.3", "1 Gi", "1." * 5000, "1e", "nan", "inf"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_quantity(text)


def test_only_binary_amounts_are_written_with_at_most_63_bits() -> None:
    assert format_quantity(2**63) == "9223372036854775808"
    assert format_quantity("1e25") == "10e24"
    assert format_quantity("99999999Ei") == str(2**63 - 1)

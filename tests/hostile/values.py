"""Hostile values for a field, given its schema: wrong types, values outside of bounds, strange text, depth and size."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

INTEGERS = (0, -1, 1, 3, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30)
NUMBERS = (0.5, -0.0, 1e308, 5e-324, 1.0)
QUANTITIES = (
    *("", " ", "1", "0", "-1", "1e400", "1e-400", "9" * 400, "1Ki1", "1.5.5", "0x10", "1_000", "+1", "1ki", "²"),
    *("99999999999Ei", "-99999999999Ei", "1e+", ".5", "5.", "1m", "1u", "NaN", "Infinity", "١"),
    *("9" * 5_000, "1e" + "9" * 5_000, f"0.{'0' * 5_000}1"),
)
TEXTS = (
    *(
        "",
        " ",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../b",
        "-",
        "--help",
        "-rf",
        "A",
        "a" * 64,
        "a" * 254,
    ),
    *(
        "\x00",
        "a\x00b",
        "\x1b[2J\x1b]0;owned\x07",
        "\r\nX: y",
        "\u202egnp.exe",
        "\ufeff",
        "\ufffe",
        "é",
        "e\u0301",
        "𝔘𝔫𝔦",
    ),
    *(
        "\U0001f469\u200d\U0001f4bb",
        "$(HOME)",
        "$$(X)",
        "${HOME}",
        "`id`",
        "; reboot",
        "%s%n",
        "{0.__class__}",
        "{{x}}",
    ),
    *("null", "true", "1e5", "0o17", "~", "!!python/object:os.system", "*alias", "&a", "<script>", "'; DROP TABLE"),
    *("default", "kube-system", "system:masters", "kubernetes.io/x", "pliant", "worker", "2030-01-01T00:00:00Z"),
    *("10000-01-01T00:00:00Z", "2030-13-45", "P1D", "1h", "-1h", "1:2:3", "64512", "0.0.0.0", "::", "[", "http://["),
    "9" * 5_000,
    "x" * 70_000,
)
"""Text from which programs have broken: of paths, terminals, shells, templates, parsers and databases."""


def hostile_value(schema: Schema, rng: random.Random) -> Any:
    """A value that the schema may or may not allow."""
    if rng.random() < 0.35:
        return anything(rng)
    match schema:
        case {"enum": choices}:
            chosen = str(rng.choice(choices))
            return rng.choice([chosen, chosen.upper(), f" {chosen}", chosen[:-1], f"{chosen}\n"])
        case {"type": "boolean"}:
            return rng.choice([True, False, "true", "yes", 0, 1])
        case {"type": "integer"} | {"type": "number"}:
            bounds = [schema[each] for each in ("minimum", "maximum") if each in schema]
            beside = [bounds[0] - 1, bounds[0]] if bounds else [0]
            return rng.choice([*INTEGERS, *NUMBERS, *beside, *(each + 1 for each in bounds)])
        case {"type": "array", "items": items}:
            return [hostile_value(items, rng) for _ in range(rng.choice([0, 1, 2, 3]))] * rng.choice([1, 1, 2, 100])
        case {"type": "object", "additionalProperties": dict(inner)}:
            return {rng.choice(TEXTS[:-1]): hostile_value(inner, rng) for _ in range(rng.choice([0, 1, 3, 200]))}
        case {"type": "object", "properties": fields}:
            names = rng.sample(sorted(fields), min(len(fields), rng.choice([0, 1, 2, 5])))
            return {name: hostile_value(fields[name], rng) for name in names}
    if schema.get("x-kubernetes-int-or-string") or "pattern" in schema:
        return rng.choice([*QUANTITIES, *INTEGERS, *NUMBERS])
    return rng.choice([*TEXTS, *QUANTITIES])


def anything(rng: random.Random) -> Any:
    """A value that has nothing to do with a schema."""
    makers: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(INTEGERS),
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice([True, False]),
        list,
        dict,
        lambda: [None],
        lambda: {"": None},
        lambda: [[[[[]]]]],
        lambda: nested(rng.choice([5, 50, 90])),
        lambda: {rng.choice(TEXTS): rng.choice(TEXTS)},
        lambda: {f"k{number}": number for number in range(rng.choice([10, 2_000]))},
        lambda: [rng.choice(TEXTS[:-1])] * rng.choice([2, 2_000]),
    )
    return rng.choice(makers)()


def nested(depth: int) -> Any:
    """A value of this depth."""
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value

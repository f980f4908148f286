"""Times as people write them in traces."""

from __future__ import annotations

import re

_TIME = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)?", re.ASCII)
_SPANS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """A time or a span in seconds, from `90`, `90s`, `5m` or `1.5h`; ValueError for what is none."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a time in seconds, nor one such as 90s, 5m or 1.5h")
    number, unit = match.groups()
    return float(number) * _SPANS[unit or "s"]

"""The parameters of a request for the membership."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl

MAX_WAIT_SECONDS = 60
MAX_PARAMETERS = 16
_NUMBER_PATTERN = re.compile(r"[0-9]{1,16}")
_SECONDS_PATTERN = re.compile(r"[0-9]{1,2}(\.[0-9]{1,3})?")


class WaitQuery(NamedTuple):
    generation: int = 0
    """The generation of the membership that the replica knows."""
    checkpoint: int = 0
    """The last checkpoint request that the replica knows."""
    seconds: float = 0.0
    """How long to wait for a change."""

    @classmethod
    def parse(cls, query: str) -> WaitQuery:
        """Return the parameters of a query string; raise ValueError with the parameter that is invalid."""
        try:
            fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
        except ValueError:
            raise ValueError(f"the query has more than {MAX_PARAMETERS} parameters") from None
        seconds = fields.get("wait", "0")
        if not _SECONDS_PATTERN.fullmatch(seconds) or float(seconds) > MAX_WAIT_SECONDS:
            raise ValueError(f"wait: must be a number of seconds from 0 to {MAX_WAIT_SECONDS}")
        return cls(_parse_number(fields, "generation"), _parse_number(fields, "checkpoint"), float(seconds))


def _parse_number(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "0")
    if not _NUMBER_PATTERN.fullmatch(text):
        raise ValueError(f"{name}: must be an integer of at most 16 digits")
    return int(text)

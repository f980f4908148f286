"""The names of properties in expressions: characters that identifiers cannot have are escaped."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pliant.embedded.cel.lexer import RESERVED_NAMES

_RESERVED: Final = frozenset(("true", "false", "null", "in", *RESERVED_NAMES))
_PROPERTY: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@lru_cache(maxsize=4096)
def escape_property(name: str) -> str | None:
    """Return the name of a property in expressions; None if expressions cannot name it."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _PROPERTY.fullmatch(name):
        return None
    return re.sub(r"__|[./-]", lambda match: _ESCAPES[match[0]], name)

"""Tell a program where things are that cannot be mounted for it: by its command and variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_ADDRESSES = re.compile(r"(?:ADDR(?:ESS(?:ES)?|S)?|HOSTS?|ENDPOINTS?|UR[IL]|MASTER|SERVERS?|LIST|CONFIG)$")
"""What the names of variables end with that hold addresses."""
VARIABLE = "PLIANT_MOUNT_"
"""With a mount path in capitals after it: the folder or file that would have been mounted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What stands for what in the words that one container hears."""

    folders: Mapping[str, str]
    """Where that is which should be mounted, by mount path."""
    spoken: Callable[[str], str]
    """Puts addresses in place of names."""
    nearby: Callable[[str], str] | None = None
    """The same, also of the bare names that services have in their own namespace."""
    _paths: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_paths", _pattern(self.folders))

    def text(self, words: str) -> str:
        """Words with addresses for names, and folders for mount paths."""
        said = self.spoken(words)
        return self._paths.sub(lambda match: self.folders[match[0]], said) if self._paths else said

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """A container's variables in these words, and one more for every mount."""
        told = {f"{VARIABLE}{_capitals(target)}": source for target, source in self.folders.items()}
        return told | {name: self.text(self._near(name, value)) for name, value in given.items()}

    def _near(self, variable: str, value: str) -> str:
        """Bare names may be anything: they are taken for addresses only where an address is meant."""
        return self.nearby(value) if self.nearby and _ADDRESSES.search(variable) else value


def variable_of(path: str) -> str:
    """The variable that tells where a mount path is."""
    return VARIABLE + _capitals(path)


def is_named(path: str, texts: Iterable[str]) -> bool:
    """Whether a mount path is in some words as a path of its own or the beginning of one."""
    pattern = _pattern([path])
    return pattern is not None and any(pattern.search(text) for text in texts)


def _pattern(targets: Iterable[str]) -> re.Pattern[str] | None:
    """Finds whole paths and those below them, the longest first; not those that only end alike."""
    known = [re.escape(target) for target in sorted(targets, key=len, reverse=True)]
    if not known:
        return None
    return re.compile(rf"(?:(?<=://)|(?<![\w./~$}}-]))(?:{'|'.join(known)})(?![\w-])(?!\.\w)")


def _capitals(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_").upper()

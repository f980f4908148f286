"""Tell a program where things are that cannot be mounted for it: by its command and variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_ADDRESS_VARIABLE = re.compile(r"(?:ADDR(?:ESS(?:ES)?|S)?|HOSTS?|ENDPOINTS?|UR[IL]|MASTER|SERVERS?|LIST|CONFIG)$")
"""What the names of variables end with that hold addresses."""
MOUNT_VARIABLE_PREFIX = "PLIANT_MOUNT_"
"""With a mount path in capitals after it: the folder or file that would have been mounted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRewriter:
    """What stands for what in the words that one container hears."""

    mount_sources: Mapping[str, str]
    """Where that is which should be mounted, by mount path."""
    rewrite_hostnames: Callable[[str], str]
    """Puts addresses in place of names."""
    rewrite_short_hostnames: Callable[[str], str] | None = None
    """The same, also of the bare names that services have in their own namespace."""
    _paths: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_paths", _mount_path_pattern(self.mount_sources))

    def rewrite_text(self, text: str) -> str:
        """Words with addresses for names, and folders for mount paths."""
        said = self.rewrite_hostnames(text)
        return self._paths.sub(lambda match: self.mount_sources[match[0]], said) if self._paths else said

    def rewrite_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """A container's variables in these words, and one more for every mount."""
        told = {
            f"{MOUNT_VARIABLE_PREFIX}{_to_variable_suffix(target)}": source
            for target, source in self.mount_sources.items()
        }
        return told | {name: self.rewrite_text(self._rewrite_if_address(name, value)) for name, value in env.items()}

    def _rewrite_if_address(self, variable: str, value: str) -> str:
        """Bare names may be anything: they are taken for addresses only where an address is meant."""
        return (
            self.rewrite_short_hostnames(value)
            if self.rewrite_short_hostnames and _ADDRESS_VARIABLE.search(variable)
            else value
        )


def mount_variable(mount_path: str) -> str:
    """The variable that tells where a mount path is."""
    return MOUNT_VARIABLE_PREFIX + _to_variable_suffix(mount_path)


def is_path_mentioned(mount_path: str, texts: Iterable[str]) -> bool:
    """Whether a mount path is in some words as a path of its own or the beginning of one."""
    pattern = _mount_path_pattern([mount_path])
    return pattern is not None and any(pattern.search(text) for text in texts)


def _mount_path_pattern(mount_paths: Iterable[str]) -> re.Pattern[str] | None:
    """Finds whole paths and those below them, the longest first; not those that only end alike."""
    known = [re.escape(target) for target in sorted(mount_paths, key=len, reverse=True)]
    if not known:
        return None
    return re.compile(rf"(?:(?<=://)|(?<![\w./~$}}-]))(?:{'|'.join(known)})(?![\w-])(?!\.\w)")


def _to_variable_suffix(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_").upper()

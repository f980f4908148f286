"""Rewrite commands and environments for the host network mode: host paths for mount paths, addresses for host names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_ADDRESS_VARIABLE = re.compile(r"(?:ADDR(?:ESS(?:ES)?|S)?|HOSTS?|ENDPOINTS?|UR[IL]|MASTER|SERVERS?|LIST|CONFIG)$")
"""Matches the names of variables that contain addresses."""
_MOUNT_VARIABLE_PREFIX = "PLIANT_MOUNT_"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRewriter:
    """Rewrites the command and environment of one container."""

    mount_sources: Mapping[str, str]
    """Host paths by mount path."""
    rewrite_hostnames: Callable[[str], str]
    rewrite_short_hostnames: Callable[[str], str] | None = None
    """Also rewrites the short names of services in the namespace of the container."""
    _paths: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_paths", _mount_path_pattern(self.mount_sources))

    def rewrite_text(self, text: str) -> str:
        """Replace host names and mount paths in a text."""
        text = self.rewrite_hostnames(text)
        return self._paths.sub(lambda match: self.mount_sources[match[0]], text) if self._paths else text

    def rewrite_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the rewritten environment, with a `PLIANT_MOUNT_…` variable for each mount."""
        mounts = {mount_variable(target): source for target, source in self.mount_sources.items()}
        return mounts | {name: self.rewrite_text(self._rewrite_if_address(name, value)) for name, value in env.items()}

    def _rewrite_if_address(self, variable: str, value: str) -> str:
        # A short name may be any word: it is rewritten only in variables that contain addresses.
        if self.rewrite_short_hostnames and _ADDRESS_VARIABLE.search(variable):
            return self.rewrite_short_hostnames(value)
        return value


def mount_variable(mount_path: str) -> str:
    """Return the name of the variable that holds the host path of a mount."""
    return _MOUNT_VARIABLE_PREFIX + re.sub(r"\W+", "_", mount_path).strip("_").upper()


def is_path_mentioned(mount_path: str, texts: Iterable[str]) -> bool:
    """Return whether a mount path, or a path below it, occurs in the texts."""
    pattern = _mount_path_pattern([mount_path])
    return pattern is not None and any(pattern.search(text) for text in texts)


def _mount_path_pattern(mount_paths: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for the mount paths, longest first; it does not match in the middle of other paths."""
    escaped = [re.escape(path) for path in sorted(mount_paths, key=len, reverse=True)]
    if not escaped:
        return None
    return re.compile(rf"(?:(?<=://)|(?<![\w./~$}}-]))(?:{'|'.join(escaped)})(?![\w-])(?!\.\w)")

"""What is left of a run after its cluster has stopped: logs, explanation and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pliant.api.explanation import Explanation
from pliant.api.status import JobProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """Which logs to read; None selects all."""

    rank: int | None = None
    group: str | None = None
    container: str | None = None
    tail: int | None = None
    """The number of lines from the end of each log."""

    def includes(self, log_prefix: str) -> bool:
        """Return whether the log with the prefix `worker-0` or `worker-0/main` is selected."""
        replica, _, container = log_prefix.partition("/")
        group, _, rank = replica.rpartition("-")
        return (
            self.rank in (None, int(rank) if rank.isdigit() else None)
            and (self.group is None or self.group.lower() == group)
            and (self.container is None or container in ("", self.container))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The logs, the explanation and the result of a run."""

    explanation: Explanation
    lines: Mapping[str, Sequence[str]]
    """The last lines of each container, by log prefix."""
    progress: JobProgress | None = None
    """The progress that the program printed."""
    summary: str = ""
    """The result as `pliant run` prints it."""

    def format_logs(self, selection: LogSelection) -> str:
        """Return the selected lines, replica by replica; without a rank, lines begin with the name of the replica."""
        names = [name for name in self.lines if selection.includes(name)]
        width = max(map(len, names), default=0)
        parts = []
        for name in names:
            lines = self.lines[name]
            first = 0 if selection.tail is None else max(len(lines) - selection.tail, 0)
            parts += [f"{name:<{width}} │ {line}" if len(names) > 1 else line for line in lines[first:]]
        return "".join(f"{line}\n" for line in parts)

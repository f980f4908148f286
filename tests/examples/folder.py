"""The examples as files: the objects they hold, and what their headers promise."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.scenarios.jobs import Manifest

FOLDER = Path(__file__).parents[2] / "examples" / "aitrainingjob"
_PROMISE = re.compile(r"^# Ends as (?P<phase>\w+)(?: after (?P<restarts>\d+) restarts?)?[,.]", re.MULTILINE)


@dataclass(frozen=True)
class Promise:
    """How an example ends, in the words of its header."""

    phase: str
    restarts: int


@dataclass(frozen=True)
class Example:
    """One file of the folder."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the file, and of the job in it."""
        return self.path.stem

    @property
    def text(self) -> str:
        """All that is written there."""
        return self.path.read_text()

    @property
    def header(self) -> list[str]:
        """The comment on top."""
        lines = self.text.splitlines()
        return lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))]

    @property
    def promise(self) -> Promise:
        """What the header promises; an example that promises nothing is none."""
        found = _PROMISE.search("\n".join(self.header))
        assert found, f"{self.path.name}: the comment on top must hold a line such as `# Ends as Succeed.`"
        return Promise(found["phase"], int(found["restarts"] or 0))

    @property
    def manifest(self) -> Manifest:
        """The job; what its text says once and means twice is there twice."""
        (job,) = yaml.safe_load_all(self.text)
        unfolded: Manifest = json.loads(json.dumps(job))
        return unfolded


def examples() -> list[Example]:
    """Every example, by name."""
    return [Example(path) for path in sorted(FOLDER.glob("*.yaml"))]

"""One bug: the text to replace, and the tests that should notice."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A mistake that a careless engineer could make, as an edit of one file."""

    name: str
    area: str
    what: str
    """What is wrong, for the table in the documentation."""
    file: str
    """The path below the root of the repository."""
    before: str
    """The correct text, which occurs exactly once in the file."""
    after: str
    likely: tuple[str, ...]
    """The tests that should find it, as paths. They are run before all others."""

    @property
    def digest(self) -> str:
        """Identify this version of the bug: a result for another version says nothing about this one."""
        words = "\0".join((self.file, self.before, self.after))
        return blake2b(words.encode(), digest_size=6).hexdigest()

    def plant(self, text: str) -> str:
        """Return the text of the file with the bug in it; raises ValueError if the place is not unique."""
        if (times := text.count(self.before)) != 1:
            raise ValueError(f"{self.name}: `before` occurs {times} times in {self.file}, not once")
        return text.replace(self.before, self.after)

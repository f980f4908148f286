"""The differences that are intended, as rules; docs/embedded.md shows the same table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.differential.differences import Difference
from tests.differential.steps import Step


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One intended difference; it matches by verb, resource, field and values."""

    request: str
    real: str
    embedded: str
    aspect: str = "code"
    methods: tuple[str, ...] = ()
    plurals: str = ".*"
    field: str = ".*"
    values: tuple[object, object] | None = None
    media: str = ".*"

    def matches(self, step: Step, difference: Difference) -> bool:
        return (
            difference.aspect == self.aspect
            and (not self.methods or step.method in self.methods)
            and re.fullmatch(self.plurals, step.plural) is not None
            and re.fullmatch(self.field, difference.field, re.DOTALL) is not None
            and re.fullmatch(self.media, step.media) is not None
            and (self.values is None or self.values == (difference.real, difference.embedded))
        )


EXPLANATIONS: tuple[Explanation, ...] = ()


def find_explanation(step: Step, difference: Difference) -> Explanation | None:
    return next((each for each in EXPLANATIONS if each.matches(step, difference)), None)


def unexplained(step: Step, differences: Sequence[Difference]) -> list[Difference]:
    return [each for each in differences if find_explanation(step, each) is None]

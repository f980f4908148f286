"""The differences that are intended, as rules; docs/embedded.md shows the same table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.differential.answers import CRASHED
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
    real_value: object = None
    """The answer of kube-apiserver, if any answer of the embedded server is intended."""
    embedded_value: object = None
    body: str = ""
    """A pattern in the body of the request, as JSON."""
    ends_sequence: bool = False
    """Whether the servers have different objects from here on."""
    ignoring: str = ""
    """A pattern: texts are explained if they differ only in it."""
    ignores_order: bool = False
    """Whether texts are explained if they have the same lines."""

    def matches(self, step: Step, difference: Difference) -> bool:
        return (
            difference.aspect == self.aspect
            and (not self.methods or step.method in self.methods)
            and re.fullmatch(self.plurals, step.plural) is not None
            and re.fullmatch(self.field, difference.field, re.DOTALL) is not None
            and re.fullmatch(self.media, step.media) is not None
            and (self.values is None or self.values == (difference.real, difference.embedded))
            and self.real_value in (None, difference.real)
            and self.embedded_value in (None, difference.embedded)
            and (not self.body or re.search(self.body, json.dumps(step.body)) is not None)
            and (not self.ignoring or self._is_ignored(difference))
        )

    def _is_ignored(self, difference: Difference) -> bool:
        there, here = (re.sub(self.ignoring, "", str(value)) for value in (difference.real, difference.embedded))
        return there == here or (self.ignores_order and sorted(there.split("\n")) == sorted(here.split("\n")))


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        request="`managedFields` and the manager that a conflict names",
        real="after every write; the default manager is the name of the client",
        embedded="after the first server-side apply of an object; earlier fields belong to `before-first-apply`",
        aspect="message",
        methods=("PATCH",),
        media="application/apply-patch.yaml",
        ignoring=r'\nconflicts with [^\n]*|(?<=with )"[a-z-]+"( with subresource "[a-z]+")?( using [a-z0-9./]+)?',
        ignores_order=True,
    ),
    Explanation(
        request="an apply or update that creates an object with `deletionTimestamp` or `deletionGracePeriodSeconds`",
        real="the new object is terminating, or has the field",
        embedded="ignores the fields",
        aspect="object",
        methods=("PATCH", "PUT"),
        field=r"metadata\.deletion(Timestamp|GracePeriodSeconds)",
        embedded_value="<absent>",
        body='"deletion(Timestamp|GracePeriodSeconds)": ',
        ends_sequence=True,
    ),
    Explanation(
        request="a value that violates `oneOf`, `anyOf`, `allOf` or `not` of a CRD",
        real="names no field",
        embedded="names the field",
        aspect="cause",
        plurals="gadgets",
        field=r"spec\.(choice|mixed)",
        values=("<absent>", "FieldValueInvalid"),
    ),
    Explanation(
        request="create of a CustomResourceDefinition",
        real="its names are accepted a moment later",
        embedded="at once",
        aspect="object",
        methods=("POST", "PATCH", "PUT"),
        plurals="customresourcedefinitions",
        field=r"status\.(acceptedNames|conditions).*|metadata\.finalizers",
    ),
)


def find_explanation(step: Step, difference: Difference) -> Explanation | None:
    """Return the rule that matches a difference; nothing explains a crash."""
    if CRASHED in (difference.real, difference.embedded):
        return None
    return next((each for each in EXPLANATIONS if each.matches(step, difference)), None)


def unexplained(step: Step, differences: Sequence[Difference]) -> list[Difference]:
    return [each for each in differences if find_explanation(step, each) is None]


def render_table() -> str:
    """Return the rows of the table in docs/embedded.md."""
    head = "| request | kube-apiserver | embedded |\n|---|---|---|\n"
    return head + "".join(f"| {each.request} | {each.real} | {each.embedded} |\n" for each in EXPLANATIONS)

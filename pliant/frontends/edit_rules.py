"""CEL rules with which the API server rejects edits of active jobs that the operator would reject.

A rule is never stricter than the operator. It uses only functions that Kubernetes 1.30 has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pliant.frontends.crd import ValidationRule
from pliant.model.labels import MANAGED_BY_VALUE

GROUPS_MESSAGE = "groups cannot be added or removed"
TEMPLATE_MESSAGE = "the template of a group cannot change"
MANAGED_BY_MESSAGE = "managedBy cannot change"

Rules = dict[str, ValidationRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRules:
    """The rules of one kind; they belong to the root of its schema."""

    run_policy_path: str
    """The object that holds `suspend` and `managedBy`, `spec.runPolicy`."""
    suspend_fields: Sequence[str] = ("suspend",)
    end_time_path: str = "status.completionTime"
    """The field that is set when the outcome of a job is decided."""
    other_managed_by_values: Sequence[str] = ()
    """Values of `managedBy`, in addition to `pliant`, of jobs that the operator manages."""

    def for_managed_by(self) -> Rules:
        """Return the rule against handing over an active job to another controller."""
        path = f"{self.run_policy_path}.managedBy"
        before, after = (f"({_has_path(each, path)} ? {each}.{path} : '')" for each in ("oldSelf", "self"))
        rule = f"{self._is_editable} || {after} == {before} || {after} in {self._own_managed_by_values}"
        return {self._message(MANAGED_BY_MESSAGE): ValidationRule(rule, field_path=f".{path}")}

    def for_group_map(self, path: str, *, ignores_case: bool = False) -> Rules:
        """Return the rules for groups that are the values of a map; `ignores_case` applies to their names."""
        after, before = f"self.{path}", f"oldSelf.{path}"
        known = f"name in {before}"
        if ignores_case:
            known += f" || {before}.exists(old, old.lowerAscii() == name.lowerAscii())"
        have_groups = f"{_has_path('self', path)} && {_has_path('oldSelf', path)}"
        return self._group_rules(
            path,
            f"!({have_groups}) || {after}.size() == {before}.size() && {after}.all(name, {known})",
            f"!({have_groups}) || {after}.all(name, !(name in {before})"
            f" || {after}[name].template == {before}[name].template)",
        )

    def for_group_fields(self, path: str, names: Sequence[str]) -> Rules:
        """Return the rules for groups that are fields of an object."""
        fields = [(f"self.{path}.{name}", f"oldSelf.{path}.{name}") for name in names]
        return self._group_rules(
            path,
            " && ".join(f"has({after}) == has({before})" for after, before in fields),
            " && ".join(
                f"(!has({after}) || !has({before}) || {after}.template == {before}.template)"
                for after, before in fields
            ),
        )

    def for_group_list(self, path: str, name_field: str) -> Rules:
        """Return the rules for a list of groups in any order, whose names ignore case."""
        after, before = f"self.{path}", f"oldSelf.{path}"
        same_name = f"old.{name_field}.lowerAscii() == new.{name_field}.lowerAscii()"
        return self._group_rules(
            path,
            f"{after}.size() == {before}.size() && {after}.all(new, {before}.exists(old, {same_name}))",
            f"{after}.all(new, {before}.all(old, !({same_name}) || old.template == new.template))",
        )

    def for_fields(self, path: str, names: Sequence[str]) -> Rules:
        """Return one rule for each of several fields that pods are built from; a field may be absent."""
        rules = {}
        for name in names:
            field = f"{path}.{name}"
            has_before, has_after = _has_path("oldSelf", field), _has_path("self", field)
            rule = f"{self._is_editable} || !({has_before} && {has_after}) || self.{field} == oldSelf.{field}"
            rules[self._message(f"{field} cannot change")] = ValidationRule(rule, field_path=f".{field}")
        return rules

    def _group_rules(self, path: str, same_groups: str, same_templates: str) -> Rules:
        rules = {GROUPS_MESSAGE: same_groups, TEMPLATE_MESSAGE: same_templates}
        return {
            self._message(message): ValidationRule(f"{self._is_editable} || {rule}", field_path=f".{path}")
            for message, rule in rules.items()
        }

    def _message(self, problem: str) -> str:
        return f"{problem} while the job is active: set {self.run_policy_path}.{self.suspend_fields[0]} first"

    @property
    def _own_managed_by_values(self) -> list[str]:
        return ["", MANAGED_BY_VALUE, *self.other_managed_by_values]

    @property
    def _is_editable(self) -> str:
        """Whether a job has no pods of its spec: it is or was suspended, has ended, or the operator does not run it."""
        suspended = [
            f"{_has_path(each, path)} && {each}.{path}"
            for each in ("self", "oldSelf")
            for path in (f"{self.run_policy_path}.{name}" for name in self.suspend_fields)
        ]
        managed_by = f"{self.run_policy_path}.managedBy"
        is_external = f"{_has_path('oldSelf', managed_by)} && !(oldSelf.{managed_by} in {self._own_managed_by_values})"
        is_accepted = _has_path("oldSelf", "status.pliant")
        return " || ".join([*suspended, f"!({is_accepted})", _has_path("oldSelf", self.end_time_path), is_external])


def _has_path(root: str, path: str) -> str:
    """Return the expression that all fields of a path exist; `spec` of the root always does."""
    steps = path.split(".")
    checks = [f"has({root}.{'.'.join(steps[:count])})" for count in range(1, len(steps) + 1)]
    return " && ".join(check for check in checks if check != f"has({root}.spec)")

"""Rules of roles: what they allow, and whether some rules cover others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pliant.embedded.apiserver.authorization.attributes import RequestAttributes

_MAX_REMEMBERED_DECISIONS = 4096


class PolicyRule(NamedTuple):
    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def matches_kind(self, verb: str, group: str, resource_path: str) -> bool:
        """Return whether the rule is about the verb and the resource, whatever the name of the object."""
        return (
            (verb in self.verbs or "*" in self.verbs)
            and (group in self.api_groups or "*" in self.api_groups)
            and matches_resource(self.resources, resource_path)
        )

    def allows(self, attributes: RequestAttributes) -> bool:
        if not attributes.resource:
            is_allowed_verb = attributes.verb in self.verbs or "*" in self.verbs
            return is_allowed_verb and any(matches_path(url, attributes.path) for url in self.non_resource_urls)
        return self.matches_kind(attributes.verb, attributes.group, attributes.resource_path) and (
            not self.resource_names or attributes.name in self.resource_names
        )

    def to_raw(self) -> dict[str, list[str]]:
        raw = dict(zip(_FIELDS, map(list, self), strict=True))
        return {field: raw[field] for field in _FIELDS if raw[field]}

    def __str__(self) -> str:
        """Return the rule as errors of kube-apiserver print it."""
        fields = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("ResourceNames", self.resource_names),
            ("NonResourceURLs", self.non_resource_urls),
            ("Verbs", self.verbs),
        )
        texts = (f"{name}:[{' '.join(map(_quote, values))}]" for name, values in fields if values)
        return "{" + ", ".join(texts) + "}"


_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def _quote(text: str) -> str:
    return f'"{text}"'


def parse_rules(raw_rules: Sequence[Mapping[str, Any]] | None) -> tuple[PolicyRule, ...]:
    return tuple(PolicyRule(*(tuple(rule.get(field) or ()) for field in _FIELDS)) for rule in raw_rules or ())


def matches_resource(resources: Iterable[str], resource_path: str) -> bool:
    if resource_path in resources or "*" in resources:
        return True
    _, slash, subresource = resource_path.partition("/")
    return bool(slash) and f"*/{subresource}" in resources


def matches_path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class RuleSet:
    """The rules that apply to a user in a namespace; answers for a verb and a resource are remembered."""

    __slots__ = ("_decisions", "errors", "rules")

    def __init__(self, rules: Sequence[PolicyRule], errors: Sequence[str] = ()) -> None:
        self.rules = tuple(rules)
        self.errors = tuple(errors)
        """Bindings whose role does not exist."""
        self._decisions: dict[tuple[str, str, str], bool | frozenset[str]] = {}

    def allows(self, attributes: RequestAttributes) -> bool:
        if not attributes.resource:
            return any(rule.allows(attributes) for rule in self.rules)
        key = (attributes.verb, attributes.group, attributes.resource_path)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _MAX_REMEMBERED_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(key)
        return decision if isinstance(decision, bool) else attributes.name in decision

    def _decide(self, key: tuple[str, str, str]) -> bool | frozenset[str]:
        """Return whether all objects are allowed, or the names of those that are."""
        matching = [rule for rule in self.rules if rule.matches_kind(*key)]
        if not all(rule.resource_names for rule in matching):
            return True
        names = frozenset(name for rule in matching for name in rule.resource_names)
        return names or False


def uncovered_rules(held: Sequence[PolicyRule], granted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of the granted rules that the held rules do not cover, sorted as kube-apiserver prints them."""
    missing: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for single in (single for rule in granted for single in _split_rule(rule)):
        if not any(_covers(rule, single) for rule in held):
            verbs = missing.setdefault(single[1:], [])
            if single.verbs[0] not in verbs:
                verbs.append(single.verbs[0])
    return sorted((PolicyRule(tuple(verbs), *rest) for rest, verbs in missing.items()), key=str)


def _split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Yield rules with one verb, and one resource, name or path each."""
    for url in rule.non_resource_urls:
        yield from (PolicyRule((verb,), non_resource_urls=(url,)) for verb in rule.verbs)
    for group in rule.api_groups:
        for resource in rule.resources:
            for name in rule.resource_names or ("",):
                names = (name,) if name else ()
                yield from (PolicyRule((verb,), (group,), (resource,), names) for verb in rule.verbs)


def _covers(held: PolicyRule, single: PolicyRule) -> bool:
    if not set(single.verbs) <= set(held.verbs) and "*" not in held.verbs:
        return False
    if single.non_resource_urls:
        return any(_covers_path(url, single.non_resource_urls[0]) for url in held.non_resource_urls)
    return (
        (single.api_groups[0] in held.api_groups or "*" in held.api_groups)
        and matches_resource(held.resources, single.resources[0])
        and (not held.resource_names or bool(set(single.resource_names) & set(held.resource_names)))
    )


def _covers_path(held: str, granted: str) -> bool:
    return held == granted or (held.endswith("*") and granted.startswith(held[:-1]))

"""Rules of roles: what they allow, and whether some rules cover others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pliant.embedded.apiserver.authorization.attributes import RequestAttributes

_MAX_REMEMBERED_DECISIONS = 4096
_MAX_COMPARED_PARTS = 5000


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
    """Return the parts of the granted rules that the held rules do not cover, sorted as kube-apiserver prints them.

    A rule with very many parts is split only if no held rule covers it, and counts as a whole if it is too large.
    """
    missing: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    too_large = []
    budget = _MAX_COMPARED_PARTS
    for rule in granted:
        if any(_covers_whole(each, rule) for each in held):
            continue
        budget -= _count_parts(rule)
        if budget < 0:
            too_large.append(rule)
            continue
        for single in _split_rule(rule):
            verbs = missing.get(single[1:], [])
            if single.verbs[0] not in verbs and not any(_covers_whole(each, single) for each in held):
                missing.setdefault(single[1:], verbs).append(single.verbs[0])
    parts = [PolicyRule(tuple(verbs), *rest) for rest, verbs in missing.items()]
    return sorted(parts + too_large, key=str)


def _count_parts(rule: PolicyRule) -> int:
    objects = len(rule.api_groups) * len(rule.resources) * max(len(rule.resource_names), 1)
    return len(rule.verbs) * (objects + len(rule.non_resource_urls))


def _split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Yield rules with one verb, and one resource, name or path each."""
    for url in rule.non_resource_urls:
        yield from (PolicyRule((verb,), non_resource_urls=(url,)) for verb in rule.verbs)
    for group in rule.api_groups:
        for resource in rule.resources:
            for name in rule.resource_names or ("",):
                names = (name,) if name else ()
                yield from (PolicyRule((verb,), (group,), (resource,), names) for verb in rule.verbs)


def _covers_whole(held: PolicyRule, granted: PolicyRule) -> bool:
    """Return whether one rule allows all that another allows."""
    if "*" not in held.verbs and not set(granted.verbs) <= set(held.verbs):
        return False
    if granted.non_resource_urls:
        return all(any(_covers_path(url, each) for url in held.non_resource_urls) for each in granted.non_resource_urls)
    if held.resource_names and not (granted.resource_names and set(granted.resource_names) <= set(held.resource_names)):
        return False
    return ("*" in held.api_groups or set(granted.api_groups) <= set(held.api_groups)) and (
        "*" in held.resources or all(matches_resource(held.resources, each) for each in granted.resources)
    )


def _covers_path(held: str, granted: str) -> bool:
    return held == granted or (held.endswith("*") and granted.startswith(held[:-1]))

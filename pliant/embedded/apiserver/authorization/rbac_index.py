"""Roles and bindings, indexed by subject, so that a decision looks only at the bindings of the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.embedded.apiserver.auth.users import SERVICE_ACCOUNT_PREFIX, UserInfo
from pliant.embedded.apiserver.authorization.rules import PolicyRule, RuleSet, parse_rules
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject

RBAC_API_GROUP = "rbac.authorization.k8s.io"
ROLES_KEY, CLUSTER_ROLES_KEY = f"{RBAC_API_GROUP}/roles", f"{RBAC_API_GROUP}/clusterroles"
ROLE_BINDINGS_KEY = f"{RBAC_API_GROUP}/rolebindings"
CLUSTER_ROLE_BINDINGS_KEY = f"{RBAC_API_GROUP}/clusterrolebindings"
_ROLE_KEYS = (ROLES_KEY, CLUSTER_ROLES_KEY)
RBAC_RESOURCE_KEYS = frozenset({*_ROLE_KEYS, ROLE_BINDINGS_KEY, CLUSTER_ROLE_BINDINGS_KEY})
_MAX_REMEMBERED_RULE_SETS = 4096


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or a ClusterRoleBinding if it has no namespace."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: Mapping[str, str]
    """The subjects by their keys, as reasons describe them."""

    @property
    def role(self) -> tuple[str, str]:
        return ("" if self.role_kind == "ClusterRole" else self.namespace, self.role_name)

    def describe(self, subject_key: str) -> str:
        name = f'RoleBinding "{self.name}/{self.namespace}"' if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'{name} of {self.role_kind} "{self.role_name}" to {self.subjects[subject_key]}'


class RbacIndex:
    """Follows the committed roles and bindings. The rules of a user in a namespace are remembered until one changes."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, str], dict[str, Binding]] = {}
        """The bindings of a namespace, or "" for cluster-wide ones, and a subject, by name."""
        self._rule_sets: dict[tuple[str, ...], RuleSet] = {}

    def load(self, index: ObjectIndex) -> None:
        for resource in sorted(RBAC_RESOURCE_KEYS):
            for record in index.list_objects(resource):
                self._add(record)
        self._rule_sets.clear()

    def on_commit(self, changes: Sequence[ObjectChange]) -> None:
        has_changed = False
        for change in changes:
            if change.after.key.resource in RBAC_RESOURCE_KEYS:
                has_changed = True
                self._remove(change.after)
                if not change.is_deleted:
                    self._add(change.after)
        if has_changed:
            self._rule_sets.clear()

    def role_rules(self, role: tuple[str, str]) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role, given by namespace ("" for a ClusterRole) and name; None if it does not exist."""
        return self._roles.get(role)

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        """Return the rules of a user in a namespace, or at cluster scope if it is empty."""
        key = (user["username"], namespace, *user["groups"])
        found = self._rule_sets.get(key)
        if found is None:
            if len(self._rule_sets) >= _MAX_REMEMBERED_RULE_SETS:
                self._rule_sets.clear()
            found = self._rule_sets[key] = self._collect_rules(user, namespace)
        return found

    def bindings_of(self, user: UserInfo, namespace: str) -> Iterator[tuple[Binding, str]]:
        """Yield the bindings of a user and the key of the subject that is the user: first the cluster-wide ones."""
        subject_keys = (_user_key(user["username"]), *map(_group_key, user["groups"]))
        for scope in dict.fromkeys(("", namespace)):
            found: dict[str, tuple[Binding, str]] = {}
            for subject_key in subject_keys:
                for name, binding in self._by_subject.get((scope, subject_key), {}).items():
                    found.setdefault(name, (binding, subject_key))
            for name in sorted(found):
                yield found[name]

    def _collect_rules(self, user: UserInfo, namespace: str) -> RuleSet:
        rules: list[PolicyRule] = []
        errors: dict[str, None] = {}
        for binding, _ in self.bindings_of(user, namespace):
            role_rules = self._roles.get(binding.role)
            if role_rules is None:
                errors[f'{binding.role_kind.lower()}.{RBAC_API_GROUP} "{binding.role_name}" not found'] = None
            else:
                rules += role_rules
        return RuleSet(rules, list(errors))

    def _add(self, record: StoredObject) -> None:
        key, obj = record.key, record.decode()
        if key.resource in _ROLE_KEYS:
            self._roles[key[1:]] = parse_rules(obj.get("rules"))
            return
        role = obj["roleRef"]
        described = (_describe_subject(subject, key.namespace) for subject in obj.get("subjects") or ())
        subjects = dict(entry for entry in described if entry is not None)
        binding = Binding(key.namespace, key.name, role["kind"], role["name"], subjects)
        self._bindings[key[1:]] = binding
        for subject_key in subjects:
            self._by_subject.setdefault((key.namespace, subject_key), {})[key.name] = binding

    def _remove(self, record: StoredObject) -> None:
        key = record.key
        if key.resource in _ROLE_KEYS:
            self._roles.pop(key[1:], None)
            return
        binding = self._bindings.pop(key[1:], None)
        for subject_key in binding.subjects if binding is not None else ():
            bindings = self._by_subject[key.namespace, subject_key]
            del bindings[key.name]
            if not bindings:
                del self._by_subject[key.namespace, subject_key]


def _user_key(name: str) -> str:
    return f"User/{name}"


def _group_key(name: str) -> str:
    return f"Group/{name}"


def _describe_subject(subject: Mapping[str, Any], binding_namespace: str) -> tuple[str, str] | None:
    """Return the key and the description of a subject; None if it is of an unknown kind."""
    kind, name = subject["kind"], subject["name"]
    match kind:
        case "User":
            return _user_key(name), f'User "{name}"'
        case "Group":
            return _group_key(name), f'Group "{name}"'
        case "ServiceAccount":
            namespace = subject.get("namespace") or binding_namespace
            return _user_key(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"), f'ServiceAccount "{name}/{namespace}"'
    return None

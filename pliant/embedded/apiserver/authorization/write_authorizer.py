"""Checks of writes that depend on the object: rights that it grants, its working directory, and creation by apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pliant.embedded.apiserver.auth.users import UserInfo
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes, resource_attributes
from pliant.embedded.apiserver.authorization.authorizer import Authorizer, format_errors
from pliant.embedded.apiserver.authorization.rbac_index import (
    CLUSTER_ROLES_KEY,
    RBAC_API_GROUP,
    RBAC_RESOURCE_KEYS,
    ROLES_KEY,
)
from pliant.embedded.apiserver.authorization.rules import PolicyRule, parse_rules, uncovered_rules
from pliant.embedded.apiserver.authorization.workspace_authorizer import WorkspaceAuthorizer
from pliant.embedded.apiserver.http.errors import forbidden, not_found
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object

_EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), non_resource_urls=("*",)))
_GARBAGE_COLLECTION_FIELDS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class WriteAuthorizer:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._workspaces = WorkspaceAuthorizer(authorizer)

    def require_create(self, info: RequestInfo) -> None:
        """Raise `Forbidden` if the user may patch but not create an object, which server-side apply would create."""
        if not self._authorizer.allows_everything(info.user):
            self._authorizer.require(resource_attributes(info, info.user)._replace(verb="create"))

    def check_object(self, transaction: Transaction, info: RequestInfo, new: Object, old: Object | None) -> None:
        """Raise `Forbidden` if the user of a request may not write this object in place of the old one."""
        self._check_grant(info.kind, info.user, new, old)
        self._workspaces.check_object(transaction, info, new, old)

    def _check_grant(self, kind: Kind, user: UserInfo, new: Object, old: Object | None) -> None:
        """Raise `Forbidden` if a user writes a role or binding that grants more than the user has."""
        if kind.resource_key not in RBAC_RESOURCE_KEYS or self._authorizer.allows_everything(user):
            return
        if old is not None and _without_garbage_collection_fields(new) == _without_garbage_collection_fields(old):
            return
        if kind.resource_key in (ROLES_KEY, CLUSTER_ROLES_KEY):
            self._check_role(kind, user, new, old)
        else:
            self._check_binding(kind, user, new)

    def _check_role(self, kind: Kind, user: UserInfo, role: Object, old: Object | None) -> None:
        namespace, name = role["metadata"].get("namespace", ""), role["metadata"]["name"]
        if self._is_allowed(user, "escalate", kind.plural, namespace, name):
            return
        aggregation = role.get("aggregationRule")
        if aggregation and (old is None or aggregation != old.get("aggregationRule")):
            held = self._authorizer.rules_for(user, "")
            if uncovered_rules(held.rules, _EVERYTHING):
                raise forbidden(kind, name, "must have cluster-admin privileges to use the aggregationRule")
        self._require_held(kind, user, role, parse_rules(role.get("rules")))

    def _check_binding(self, kind: Kind, user: UserInfo, binding: Object) -> None:
        namespace, role = binding["metadata"].get("namespace", ""), binding["roleRef"]
        is_cluster_role = role["kind"] == "ClusterRole"
        plural = "clusterroles" if is_cluster_role else "roles"
        if self._is_allowed(user, "bind", plural, namespace, role["name"]):
            return
        rules = self._authorizer.rbac.role_rules(("" if is_cluster_role else namespace, role["name"]))
        if rules is None:
            raise not_found(kind, role["name"])
        self._require_held(kind, user, binding, rules)

    def _require_held(self, kind: Kind, user: UserInfo, obj: Object, granted: Sequence[PolicyRule]) -> None:
        held = self._authorizer.rules_for(user, obj["metadata"].get("namespace", ""))
        missing = uncovered_rules(held.rules, granted)
        if missing:
            groups = " ".join(f'"{group}"' for group in user["groups"])
            who = f'user "{user["username"]}" (groups=[{groups}])'
            rules = "\n".join(map(str, missing))
            detail = f"{who} is attempting to grant RBAC permissions not currently held:\n{rules}"
            if held.errors:
                detail += f"; resolution errors: [{format_errors(held.errors)}]"
            raise forbidden(kind, obj["metadata"]["name"], detail)

    def _is_allowed(self, user: UserInfo, verb: str, plural: str, namespace: str, name: str) -> bool:
        attributes = RequestAttributes(user, verb, RBAC_API_GROUP, plural, "", namespace, name)
        return self._authorizer.is_allowed(attributes)


def _without_garbage_collection_fields(obj: Object) -> dict[str, Any]:
    metadata = {field: value for field, value in obj["metadata"].items() if field not in _GARBAGE_COLLECTION_FIELDS}
    return {**obj, "metadata": metadata}

"""Decides whether a request is allowed: the owner of the cluster, nodes, then roles and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from pliant.embedded.apiserver.auth.users import UserInfo, is_superuser, node_name_of
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes, forbidden_request
from pliant.embedded.apiserver.authorization.node_authorizer import NodeAuthorizer
from pliant.embedded.apiserver.authorization.rbac_index import RbacIndex
from pliant.embedded.apiserver.authorization.rules import PolicyRule, RuleSet
from pliant.embedded.storage.store import Store

_ALL_RULES = RuleSet((PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), non_resource_urls=("*",))))


class AuthorizationMode(StrEnum):
    RBAC = "RBAC"
    ALWAYS_ALLOW = "AlwaysAllow"


class Decision(NamedTuple):
    is_allowed: bool
    reason: str = ""


class Authorizer:
    """Answers from the committed roles, bindings and pods."""

    def __init__(self, store: Store, mode: AuthorizationMode) -> None:
        self.mode = mode
        self.rbac = RbacIndex()
        self._store = store
        self._nodes = NodeAuthorizer(store.committed)

    def start(self) -> None:
        """Load the stored objects, and follow the store from now on."""
        if self.mode is AuthorizationMode.ALWAYS_ALLOW:
            return
        for follower in (self.rbac, self._nodes):
            follower.load(self._store.committed)
            self._store.add_listener(follower.on_commit)

    def allows_everything(self, user: UserInfo) -> bool:
        return self.mode is AuthorizationMode.ALWAYS_ALLOW or is_superuser(user)

    def require(self, attributes: RequestAttributes) -> None:
        """Raise `Forbidden` unless a request is allowed."""
        if not self.is_allowed(attributes):
            raise forbidden_request(attributes, self.decide(attributes).reason)

    def is_allowed(self, attributes: RequestAttributes) -> bool:
        user = attributes.user
        if self.allows_everything(user) or self.rbac.rules_for(user, attributes.namespace).allows(attributes):
            return True
        node = node_name_of(user)
        return node is not None and self._nodes.decide(node, attributes) is None

    def decide(self, attributes: RequestAttributes) -> Decision:
        """Decide about a request and say which binding allows it, or why it is denied, if there is more to say."""
        user = attributes.user
        if self.allows_everything(user):
            return Decision(True)
        reasons = []
        if (node := node_name_of(user)) is not None:
            if (reason := self._nodes.decide(node, attributes)) is None:
                return Decision(True)
            reasons.append(reason)
        for binding, subject_key in self.rbac.bindings_of(user, attributes.namespace):
            if any(rule.allows(attributes) for rule in self.rbac.role_rules(binding.role) or ()):
                return Decision(True, f"RBAC: allowed by {binding.describe(subject_key)}")
        if errors := self.rbac.rules_for(user, attributes.namespace).errors:
            reasons.append(f"RBAC: {format_errors(errors)}")
        return Decision(False, "\n".join(filter(None, reasons)))

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        if self.mode is AuthorizationMode.ALWAYS_ALLOW:
            return _ALL_RULES
        return self.rbac.rules_for(user, namespace)


def format_errors(errors: Sequence[str]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"

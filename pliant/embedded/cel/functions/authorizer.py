"""Functions that ask whether the user of a request, or a service account, may do something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.values import EvaluationError, register_value_class


@dataclass(frozen=True, slots=True)
class DecisionValue:
    is_allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PathCheckValue:
    authorizer: AuthorizerValue
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheckValue:
    authorizer: AuthorizerValue
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheckValue:
    authorizer: AuthorizerValue
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizerValue:
    decide: Callable[[str, str, PathCheckValue | ResourceCheckValue], DecisionValue]
    """Decides whether a service account, or the user of the request if it is empty, may use a verb."""
    account: str = ""


for _class, _type in (
    (AuthorizerValue, types.AUTHORIZER),
    (PathCheckValue, types.PATH_CHECK),
    (GroupCheckValue, types.GROUP_CHECK),
    (ResourceCheckValue, types.RESOURCE_CHECK),
    (DecisionValue, types.DECISION),
):
    register_value_class(_class, _type)


def _path(authorizer: AuthorizerValue, path: str) -> PathCheckValue:
    if not path:
        raise EvaluationError("path must not be empty")
    return PathCheckValue(authorizer, path)


def _service_account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    for kind, text in (("name", name), ("namespace", namespace)):
        if not text:
            raise EvaluationError(f"Invalid service account {kind}")
    return replace(authorizer, account=f"system:serviceaccount:{namespace}:{name}")


def _resource(check: GroupCheckValue, resource: str) -> ResourceCheckValue:
    if not resource:
        raise EvaluationError("resource must not be empty")
    return ResourceCheckValue(check.authorizer, check.group, resource)


def _with(field: str) -> Callable[[ResourceCheckValue, str], ResourceCheckValue]:
    def narrow(check: ResourceCheckValue, value: str) -> ResourceCheckValue:
        fields: dict[str, Any] = {field: value}
        return replace(check, **fields)

    return narrow


def _check(check: Any, verb: str) -> DecisionValue:
    authorizer = check.authorizer
    return DecisionValue(False) if authorizer is None else authorizer.decide(authorizer.account, verb, check)


def declare_authorizer_functions(library: Library) -> None:
    declare = library.declare
    declare("(Authorizer).path(string) -> PathCheck", _path)
    declare("(Authorizer).group(string) -> GroupCheck", GroupCheckValue)
    declare("(Authorizer).serviceAccount(string, string) -> Authorizer", _service_account)
    declare("(GroupCheck).resource(string) -> ResourceCheck", _resource)
    for field in ("subresource", "namespace", "name"):
        declare(f"(ResourceCheck).{field}(string) -> ResourceCheck", _with(field))
    for kind in ("PathCheck", "ResourceCheck"):
        declare(f"({kind}).check(string) -> Decision", _check)
    declare("(Decision).allowed() -> bool", lambda decision: decision.is_allowed)
    declare("(Decision).reason() -> string", lambda decision: decision.reason)
    declare("(Decision).errored() -> bool", lambda decision: False)
    declare("(Decision).error() -> string", lambda decision: "")

"""Impersonation: a user with the right to impersonate sends a request as another user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pliant.embedded.apiserver.auth.users import (
    ANONYMOUS_USER,
    AUTHENTICATED_GROUP,
    SERVICE_ACCOUNT_PREFIX,
    UserInfo,
    service_account_user,
)
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes
from pliant.embedded.apiserver.authorization.authorizer import Authorizer
from pliant.embedded.apiserver.http.errors import bad_request

_HEADER_PREFIX = "impersonate-"
_EXTRA_PREFIX = "extra-"


def impersonated_user(headers: Iterable[tuple[str, str]], user: UserInfo, authorizer: Authorizer) -> UserInfo:
    """Return the user that the headers name, `user` without such headers; raise `Forbidden` if it is not allowed."""
    values: dict[str, list[str]] = {}
    for header, value in headers:
        field = header.lower()
        if field.startswith(_HEADER_PREFIX):
            values.setdefault(field.removeprefix(_HEADER_PREFIX), []).append(value)
    if not values:
        return user
    name, uid, groups = values.get("user", [""])[0], values.get("uid", [""])[0], values.get("group", [])
    if not name:
        raise bad_request("Impersonate-User: Required value: the other headers of impersonation name no user")
    extra = {
        unquote(field.removeprefix(_EXTRA_PREFIX)): values[field] for field in values if field.startswith(_EXTRA_PREFIX)
    }
    for attributes in _required_rights(user, name, uid, groups, extra):
        authorizer.require(attributes)
    return _build_user(name, uid, groups, extra)


def _required_rights(
    user: UserInfo, name: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> list[RequestAttributes]:
    account = _split_service_account(name)
    rights = (
        [("", "serviceaccounts", "", account[0], account[1])] if account is not None else [("", "users", "", "", name)]
    )
    rights += [("", "groups", "", "", group) for group in groups]
    authentication = "authentication.k8s.io"
    if uid:
        rights.append((authentication, "uids", "", "", uid))
    rights += [(authentication, "userextras", field, "", value) for field, values in extra.items() for value in values]
    return [RequestAttributes(user, "impersonate", *right) for right in rights]


def _build_user(name: str, uid: str, groups: list[str], extra: Mapping[str, Sequence[str]]) -> UserInfo:
    if name == ANONYMOUS_USER["username"]:
        return ANONYMOUS_USER
    built: dict[str, Any] = {"username": name, "groups": groups}
    account = _split_service_account(name)
    if not groups and account is not None:
        built = service_account_user(*account)
    elif AUTHENTICATED_GROUP not in groups:
        built["groups"] = [*groups, AUTHENTICATED_GROUP]
    return {**built, **({"uid": uid} if uid else {}), **({"extra": dict(extra)} if extra else {})}


def _split_service_account(username: str) -> tuple[str, str] | None:
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None

"""What an authorizer knows about a request: the user, the verb, and the object or path."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from pliant.embedded.apiserver.auth.users import UserInfo
from pliant.embedded.apiserver.http.request_info import TRUE_QUERY_VALUES, RequestInfo
from pliant.embedded.apiserver.selectors import FieldSelector
from pliant.errors import BadRequest, Forbidden
from pliant.kube.transport.base import Request

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestAttributes(NamedTuple):
    """A request for a resource, or for a path if `resource` is empty."""

    user: UserInfo
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""

    @property
    def resource_path(self) -> str:
        """Return the resource as rules name it: `pods`, or `pods/log` for a subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def describe(self) -> str:
        """Say what the user cannot do, in the words of kube-apiserver."""
        user = f'User "{self.user["username"]}" cannot {self.verb}'
        if not self.resource:
            return f'{user} path "{self.path}"'
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{user} resource "{self.resource_path}" in API group "{self.group}" {scope}'


def resource_attributes(info: RequestInfo, user: UserInfo) -> RequestAttributes:
    """Return the attributes of a request for a served resource."""
    kind, name, selector = info.kind, info.name, ""
    verb = _VERBS.get(info.request.method, "")
    if not name:
        verb, name, selector = _collection_verb_and_name(info.request, verb)
    # Kubernetes counts a namespace as an object in itself, so that a role in the namespace may grant access to it.
    namespace = info.name if kind.plural == "namespaces" and not kind.group else info.namespace
    return RequestAttributes(user, verb, kind.group, kind.plural, info.subresource, namespace, name, "", selector)


def path_attributes(request: Request, user: UserInfo) -> RequestAttributes:
    """Return the attributes of a request for a path that is not about resources."""
    return RequestAttributes(user, request.method.lower(), path=request.path)


def unserved_attributes(request: Request, user: UserInfo) -> RequestAttributes:
    """Return the attributes of a request for a resource that is not served, or for any other path."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return path_attributes(request, user)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(request.method, "")
    if not name:
        verb, name, _ = _collection_verb_and_name(request, verb)
    return RequestAttributes(user, verb, group, resource, subresource, namespace, name)


def forbidden_request(attributes: RequestAttributes, reason: str) -> Forbidden:
    """Return the 403 for a request that is not allowed."""
    group, resource, name = attributes.group, attributes.resource, attributes.name
    qualified = f"{resource}.{group}" if group else resource
    subject = f'{qualified} "{name}" is ' if name else f"{qualified} is " if resource else ""
    fields = {"name": name, "group": group, "kind": resource} if resource else {}
    message = f"{subject}forbidden: {attributes.describe()}" + (f": {reason}" if reason else "")
    return Forbidden(403, "Forbidden", message, details={key: value for key, value in fields.items() if value})


def _collection_verb_and_name(request: Request, verb: str) -> tuple[str, str, str]:
    """Return the verb of a request for a collection, the only name that its selector allows, and the selector."""
    query = request.query
    if verb != "get":
        return _COLLECTION_VERBS.get(verb, verb), "", ""
    verb = "watch" if query.get("watch", "") in TRUE_QUERY_VALUES else "list"
    selector = query.get("fieldSelector", "")
    name = selected_value(selector, "metadata.name") if selector else ""
    return verb, "" if name in (".", "..") or "/" in name or "%" in name else name, selector


def selected_value(field_selector: str, field: str) -> str:
    """Return the value that a field selector requires of a field; "" if it requires none or is invalid."""
    try:
        return FieldSelector.parse(field_selector).required_value(field) or ""
    except BadRequest:
        return ""

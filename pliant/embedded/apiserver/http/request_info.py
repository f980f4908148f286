"""The API request behind an HTTP request: kind, namespace, name, subresource and query options."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pliant.embedded.apiserver.auth.users import ADMIN_USER, UserInfo
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.negotiation import accepted_format
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import ObjectKey, StoredObject
from pliant.errors import NotFound
from pliant.kube.transport.base import Request

TRUE_QUERY_VALUES = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_MAX_INT64_DIGITS = 19
_FALSE_VALUES = frozenset({"", "0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    kind: Kind
    namespace: str
    name: str
    subresource: str
    request: Request
    user: UserInfo
    proxied_path: tuple[str, ...] = ()
    """The path behind the subresource `proxy`."""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind.resource_key, self.namespace, self.name)

    def require_stored_object(self, reader: ObjectIndex | Transaction) -> StoredObject:
        """Return the stored object of the request; raise `NotFound` if it does not exist."""
        record = reader.get(self.key)
        if record is None:
            raise errors.not_found(self.kind, self.name)
        return record

    def query_text(self, option: str) -> str:
        """Return an option of the query, or "" when it is absent."""
        return self.request.query.get(option, "")

    def query_bool(self, option: str) -> bool:
        """Return a boolean option of the query, in any spelling that Go's ParseBool accepts."""
        text = self.query_text(option)
        if text in TRUE_QUERY_VALUES:
            return True
        if text in _FALSE_VALUES:
            return False
        raise errors.bad_request(f'{option}: strconv.ParseBool: parsing "{text}": invalid syntax')

    def query_int(self, option: str) -> int | None:
        """Return a non-negative integer option of the query, or None when it is absent."""
        text = self.query_text(option)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()):
            raise errors.bad_request(f'{option}: strconv.ParseUint: parsing "{text}": invalid syntax')
        if len(text) > _MAX_INT64_DIGITS or int(text) >= 2**63:
            raise errors.bad_request(f'{option}: strconv.ParseUint: parsing "{text}": value out of range')
        return int(text)

    @property
    def requested_version(self) -> int | None:
        """The resourceVersion in the query, None if it is absent."""
        text = self.query_text("resourceVersion")
        return errors.parse_version("resourceVersion", text) if text else None

    @property
    def is_dry_run(self) -> bool:
        dry_run = self.query_text("dryRun")
        if dry_run not in ("", "All"):
            raise errors.invalid_options(self.request.method, errors.unsupported_value("dryRun", [dry_run], ["All"]))
        return dry_run == "All"

    @property
    def response_kind(self) -> str:
        """The kind that the client asks for instead of the object, such as Table; "" for plain objects."""
        accepted = accepted_format(self.request.accept)
        return accepted.response_kind if accepted is not None else ""


def parse_request_path(registry: KindRegistry, request: Request, user: UserInfo = ADMIN_USER) -> RequestInfo:
    """Parse a path under /api or /apis; raise `NotFound` for other paths and unknown resources."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        raise errors.path_not_found(is_in_builtin_group=False)
    version, rest = (rest[0], rest[1:]) if rest else ("", [])
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and registry.find_resource(group, version, rest[2]) is not None:
        _, namespace, *rest = rest
    proxied_path = tuple(rest[3:]) if rest[2:3] == ["proxy"] else ()
    rest = rest[: len(rest) - len(proxied_path)]
    if not 1 <= len(rest) <= 3:
        raise _not_served_error(registry, group)
    plural, name, subresource = (*rest, "", "")[:3]
    kind = registry.find_resource(group, version, plural)
    if kind is None:
        raise _not_served_error(registry, group)
    is_write = request.method not in ("GET", "HEAD")
    if bool(namespace) != kind.namespaced and (namespace or name or (kind.is_custom and is_write)):
        raise _not_served_error(registry, group)
    if subresource and subresource not in kind.subresources:
        raise errors.not_found(kind, name) if kind.is_custom else errors.path_not_found()
    return RequestInfo(kind, namespace, name, subresource, request, user, proxied_path)


def _not_served_error(registry: KindRegistry, group: str) -> NotFound:
    return errors.path_not_found(is_in_builtin_group=registry.is_builtin_group(group))

"""Errors with the status codes, reasons and messages of kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, invalid_error
from pliant.embedded.schema.field_errors import duplicate_value as duplicate_value
from pliant.embedded.schema.field_errors import forbidden_field as forbidden_field
from pliant.embedded.schema.field_errors import invalid_field as invalid_field
from pliant.embedded.schema.field_errors import required_field as required_field
from pliant.embedded.schema.field_errors import unsupported_value as unsupported_value
from pliant.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound, ServerError

_MAX_VERSION_DIGITS = 40
_VERBS = {"GET": "List", "POST": "Create", "PUT": "Update", "PATCH": "Patch", "DELETE": "Delete"}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(404, "NotFound", f'{kind.qualified_name} "{name}" not found', details=_status_details(kind, name))


def namespace_not_found(name: str) -> NotFound:
    return NotFound(404, "NotFound", f'namespaces "{name}" not found', details={"name": name, "kind": "namespaces"})


class PageNotFound(NotFound):
    """404 in plain text, with which API servers answer about groups that are not built in."""


def path_not_found(*, is_in_builtin_group: bool = True) -> NotFound:
    if not is_in_builtin_group:
        return PageNotFound(404, "NotFound", "404 page not found")
    return NotFound(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str, *, is_terminating: bool = False, is_generated: bool = False) -> AlreadyExists:
    if is_generated:  # here, API servers name the resource as which the object is stored
        kind = replace(kind, group=kind.stored_group)
    message = f'{kind.qualified_name} "{name}" already exists'
    details: dict[str, Any] = _status_details(kind, name)
    if is_generated:
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
    if is_terminating:
        message = f"object is being deleted: {message}"
    return AlreadyExists(409, "AlreadyExists", message, details=details)


def precondition_failed(kind: Kind, name: str, detail: str) -> Conflict:
    """Return the Conflict of a deletion, in which API servers name the kind instead of the resource."""
    title = f"{kind.kind}.{kind.stored_group}" if kind.stored_group else kind.kind
    details = {"name": name, "kind": kind.kind, **({"group": kind.stored_group} if kind.stored_group else {})}
    message = f'Operation cannot be fulfilled on {title} "{name}": {detail}'
    return Conflict(409, "Conflict", message, details=details)


def conflict(kind: Kind, name: str, detail: str = "", subresource_suffix: str = "") -> Conflict:
    """Return a Conflict; without `detail`, it says that the object changed since the client read it."""
    detail = detail or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.qualified_name}{subresource_suffix} "{name}": {detail}'
    details = _status_details(kind, name)
    return Conflict(409, "Conflict", message, details={**details, "kind": details["kind"] + subresource_suffix})


def forbidden(kind: Kind, name: str, detail: str) -> Forbidden:
    message = f'{kind.qualified_name} "{name}" is forbidden: {detail}'
    return Forbidden(403, "Forbidden", message, details=_status_details(kind, name))


def invalid_object(kind: Kind, name: str, errors: Sequence[FieldError]) -> Invalid:
    return invalid_error(kind.kind, kind.stored_group, name, errors)


def invalid_options(method: str, *errors: FieldError) -> Invalid:
    """Return the error for invalid query options of a request with this HTTP method."""
    return invalid_error(f"{_VERBS[method]}Options", "meta.k8s.io", "", errors)


def invalid_patch(problem: str) -> Invalid:
    """Return the error for a patch whose result is not an object of the kind."""
    return invalid_error("", "", "", [invalid_field("patch", "", problem)])


def bad_request(message: str) -> BadRequest:
    return BadRequest(400, "BadRequest", message)


def unexpected_error(message: str) -> ServerError:
    """Return an error of a request for which API servers have no code of its own."""
    return ServerError(500, "", message)


def internal_error(problem: str) -> ServerError:
    message = f"Internal error occurred: {problem}"
    return ServerError(500, "InternalError", message, details={"causes": [{"message": problem}]})


def parse_version(field: str, text: str) -> int:
    """Parse a resourceVersion; raise the error of API servers for one that is not a number of 64 bits."""
    if not (text.isascii() and text.isdecimal()):
        problem = "invalid syntax"
    elif len(text) > _MAX_VERSION_DIGITS or int(text) >= 2**64:
        problem = "value out of range"
    else:
        return int(text)
    raise unexpected_error(f'{field}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}')


def require_type(obj: Mapping[str, Any], api_version: str, kind: str) -> None:
    """Raise `BadRequest` unless an object has the expected apiVersion and kind."""
    for field, title in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if obj.get(field) in (None, ""):
            raise bad_request(f"Object '{title}' is missing in '{msgspec.json.encode(obj).decode()}'")
    version, given = obj["apiVersion"], obj["kind"]
    if given != kind:
        raise bad_request(f'{given} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {kind}')
    if version != api_version:
        message = f"the API version in the data ({version}) does not match the expected API version ({api_version})"
        raise bad_request(message)


def unknown_fields_error(kind: Kind, fields: Sequence[str]) -> BadRequest:
    prefix = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{prefix}: strict decoding error: {unknown_fields_text(fields)}")


def unknown_fields_text(fields: Sequence[str]) -> str:
    return ", ".join(f'unknown field "{field}"' for field in fields)


def method_not_allowed(message: str = "the server does not allow this method on the requested resource") -> ApiError:
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", message + ", ".join(accepted))


def not_acceptable(served: Sequence[str]) -> ApiError:
    return ApiError(406, "NotAcceptable", "only the following media types are accepted: " + ", ".join(served))


def _status_details(kind: Kind, name: str) -> dict[str, str]:
    details = {"name": name, "kind": kind.plural}
    return {**details, "group": kind.group} if kind.group else details

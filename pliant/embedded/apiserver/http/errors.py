"""How the API server says no: each refusal in the words of the real one."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, invalid_error
from pliant.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound

_OPTIONS_KIND_BY_METHOD = {
    "GET": "ListOptions",
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


def not_found(kind: Kind, name: str) -> NotFound:
    """There is no such object."""
    return NotFound(404, "NotFound", f'{kind.qualified_name} "{name}" not found', details=_status_details(kind, name))


def path_not_found() -> NotFound:
    """Nothing is served there."""
    return NotFound(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    """The name is in use."""
    message = f'{kind.qualified_name} "{name}" already exists'
    return AlreadyExists(409, "AlreadyExists", message, details=_status_details(kind, name))


def conflict(kind: Kind, name: str, detail: str = "", subresource_suffix: str = "") -> Conflict:
    """The object, or a part of it, changed since the writer read it."""
    detail = detail or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.qualified_name}{subresource_suffix} "{name}": {detail}'
    about = _status_details(kind, name)
    return Conflict(409, "Conflict", message, details={**about, "kind": about["kind"] + subresource_suffix})


def forbidden(kind: Kind, name: str, detail: str) -> Forbidden:
    """The server will not do that to this object."""
    message = f'{kind.qualified_name} "{name}" is forbidden: {detail}'
    return Forbidden(403, "Forbidden", message, details=_status_details(kind, name))


def invalid_object(kind: Kind, name: str, problems: Sequence[FieldError]) -> Invalid:
    """The object breaks rules of its kind."""
    return invalid_error(kind.kind, kind.group, name, problems)


def invalid_options(method: str, *problems: FieldError) -> Invalid:
    """The options of a request break the rules."""
    return invalid_error(_OPTIONS_KIND_BY_METHOD[method], "meta.k8s.io", "", problems)


def bad_request(message: str) -> BadRequest:
    """The request cannot be understood."""
    return BadRequest(400, "BadRequest", message)


def unknown_fields_error(kind: Kind, fields: Sequence[str]) -> BadRequest:
    """Strict validation met fields nobody declared."""
    said = ", ".join(f'unknown field "{field}"' for field in fields)
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: strict decoding error: {said}")


def method_not_allowed() -> ApiError:
    """The resource exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(content_type: str, accepted: Sequence[str]) -> ApiError:
    """The body is written in a language the server does not read."""
    message = (
        f"the body of the request was in an unknown format ({content_type}) "
        f"- accepted media types include: {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def _status_details(kind: Kind, name: str) -> dict[str, str]:
    about = {"name": name, "kind": kind.plural}
    return {**about, "group": kind.group} if kind.group else about

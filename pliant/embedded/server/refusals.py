"""How the API server says no: each refusal in the words of the real one."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Problem, invalid
from pliant.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound

_OPTIONS = {
    "GET": "ListOptions",
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


def absent(kind: Kind, name: str) -> NotFound:
    """There is no such object."""
    return NotFound(404, "NotFound", f'{kind.qualified} "{name}" not found', details=_about(kind, name))


def no_such_path() -> NotFound:
    """Nothing is served there."""
    return NotFound(404, "NotFound", "the server could not find the requested resource")


def taken(kind: Kind, name: str) -> AlreadyExists:
    """The name is in use."""
    message = f'{kind.qualified} "{name}" already exists'
    return AlreadyExists(409, "AlreadyExists", message, details=_about(kind, name))


def outdated(kind: Kind, name: str, why: str = "", part: str = "") -> Conflict:
    """The object, or a part of it, changed since the writer read it."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.qualified}{part} "{name}": {why}'
    about = _about(kind, name)
    return Conflict(409, "Conflict", message, details={**about, "kind": about["kind"] + part})


def forbidden(kind: Kind, name: str, why: str) -> Forbidden:
    """The server will not do that to this object."""
    message = f'{kind.qualified} "{name}" is forbidden: {why}'
    return Forbidden(403, "Forbidden", message, details=_about(kind, name))


def unfit(kind: Kind, name: str, problems: Sequence[Problem]) -> Invalid:
    """The object breaks rules of its kind."""
    return invalid(kind.kind, kind.group, name, problems)


def unfit_options(method: str, *problems: Problem) -> Invalid:
    """The options of a request break the rules."""
    return invalid(_OPTIONS[method], "meta.k8s.io", "", problems)


def senseless(message: str) -> BadRequest:
    """The request cannot be understood."""
    return BadRequest(400, "BadRequest", message)


def unknown_fields(kind: Kind, fields: Sequence[str]) -> BadRequest:
    """Strict validation met fields nobody declared."""
    said = ", ".join(f'unknown field "{field}"' for field in fields)
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return senseless(f"{what}: strict decoding error: {said}")


def not_allowed() -> ApiError:
    """The resource exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media(content_type: str, accepted: Sequence[str]) -> ApiError:
    """The body is written in a language the server does not read."""
    message = (
        f"the body of the request was in an unknown format ({content_type}) "
        f"- accepted media types include: {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def _about(kind: Kind, name: str) -> dict[str, str]:
    about = {"name": name, "kind": kind.plural}
    return {**about, "group": kind.group} if kind.group else about

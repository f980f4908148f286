"""What a request is about: which kind, which object, which part of it, and how it wants the answer."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pliant.embedded.apiserver.http.errors import bad_request, invalid_options, path_not_found
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import ObjectKey
from pliant.kube.transport.base import Request

_TRUE_VALUES = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE_VALUES = frozenset({"", "0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """A request understood as far as its path goes."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    request: Request

    @property
    def key(self) -> ObjectKey:
        """The object it names."""
        return ObjectKey(self.kind.resource_key, self.namespace, self.name)

    def query_text(self, option: str) -> str:
        """An option of the query, empty when absent."""
        return self.request.query.get(option, "")

    def query_bool(self, option: str) -> bool:
        """A boolean option, written in any way Go would accept."""
        text = self.query_text(option)
        if text in _TRUE_VALUES:
            return True
        if text in _FALSE_VALUES:
            return False
        raise bad_request(f'{option}: strconv.ParseBool: parsing "{text}": invalid syntax')

    def query_int(self, option: str) -> int | None:
        """A whole number that is not negative, if given."""
        text = self.query_text(option)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()):
            raise bad_request(f'{option}: invalid value "{text}": must be a whole number')
        return int(text)

    @property
    def is_dry_run(self) -> bool:
        """Whether everything is to be done but kept."""
        wanted = self.query_text("dryRun")
        if wanted not in ("", "All"):
            problem = FieldError.of("dryRun", FieldErrorType.UNSUPPORTED, [wanted], 'supported values: "All"')
            raise invalid_options(self.request.method, problem)
        return wanted == "All"

    @property
    def response_format(self) -> str:
        """The `as=` the client prefers among those it accepts: Table, PartialObjectMetadata… or nothing."""
        return _preferred_format(self.request.accept)


def parse_request_path(catalog: KindRegistry, request: Request) -> RequestInfo:
    """Find what a path under /api or /apis names; raises `NotFound` for anything else."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if parts[0] == "api":
        group, version, rest = "", *_split_version(parts[1:])
    elif parts[0] == "apis" and len(parts) > 1:
        group, (version, rest) = parts[1], _split_version(parts[2:])
    else:
        raise path_not_found()
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and catalog.find(group, version, rest[2]) is not None:
        _, namespace, *rest = rest
    if not 1 <= len(rest) <= 3:
        raise path_not_found()
    plural, name, subresource = (*rest, "", "")[:3]
    kind = catalog.find(group, version, plural)
    if kind is None or (subresource and subresource not in kind.subresources):
        raise path_not_found()
    if bool(namespace) != kind.namespaced and (namespace or name):
        raise path_not_found()
    return RequestInfo(kind=kind, namespace=namespace, name=name, subresource=subresource, request=request)


def _split_version(parts: list[str]) -> tuple[str, list[str]]:
    return (parts[0], parts[1:]) if parts else ("", [])


def _preferred_format(accept: str) -> str:
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in ("application/json", "*/*", "application/*"):
            if not options.get("as"):
                return ""
            if options.get("v") == "v1":
                return options["as"]
    return ""

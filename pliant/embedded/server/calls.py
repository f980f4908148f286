"""What a request is about: which kind, which object, which part of it, and how it wants the answer."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.refusals import no_such_path, senseless, unfit_options
from pliant.embedded.storage.records import Key
from pliant.kube.transport import Request

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"", "0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request understood as far as its path goes."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    request: Request

    @property
    def key(self) -> Key:
        """The object it names."""
        return Key(self.kind.key, self.namespace, self.name)

    def text(self, option: str) -> str:
        """An option of the query, empty when absent."""
        return self.request.query.get(option, "")

    def flag(self, option: str) -> bool:
        """A boolean option, written in any way Go would accept."""
        text = self.text(option)
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise senseless(f'{option}: strconv.ParseBool: parsing "{text}": invalid syntax')

    def number(self, option: str) -> int | None:
        """A whole number that is not negative, if given."""
        text = self.text(option)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()):
            raise senseless(f'{option}: invalid value "{text}": must be a whole number')
        return int(text)

    @property
    def is_dry_run(self) -> bool:
        """Whether everything is to be done but kept."""
        wanted = self.text("dryRun")
        if wanted not in ("", "All"):
            problem = Problem.of("dryRun", Reason.UNSUPPORTED, [wanted], 'supported values: "All"')
            raise unfit_options(self.request.method, problem)
        return wanted == "All"

    @property
    def form(self) -> str:
        """The `as=` the client prefers among those it accepts: Table, PartialObjectMetadata… or nothing."""
        return _preferred_form(self.request.accept)


def read_path(catalog: Catalog, request: Request) -> Call:
    """Find what a path under /api or /apis names; raises `NotFound` for anything else."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    if parts[0] == "api":
        group, version, rest = "", *_first(parts[1:])
    elif parts[0] == "apis" and len(parts) > 1:
        group, (version, rest) = parts[1], _first(parts[2:])
    else:
        raise no_such_path()
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and catalog.find(group, version, rest[2]) is not None:
        _, namespace, *rest = rest
    if not 1 <= len(rest) <= 3:
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    kind = catalog.find(group, version, plural)
    if kind is None or (subresource and subresource not in kind.subresources):
        raise no_such_path()
    if bool(namespace) != kind.namespaced and (namespace or name):
        raise no_such_path()
    return Call(kind=kind, namespace=namespace, name=name, subresource=subresource, request=request)


def _first(parts: list[str]) -> tuple[str, list[str]]:
    return (parts[0], parts[1:]) if parts else ("", [])


def _preferred_form(accept: str) -> str:
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in ("application/json", "*/*", "application/*"):
            if not options.get("as"):
                return ""
            if options.get("v") == "v1":
                return options["as"]
    return ""

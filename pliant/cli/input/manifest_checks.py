"""Finds what a cluster would refuse, before one is started: kinds, fields, values, and what cannot run here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pliant.cli.input.field_paths import replicas_path, suspend_path
from pliant.cli.input.local_cluster_options import is_dns_label
from pliant.cli.input.manifests import Manifest, check_commands, check_kinds
from pliant.cli.input.problems import InputProblem, InvalidInput, input_error
from pliant.errors import ApiError, InvalidSpec
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.plugins.registry import registered_kinds

if TYPE_CHECKING:
    from pliant.embedded.registry.kind_registry import KindRegistry
    from pliant.frontends.frontend import Frontend, PlanFrontend
    from pliant.model.job import Job


EPOCH_TIMESTAMP = "1970-01-01T00:00:00Z"


def frontend_of(manifest: Manifest) -> Frontend | None:
    """The front end that reads this object, if it is a training job."""
    group, _, version = manifest.api_version.partition("/")
    frontend = registered_kinds().get((group, manifest.kind))
    return frontend if frontend and version in _kind_versions(frontend) else None


def plan_kind_of(manifest: Manifest) -> PlanFrontend | None:
    """The kind of plan that this object is, if it is one."""
    asked = (manifest.api_version, manifest.kind)
    plans = (frontend.plan_frontend for frontend in registered_kinds().values())
    return next((kind for kind in plans if kind and asked == (f"{kind.group}/{kind.version}", kind.kind)), None)


def _kind_versions(frontend: Frontend) -> Iterator[str]:
    """Every version that its kind is written in, the one that is stored first."""
    yield frontend.version
    yield from (each["name"] for each in frontend.crd()["spec"]["versions"])


def check_runnable(manifests: list[Manifest], catalog: KindRegistry, namespace: str) -> None:
    """Raise `InvalidInput` with everything that is wrong with the files; return if they can be run."""
    served = {(kind.api_version, kind.kind) for kind in catalog.kinds()}
    problems = check_kinds(manifests, served)
    for manifest in manifests:
        kind = catalog.find_kind(manifest.api_version, manifest.kind)
        if kind is not None and kind.schema is not None:
            problems += _schema_problems(manifest, kind.schema)
        problems += _namespace_problems(manifest)
    running = [one for one in manifests if one.kind == "Pod" or frontend_of(one)]
    problems += _missing_command_problems(running, namespace) + check_references(running, manifests)
    # A field that was misspelt is not missing as well.
    meant = {(problem.object_title, problem.intended_field) for problem in problems if problem.intended_field}
    problems = [problem for problem in problems if (problem.object_title, problem.field) not in meant]
    problems = problems or [found for one in manifests for found in _job_problems(one, namespace)]
    problems = problems or [found for one in manifests for found in _inactive_job_problems(one, namespace)]
    if problems:
        raise InvalidInput(problems)
    if not any(frontend_of(manifest) for manifest in manifests):
        known = ", ".join(sorted({frontend.kind for frontend in registered_kinds().values()}))
        fix = f"add a job ({known}), or use `pliant up` and `kubectl apply` for other things"
        raise input_error("nothing to run: the files hold no training job", fix=fix)


def check_jobs(manifests: list[Manifest], catalog: KindRegistry, namespace: str) -> None:
    """Raise `InvalidInput` with what any cluster would have against the jobs and plans among these objects."""
    problems = []
    for manifest in (one for one in manifests if frontend_of(one) or plan_kind_of(one)):
        kind = catalog.find_kind(manifest.api_version, manifest.kind)
        found = _schema_problems(manifest, kind.schema) if kind is not None and kind.schema is not None else []
        meant = {problem.intended_field for problem in found}
        problems += [problem for problem in found if problem.field not in meant] or _job_problems(manifest, namespace)
    if problems:
        raise InvalidInput(problems)


def _schema_problems(manifest: Manifest, schema: Any) -> list[InputProblem]:
    """What the schema of its kind has against an object, in the order of its fields."""
    from pliant.embedded.schema import deep_copy

    obj = deep_copy(manifest.raw)
    problems = [unknown_field_problem(manifest, field, schema.openapi) for field in schema.prune(obj)]
    schema.default(obj)
    return problems + [_value_problem(manifest, found.field, found.message) for found in schema.validate(obj)]


def _namespace_problems(manifest: Manifest) -> list[InputProblem]:
    """What is wrong with the namespace that an object names."""
    metadata = manifest.raw.get("metadata")
    name = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name or is_dns_label(name):
        return []
    allowed = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    fix = f"did you mean `{allowed}`?" if is_dns_label(allowed) else "use a-z, 0-9 and -"
    return [manifest.field_problem(f"`{name}` cannot name a namespace", "metadata.namespace", fix)]


def _job_problems(manifest: Manifest, namespace: str) -> list[InputProblem]:
    """What the operator would have against a job or a plan that fits its schema."""
    if (plans := plan_kind_of(manifest)) is not None:
        field, _, problem = plans.parse(manifest.raw).parse_error.partition(": ")
        return [_spec_problem(manifest, field, problem)] if problem else []
    try:
        job = _parse_as_new_job(manifest, namespace)
    except InvalidSpec as problem:
        return [_spec_problem(manifest, problem.field, problem.problem)]
    spec = manifest.raw.get("spec")
    if job is not None and not any(group.size for group in job.groups):
        where = ".".join(replicas_path(manifest.raw, job.groups[0].name)) if isinstance(spec, Mapping) else "spec"
        return [manifest.field_problem("the job has no members, so it would never end", where, "write 1 or more")]
    return []


def _spec_problem(manifest: Manifest, field: str, problem: str) -> InputProblem:
    word = field.rpartition(".")[2]
    about = f"`{word}` " if problem.startswith(("is ", "must ", "needs ")) else ""
    return manifest.field_problem(f"{about}{problem}", field)


def _parse_as_new_job(manifest: Manifest, namespace: str) -> Job | None:
    """The job that an object would be; None if it is none. Raises InvalidSpec."""
    frontend = frontend_of(manifest)
    if frontend is None:
        return None
    born = {"uid": "unborn", "creationTimestamp": EPOCH_TIMESTAMP, "namespace": namespace}
    return frontend.parse({**manifest.raw, "metadata": {**born, **manifest.raw["metadata"]}})


def _missing_command_problems(manifests: list[Manifest], namespace: str) -> list[InputProblem]:
    """Containers without a program to start, less those whose kind has one for them."""
    return [
        problem
        for manifest in manifests
        for problem in check_commands([manifest])
        if not problem.field.lower().endswith(_supplied_command_paths(manifest, namespace))
    ]


def _supplied_command_paths(manifest: Manifest, namespace: str) -> tuple[str, ...]:
    """The ends of paths of commands that the job has, whoever wrote them."""
    try:
        job = _parse_as_new_job(manifest, namespace)
    except InvalidSpec:
        return ()
    return tuple(
        f".{group.name}.template.spec.containers[{index}].command".lower()
        for group in (job.groups if job else ())
        for index, container in enumerate((group.template.get("spec") or {}).get("containers") or ())
        if isinstance(container, Mapping) and (container.get("command") or group.is_master)
    )


def _inactive_job_problems(manifest: Manifest, namespace: str) -> list[InputProblem]:
    """Wishes because of which nobody here would ever work on a job."""
    job, frontend = _parse_as_new_job(manifest, namespace), frontend_of(manifest)
    if job is None or frontend is None:
        return []
    if job.is_suspended:
        where = ".".join(suspend_path(frontend))
        fix = f"take it away, or run with --set {where}=false; `pliant up` keeps jobs that rest"
        return [manifest.field_problem("the job is suspended, so it would never end", where, fix)]
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        where = f"{frontend.run_policy_path}.managedBy"
        what = f"the job is left to {job.managed_by}, which does not run here, so it would never end"
        return [manifest.field_problem(what, where, "take it away")]
    return []


def to_invalid_input(manifest: Manifest, error: ApiError, openapi: Mapping[str, Any]) -> InvalidInput:
    """What the server had against an object, told field by field where it says so."""
    causes = error.details.get("causes") or ()
    problems = [
        unknown_field_problem(manifest, field, openapi) for field in re.findall(r'unknown field "([^"]+)"', str(error))
    ]
    problems += [_value_problem(manifest, cause.get("field", ""), cause.get("message", "")) for cause in causes]
    return InvalidInput(problems or [manifest.field_problem(str(error), "")])


def unknown_field_problem(manifest: Manifest, field: str, openapi: Mapping[str, Any]) -> InputProblem:
    """A field that nobody declared, and the one that was probably meant."""
    parent, _, word = field.rpartition(".")
    known = sorted(declared_fields(openapi, parent))
    close = get_close_matches(word, known, n=1)
    by_case = [name for name in known if name.lower() == word.lower()]
    fix = f"known here: {', '.join(known)}" if 0 < len(known) <= 12 else "take it away, or check its indentation"
    found = manifest.field_problem(f"unknown field `{word}`", field, fix)
    if not (by_case or close):
        return found
    right = (by_case or close)[0]
    return replace(found, fix=f"did you mean `{right}`?", intended_field=f"{parent}.{right}".lstrip("."))


def declared_fields(openapi: Mapping[str, Any], path: str) -> Iterable[str]:
    """The fields that a schema declares below a path."""
    node: Any = openapi
    for step in re.findall(r"[^.\[\]]+", path):
        properties = node.get("properties", {})
        node = properties.get(step) or node.get("additionalProperties") or node.get("items")
        if not isinstance(node, Mapping):
            return ()
        if step.isdigit() and "items" in node:
            node = node["items"]
    return tuple(node.get("properties", ()))


def _value_problem(manifest: Manifest, field: str, message: str) -> InputProblem:
    word = field.rpartition(".")[2]
    if message.startswith("Required value"):
        return manifest.field_problem(f"`{word}` is missing", field, f"add `{word}:`")
    said = re.sub(r" \(e\.g\. .*regex used for validation.*\)$", "", message.replace(f"{field} in body ", ""))
    if kind := re.search(r'must be of type (\w+): "(\w+)"$', said):
        said = f"`{word}` must be of type {kind[1]}, this is of type {kind[2]}"
        return manifest.field_problem(said, field, _TYPE_FIXES.get((kind[1], kind[2]), ""))
    said = re.sub(r"^(?:Invalid|Unsupported) value: (.*?): ", r"\1 is not allowed: ", said)
    said = said.replace('supported values: "", ', "supported values: ")  # who means nothing writes nothing
    return manifest.field_problem(said, field, _suggest_value(message))


_TYPE_FIXES = {
    ("string", "integer"): "put it in quotes",
    ("string", "number"): "put it in quotes",
    ("string", "boolean"): "put it in quotes",
    ("integer", "string"): "write a whole number, without quotes",
    ("array", "string"): "write a list: [one, two]",
    ("array", "object"): "write a list: start each item with `-`",
    ("object", "array"): "write fields, without `-`",
}
"""What to do about a value of another type than wanted."""


def _suggest_value(message: str) -> str:
    """The allowed value that comes closest to the one written, where that can be said."""
    if "RFC 1123" in message and (name := re.search(r'Invalid value: "([^"]*)"', message)):
        allowed = re.sub(r"[^a-z0-9.-]+", "-", name[1].lower()).strip("-.")
        return f"did you mean `{allowed}`?" if allowed and allowed != name[1] else ""
    if "supported values: " not in message:
        return ""
    written, allowed = message.split("supported values: ")
    words = re.findall(r'"([^"]*)"', allowed)
    close = get_close_matches("".join(re.findall(r'"([^"]*)"', written)[:1]), words, n=1, cutoff=0.4)
    return f"did you mean `{close[0]}`?" if close else ""


OBJECT_REFERENCE_FIELDS = {
    "configMap": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
}
"""Fields of a pod that name an object: its kind, and the field below that holds the name."""
BUILTIN_OBJECTS = frozenset({("ConfigMap", "kube-root-ca.crt")})


def check_references(workloads: Iterable[Manifest], manifests: Iterable[Manifest]) -> list[InputProblem]:
    """What the pods of these objects need and no manifest brings."""
    held = {(one.kind, one.name) for one in manifests} | BUILTIN_OBJECTS
    return [
        _missing_object_problem(manifest, path, kind, name, [known for one, known in held if one == kind])
        for manifest in workloads
        for path, kind, name in _find_references(manifest.raw.get("spec"), "spec")
        if (kind, name) not in held
    ]


def _missing_object_problem(
    manifest: Manifest, path: str, kind: str, name: str, existing_names: list[str]
) -> InputProblem:
    close = get_close_matches(name, existing_names, n=1)
    fix = f"did you mean `{close[0]}`?" if close else f"add a {kind} of that name to the files"
    return manifest.field_problem(f"no {kind} `{name}` is in the files", path, fix)


def _find_references(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Every object named below: the path to its name, its kind and its name."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_references(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        yield from _find_references(item, f"{path}.{key}")
        if key in OBJECT_REFERENCE_FIELDS and isinstance(item, dict) and not item.get("optional"):
            kind, field = OBJECT_REFERENCE_FIELDS[key]
            field = field if field in item else "name"
            if isinstance(item.get(field), str):
                yield f"{path}.{key}.{field}", kind, item[field]

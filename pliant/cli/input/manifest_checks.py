"""Finds what a cluster would reject, before it is started: kinds, fields, values, and jobs that cannot run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pliant.cli.input.api_errors import unknown_field_problem, value_problem
from pliant.cli.input.field_paths import group_replicas_path, suspend_path
from pliant.cli.input.local_cluster_options import is_dns_label
from pliant.cli.input.manifests import Manifest, no_command_problems, unserved_kind_problems
from pliant.cli.input.mistaken_inputs import suggest_for_workload
from pliant.cli.input.problems import InputProblem, InvalidInput, input_error
from pliant.errors import InvalidSpec
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.plugins.registry import registered_kinds

if TYPE_CHECKING:
    from pliant.embedded.registry.kind_registry import KindRegistry
    from pliant.frontends.frontend import Frontend, PlanFrontend
    from pliant.model.job import Job


PLACEHOLDER_CREATION_TIMESTAMP = "1970-01-01T00:00:00Z"


def frontend_of(manifest: Manifest) -> Frontend | None:
    """Return the front end of a manifest; None if it is not a job."""
    group, _, version = manifest.api_version.partition("/")
    frontend = registered_kinds().get((group, manifest.kind))
    if frontend is None or version == frontend.version:
        return frontend
    # Building the CRD takes time, so the stored version is checked first.
    return frontend if version in (each["name"] for each in frontend.crd()["spec"]["versions"]) else None


def plan_frontend_of(manifest: Manifest) -> PlanFrontend | None:
    """Return the plan kind of a manifest; None if it is not a scale plan."""
    wanted = (manifest.api_version, manifest.kind)
    plans = (frontend.plan_frontend for frontend in registered_kinds().values())
    return next((kind for kind in plans if kind and wanted == (f"{kind.group}/{kind.version}", kind.kind)), None)


def check_runnable_locally(manifests: list[Manifest], kind_registry: KindRegistry, namespace: str) -> None:
    """Raise InvalidInput with all problems of the manifests for `pliant run`."""
    served = {(kind.api_version, kind.kind) for kind in kind_registry.kinds() if "create" in kind.verbs}
    problems = unserved_kind_problems(manifests, served)
    for manifest in manifests:
        kind = kind_registry.find_kind(manifest.api_version, manifest.kind)
        if kind is not None and kind.schema is not None:
            problems += _schema_problems(manifest, kind.schema)
        problems += _namespace_problems(manifest)
    workloads = [manifest for manifest in manifests if manifest.kind == "Pod" or frontend_of(manifest)]
    problems += _missing_command_problems(workloads, namespace) + undefined_reference_problems(workloads, manifests)
    # A misspelt field is not also reported as missing.
    intended = {(problem.object_title, problem.intended_field) for problem in problems if problem.intended_field}
    problems = [problem for problem in problems if (problem.object_title, problem.field) not in intended]
    for check in (_job_problems, _inactive_job_problems):
        problems = problems or [problem for manifest in manifests for problem in check(manifest, namespace)]
    if problems:
        raise InvalidInput(problems)
    if not any(frontend_of(manifest) for manifest in manifests):
        suggestion = next(filter(None, (suggest_for_workload(manifest.raw) for manifest in manifests)), "")
        known = ", ".join(sorted({frontend.kind for frontend in registered_kinds().values()}))
        fix = f"{suggestion or f'add a job ({known})'}, or use `pliant up` and `kubectl apply` for other objects"
        raise input_error("nothing to run: the files contain no job", fix=fix)


def check_jobs_and_plans(manifests: list[Manifest], kind_registry: KindRegistry, namespace: str) -> None:
    """Raise InvalidInput with what any cluster would reject in the jobs and plans."""
    problems = []
    for manifest in (m for m in manifests if frontend_of(m) or plan_frontend_of(m)):
        kind = kind_registry.find_kind(manifest.api_version, manifest.kind)
        found = _schema_problems(manifest, kind.schema) if kind is not None and kind.schema is not None else []
        intended = {problem.intended_field for problem in found}
        found = [problem for problem in found if problem.field not in intended]
        problems += found or _job_problems(manifest, namespace)
    if problems:
        raise InvalidInput(problems)


def _schema_problems(manifest: Manifest, schema: Any) -> list[InputProblem]:
    from pliant.embedded.schema import deep_copy

    obj = deep_copy(manifest.raw)
    problems = [unknown_field_problem(manifest, field, schema.openapi) for field in schema.prune(obj)]
    schema.default(obj)
    return problems + [value_problem(manifest, error.field, error.message) for error in schema.validate(obj)]


def _namespace_problems(manifest: Manifest) -> list[InputProblem]:
    metadata = manifest.raw.get("metadata")
    name = metadata.get("namespace") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name or is_dns_label(name):
        return []
    allowed = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    fix = f"did you mean `{allowed}`?" if is_dns_label(allowed) else "use a-z, 0-9 and `-`"
    return [manifest.field_problem(f"`{name}` is not a valid namespace", "metadata.namespace", fix)]


def _job_problems(manifest: Manifest, namespace: str) -> list[InputProblem]:
    """Return what the operator would reject in a job or plan that matches its schema."""
    if (plans := plan_frontend_of(manifest)) is not None:
        field, _, problem = plans.parse(manifest.raw).parse_error.partition(": ")
        return [_spec_problem(manifest, field, problem)] if problem else []
    try:
        job = _parse_as_new_job(manifest, namespace)
    except InvalidSpec as error:
        return [_spec_problem(manifest, error.field, error.problem)]
    spec = manifest.raw.get("spec")
    if job is not None and not any(group.size for group in job.groups):
        path = ".".join(group_replicas_path(manifest.raw, job.groups[0].name)) if isinstance(spec, Mapping) else "spec"
        return [manifest.field_problem("the job has no replicas, so it would never end", path, "write 1 or more")]
    return _missing_image_problems(manifest, job) if job is not None else []


def _missing_image_problems(manifest: Manifest, job: Job) -> list[InputProblem]:
    """Return the containers without an image, in groups whose pods are not completed by the operator.

    The schemas of pod templates do not require it, but every API server refuses such a pod.
    """
    fix = "add one, for example `image: python:3.12-slim`; local pods do not run it, but a cluster does"
    return [
        manifest.field_problem(
            "no image: the API server rejects the pod", f"{group.path}.template.spec.{field}[{index}].image", fix
        )
        for group in job.groups
        if not group.is_master
        for field in ("initContainers", "containers")
        for index, container in enumerate((group.template.get("spec") or {}).get(field) or ())
        if not container.get("image")
    ]


def _spec_problem(manifest: Manifest, field: str, problem: str) -> InputProblem:
    word = field.rpartition(".")[2]
    subject = f"`{word}` " if problem.startswith(("is ", "must ", "needs ")) else ""
    return manifest.field_problem(f"{subject}{problem}", field)


def _parse_as_new_job(manifest: Manifest, namespace: str) -> Job | None:
    """Parse a manifest as a job; None if it is not one. Raise InvalidSpec."""
    frontend = frontend_of(manifest)
    if frontend is None:
        return None
    defaults = {"uid": "not-created", "creationTimestamp": PLACEHOLDER_CREATION_TIMESTAMP, "namespace": namespace}
    return frontend.parse({**manifest.raw, "metadata": {**defaults, **manifest.raw["metadata"]}})


def _missing_command_problems(manifests: list[Manifest], namespace: str) -> list[InputProblem]:
    """Return the containers without a command, except those that get one from their kind."""
    return [
        problem
        for manifest in manifests
        for problem in no_command_problems([manifest])
        if not problem.field.lower().endswith(_supplied_command_paths(manifest, namespace))
    ]


def _supplied_command_paths(manifest: Manifest, namespace: str) -> tuple[str, ...]:
    """Return the path suffixes of commands that the parsed job has."""
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
    """Return the fields because of which no local operator would run the job."""
    job, frontend = _parse_as_new_job(manifest, namespace), frontend_of(manifest)
    if job is None or frontend is None:
        return []
    if job.is_suspended:
        path = ".".join(suspend_path(frontend))
        fix = f"remove it, or use --set {path}=false; `pliant up` can run suspended jobs"
        return [manifest.field_problem("the job is suspended, so it would never end", path, fix)]
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        message = f"the job is managed by {job.managed_by}, which does not run here, so it would never end"
        return [manifest.field_problem(message, f"{frontend.run_policy_path}.managedBy", "remove it")]
    return []


# kind of the referenced object, and the field with its name
OBJECT_REFERENCE_FIELDS = {
    "configMap": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
}
OBJECTS_IN_EVERY_NAMESPACE = frozenset({("ConfigMap", "kube-root-ca.crt")})


def undefined_reference_problems(workloads: Iterable[Manifest], manifests: Iterable[Manifest]) -> list[InputProblem]:
    """Return the objects that pods reference and no manifest defines."""
    defined = {(manifest.kind, manifest.name) for manifest in manifests} | OBJECTS_IN_EVERY_NAMESPACE
    return [
        _missing_object_problem(manifest, path, kind, name, [known for of_kind, known in defined if of_kind == kind])
        for manifest in workloads
        for path, kind, name in _find_references(manifest.raw.get("spec"), "spec")
        if (kind, name) not in defined
    ]


def _missing_object_problem(
    manifest: Manifest, path: str, kind: str, name: str, existing_names: list[str]
) -> InputProblem:
    close = get_close_matches(name, existing_names, n=1)
    fix = f"did you mean `{close[0]}`?" if close else f"add a {kind} of that name to the files"
    return manifest.field_problem(f"{kind} `{name}` is not in the files", path, fix)


def _find_references(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path, kind and name of every referenced object."""
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

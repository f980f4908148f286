"""The master of an ElasticJob: ours where nobody names another, and what its template leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.pod_templates import (
    GANG_KEY_PREFIXES,
    POD_IP_VARIABLE,
    POD_NAME_VARIABLE,
    check_pod_template,
    put_main_container_first,
    with_annotations,
    with_main_container,
)
from pliant.frontends.elasticjob.types import MASTER, ElasticJobSpec, ElasticReplicaSpec
from pliant.frontends.spec.decoding import quote_json
from pliant.frontends.spec.metadata import JobMetadata
from pliant.frontends.spec.pod_templates import hash_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup, RestartPolicy, RestartRule, RestartScope

MASTER_PORT = 50001
DEFAULT_MASTER_RESTARTS = 3
"""How often a master is replaced that failed, where nobody says; one that was taken away does not count."""
DLROVER_MASTER_COMMAND = ("python", "-m", "dlrover.python.master.main", "--platform", "pyk8s")
"""What starts a master of DLRover in its own image."""
MASTER_ARGUMENT_ANNOTATIONS = (
    "pending_timeout",
    "pending_fail_strategy",
    "service_type",
    "pre_check_ops",
    "pre_check_bypass",
    "training_elastic_mode",
    "enable_dashboard",
    "dashboard_port",
)
"""Annotations of a job that become arguments of its master."""
MASTER_ARGUMENT_PREFIX = "pliant.master/"
"""How annotations begin whose names may be any argument."""
RESERVED_ARGUMENTS = ("namespace", "job_name", "port", "help")
"""Arguments but these."""
_NEGATIVE_NUMBER_PATTERN = re.compile(r"-[0-9.]+")
_KUBECTL_ANNOTATION_PREFIX = "kubectl.kubernetes.io/"
_BUILTIN_MASTER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}}
_DLROVER_MASTER_AMOUNTS = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}
_DLROVER_MASTER_RESOURCES = {"requests": _DLROVER_MASTER_AMOUNTS, "limits": _DLROVER_MASTER_AMOUNTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobMaster:
    """The group of one that runs the job, and whether it is our program."""

    group: ReplicaGroup
    is_builtin: bool


def build_master(metadata: JobMetadata, spec: ElasticJobSpec) -> ElasticJobMaster:
    """The master of a job; raises InvalidSpec for a template that is none."""
    replica = spec.replica_specs.get(MASTER, ElasticReplicaSpec())
    path = f"spec.replicaSpecs.{MASTER}.template"
    template = replica.template or {"spec": {"containers": [{"name": "main"}]}}
    check_pod_template(template, path)
    first, *others = put_main_container_first(template["spec"]["containers"])
    is_ours = _is_builtin_master(first)
    pod = {**template["spec"], "containers": [_with_start_command(first, metadata), *others]}
    variables = [POD_IP_VARIABLE, *([POD_NAME_VARIABLE] if is_ours else []), *_brain_variables(spec)]
    template = with_main_container({**template, "spec": pod}, variables)
    template = _with_job_annotations(template, metadata)
    return ElasticJobMaster(
        is_builtin=is_ours,
        group=ReplicaGroup(
            name=MASTER,
            size=1,
            is_master=True,
            template=template,
            template_hash=hash_template(template),
            ports=(Port("master", MASTER_PORT, first.get("name", "")),),
            main_containers=frozenset({first.get("name", "")}),
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            restart_rule=_restart_rule(replica),
            labels={"app.kubernetes.io/name": "elasticjob"},
        ),
    )


def master_arguments(metadata: JobMetadata) -> list[str]:
    """What every master is told, and what annotations add; each value is a word of its own."""
    told = ["--namespace", metadata.namespace, "--job_name", metadata.name, "--port", str(MASTER_PORT)]
    return [*told, *(word for name, value in _annotation_arguments(metadata) for word in (f"--{name}", value))]


def _annotation_arguments(metadata: JobMetadata) -> Iterator[tuple[str, str]]:
    for name in MASTER_ARGUMENT_ANNOTATIONS:
        if name in metadata.annotations:
            yield name, _argument_value(name, metadata)
    for key in sorted(metadata.annotations):
        name = key.removeprefix(MASTER_ARGUMENT_PREFIX)
        if name in RESERVED_ARGUMENTS and name != key:
            problem = "must be left out: which job a master has, and where it listens, is not a job's to say"
            raise InvalidSpec(f"metadata.annotations.{key}", problem)
        if name not in (key, "") and name not in MASTER_ARGUMENT_ANNOTATIONS:
            yield name, _argument_value(key, metadata)


def _argument_value(key: str, metadata: JobMetadata) -> str:
    """The value of an annotation; raises InvalidSpec for one that a master would take for another argument."""
    value = metadata.annotations[key]
    if value.startswith("-") and not _NEGATIVE_NUMBER_PATTERN.fullmatch(value):
        problem = f"must not begin with a dash: a master would take {quote_json(value)} for an argument"
        raise InvalidSpec(f"metadata.annotations.{key}", problem)
    return value


def _is_builtin_master(container: Mapping[str, Any]) -> bool:
    words = [*_string_items(container.get("command")), *_string_items(container.get("args"))]
    if any("pliant.master" in word for word in words):
        return True
    return not container.get("image") and not container.get("command")


def _with_start_command(container: Mapping[str, Any], metadata: JobMetadata) -> dict[str, Any]:
    """A container with what starts its program: where there is an image, its own entry point or DLRover's."""
    if container.get("command"):
        return dict(container)
    if not container.get("image"):
        # The engine knows where our own program is, and by which command it starts.
        args = [*master_arguments(metadata), *_string_items(container.get("args"))]
        return {"resources": _BUILTIN_MASTER_RESOURCES, **container, "args": args}
    if container.get("args"):
        return dict(container)
    return {
        "resources": _DLROVER_MASTER_RESOURCES,
        **container,
        "command": [*DLROVER_MASTER_COMMAND, *master_arguments(metadata)],
    }


def _brain_variables(spec: ElasticJobSpec) -> Iterator[dict[str, Any]]:
    if spec.optimize_mode == "cluster" and spec.brain_service:
        yield {"name": "DLROVER_BRAIN_SERVICE_ADDR", "value": spec.brain_service}


def _with_job_annotations(template: dict[str, Any], metadata: JobMetadata) -> dict[str, Any]:
    """With the annotations of the job, which win over the template's own; its labels go to all pods anyway."""
    own = (template.get("metadata") or {}).get("annotations") or {}
    from_job = {
        key: each
        for key, each in metadata.annotations.items()
        if not key.startswith((_KUBECTL_ANNOTATION_PREFIX, *GANG_KEY_PREFIXES))
    }
    return with_annotations(template, {**own, **from_job}) if from_job else template


def _restart_rule(replica: ElasticReplicaSpec) -> RestartRule:
    """Where its author says how often it may be replaced, every loss counts; 1 is its word for a failed job."""
    is_said = replica.restart_count is not None
    return RestartRule(
        policy=RestartPolicy.ON_FAILURE,
        scope=RestartScope.POD,
        limit=replica.restart_count if is_said else DEFAULT_MASTER_RESTARTS,
        counts_disruptions=is_said,
        permanent_exit_codes=frozenset({1}),
    )


def _string_items(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

"""Build the master of an ElasticJob: the built-in master unless the template sets an image or a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob import pod_templates
from pliant.frontends.elasticjob.types import MASTER_REPLICA_TYPE, ElasticJobSpec, ElasticReplicaSpec
from pliant.frontends.spec.decoding import abbreviate_json
from pliant.frontends.spec.metadata import JobMetadata
from pliant.frontends.spec.pod_templates import hash_template, inspect_pod_template
from pliant.model.job import EndPolicy, Master, Port, ReplicaGroup, RestartPolicy, RestartRule, RestartScope

MASTER_PORT = 50001
DEFAULT_MASTER_RESTARTS = 3
DLROVER_MASTER_COMMAND = ("python", "-m", "dlrover.python.master.main", "--platform", "pyk8s")
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
"""Annotations of a job that the operator passes to its master as arguments."""
MASTER_ARGUMENT_ANNOTATION_PREFIX = "pliant.master/"
"""The prefix of annotations that set any other argument."""
RESERVED_ARGUMENTS = ("namespace", "job_name", "port", "help")
"""Arguments that only the operator sets."""
_NEGATIVE_NUMBER_PATTERN = re.compile(r"-[0-9.]+")
_KUBECTL_ANNOTATION_PREFIX = "kubectl.kubernetes.io/"
_BUILTIN_MASTER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}}
_DLROVER_MASTER_AMOUNTS = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}
_DLROVER_MASTER_RESOURCES = {"requests": _DLROVER_MASTER_AMOUNTS, "limits": _DLROVER_MASTER_AMOUNTS}


PLIANT_MASTER = Master(group=MASTER_REPLICA_TYPE, checks_keys=True)
"""The built-in master follows every change of the membership."""
DLROVER_MASTER = Master(
    group=MASTER_REPLICA_TYPE,
    claims_manual_plans=True,
    relaunches_deleted_pods=True,
    assigns_member_ids=True,
    # It creates its first plan within seconds, and gives up after 15 seconds if the API server is unavailable.
    idle_timeout=timedelta(minutes=3),
    # It checks every 30 seconds whether its job has completed.
    completion_timeout=timedelta(minutes=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobMaster:
    """The replica group of the master, and whether it runs the built-in master."""

    group: ReplicaGroup
    is_builtin: bool
    definition: Master


def build_master(metadata: JobMetadata, spec: ElasticJobSpec) -> ElasticJobMaster:
    """Return the master of a job; raise InvalidSpec for an invalid template."""
    replica = spec.replica_specs.get(MASTER_REPLICA_TYPE, ElasticReplicaSpec())
    path = f"spec.replicaSpecs.{MASTER_REPLICA_TYPE}.template"
    template = replica.template or {"spec": {"containers": [{"name": "main"}]}}
    inspect_pod_template(template, path, "")
    first, *others = pod_templates.put_main_container_first(template["spec"]["containers"])
    is_builtin = _is_builtin_master(first)
    pod = {**template["spec"], "containers": [_with_start_command(first, metadata), *others]}
    brain = spec.brain_service if spec.optimize_mode == "cluster" else ""
    brain_variables: list[dict[str, Any]] = [{"name": "DLROVER_BRAIN_SERVICE_ADDR", "value": brain}] if brain else []
    name_variables = [pod_templates.POD_NAME_ENV_ENTRY] if is_builtin else []
    variables = [pod_templates.POD_IP_ENV_ENTRY, *name_variables, *brain_variables]
    template = _with_job_annotations(
        pod_templates.prepare_main_container({**template, "spec": pod}, variables), metadata
    )
    return ElasticJobMaster(
        is_builtin=is_builtin,
        definition=PLIANT_MASTER if is_builtin else DLROVER_MASTER,
        group=ReplicaGroup(
            name=MASTER_REPLICA_TYPE,
            size=1,
            path=f"spec.replicaSpecs.{MASTER_REPLICA_TYPE}",
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
    """Return the arguments of a master: the job, the port, and those that annotations of the job set."""
    arguments = ["--namespace", metadata.namespace, "--job_name", metadata.name, "--port", str(MASTER_PORT)]
    for name, value in _annotation_arguments(metadata):
        arguments += [f"--{name}", value]
    return arguments


def _annotation_arguments(metadata: JobMetadata) -> Iterator[tuple[str, str]]:
    for name in MASTER_ARGUMENT_ANNOTATIONS:
        if name in metadata.annotations:
            yield name, _argument_value(name, metadata)
    for key in sorted(metadata.annotations):
        name = key.removeprefix(MASTER_ARGUMENT_ANNOTATION_PREFIX)
        if name in RESERVED_ARGUMENTS and name != key:
            raise InvalidSpec(f"metadata.annotations.{key}", "must be removed: the operator sets this argument")
        if name not in (key, "") and name not in MASTER_ARGUMENT_ANNOTATIONS:
            yield name, _argument_value(key, metadata)


def _argument_value(key: str, metadata: JobMetadata) -> str:
    """Return the value of an annotation; raise InvalidSpec if the master would parse it as an option."""
    value = metadata.annotations[key]
    if value.startswith("-") and not _NEGATIVE_NUMBER_PATTERN.fullmatch(value):
        problem = f"must not begin with a dash: the master would parse {abbreviate_json(value)} as an option"
        raise InvalidSpec(f"metadata.annotations.{key}", problem)
    return value


def _is_builtin_master(container: Mapping[str, Any]) -> bool:
    words = [*_string_items(container.get("command")), *_string_items(container.get("args"))]
    if any("pliant.master" in word for word in words):
        return True
    return not container.get("image") and not container.get("command")


def _with_start_command(container: Mapping[str, Any], metadata: JobMetadata) -> dict[str, Any]:
    """Return the container with the command of the master, unless the template sets command or args."""
    if container.get("command"):
        return dict(container)
    if not container.get("image"):
        # The engine sets the image and command of the built-in master.
        args = [*master_arguments(metadata), *_string_items(container.get("args"))]
        return {"resources": _BUILTIN_MASTER_RESOURCES, **container, "args": args}
    if container.get("args"):
        return dict(container)
    command = [*DLROVER_MASTER_COMMAND, *master_arguments(metadata)]
    return {"resources": _DLROVER_MASTER_RESOURCES, **container, "command": command}


def _with_job_annotations(template: dict[str, Any], metadata: JobMetadata) -> dict[str, Any]:
    """Return the template with the annotations of the job, which override those of the template."""
    excluded = (_KUBECTL_ANNOTATION_PREFIX, *pod_templates.GANG_KEY_PREFIXES)
    from_job = {key: value for key, value in metadata.annotations.items() if not key.startswith(excluded)}
    if not from_job:
        return template
    return pod_templates.replace_annotations(template, {**pod_templates.template_annotations(template), **from_job})


def _restart_rule(replica: ElasticReplicaSpec) -> RestartRule:
    """Return the restart rule of the master. An explicit restartCount also counts evictions and deletions."""
    has_limit = replica.restart_count is not None
    return RestartRule(
        policy=RestartPolicy.ON_FAILURE,
        scope=RestartScope.POD,
        limit=replica.restart_count if has_limit else DEFAULT_MASTER_RESTARTS,
        counts_disruptions=has_limit,
        permanent_exit_codes=frozenset({1}),  # a master exits with 1 if the job has failed
    )


def _string_items(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

"""The master of an ElasticJob: ours where nobody names another, and what its template leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.templates import (
    GANGS,
    POD_IP,
    POD_NAME,
    check_template,
    main_first,
    with_annotations,
    with_main,
)
from pliant.frontends.elasticjob.types import MASTER, ElasticJobSpec, ReplicaSpec
from pliant.frontends.metadata import Metadata
from pliant.frontends.reading import quoted
from pliant.frontends.templates import fingerprint
from pliant.model.job import EndPolicy, Group, Port, RestartPolicy, RestartRule, RestartScope

PORT = 50001
RESTARTS = 3
"""How often a master is replaced that failed, where nobody says; one that was taken away does not count."""
DLROVER = ("python", "-m", "dlrover.python.master.main", "--platform", "pyk8s")
"""What starts a master of DLRover in its own image."""
ARGUMENTS = (
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
OWN_ARGUMENTS = "pliant.master/"
"""How annotations begin whose names may be any argument."""
NOT_ASKED = ("namespace", "job_name", "port", "help")
"""Arguments but these."""
_NEGATIVE = re.compile(r"-[0-9.]+")
_NOT_FOR_PODS = "kubectl.kubernetes.io/"
_OURS = {"requests": {"cpu": "100m", "memory": "256Mi"}}
_AMOUNTS = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}
_THEIRS = {"requests": _AMOUNTS, "limits": _AMOUNTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """The group of one that runs the job, and whether it is our program."""

    group: Group
    is_ours: bool


def master_of(metadata: Metadata, spec: ElasticJobSpec) -> Master:
    """The master of a job; raises InvalidSpec for a template that is none."""
    replica = spec.replica_specs.get(MASTER, ReplicaSpec())
    path = f"spec.replicaSpecs.{MASTER}.template"
    template = replica.template or {"spec": {"containers": [{"name": "main"}]}}
    check_template(template, path)
    first, *others = main_first(template["spec"]["containers"])
    is_ours = _is_ours(first)
    pod = {**template["spec"], "containers": [_started(first, metadata), *others]}
    variables = [POD_IP, *([POD_NAME] if is_ours else []), *_brain(spec)]
    template = with_main({**template, "spec": pod}, variables)
    template = _marked(template, metadata)
    return Master(
        is_ours=is_ours,
        group=Group(
            name=MASTER,
            size=1,
            is_control=True,
            template=template,
            fingerprint=fingerprint(template),
            ports=(Port("master", PORT, first.get("name", "")),),
            counted=frozenset({first.get("name", "")}),
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            restart=_rule(replica),
            labels={"app.kubernetes.io/name": "elasticjob"},
        ),
    )


def arguments(metadata: Metadata) -> list[str]:
    """What every master is told, and what annotations add; each value is a word of its own."""
    told = ["--namespace", metadata.namespace, "--job_name", metadata.name, "--port", str(PORT)]
    return [*told, *(word for name, value in _asked(metadata) for word in (f"--{name}", value))]


def _asked(metadata: Metadata) -> Iterator[tuple[str, str]]:
    for name in ARGUMENTS:
        if name in metadata.annotations:
            yield name, _word(name, metadata)
    for key in sorted(metadata.annotations):
        name = key.removeprefix(OWN_ARGUMENTS)
        if name in NOT_ASKED and name != key:
            problem = "must be left out: which job a master has, and where it listens, is not a job's to say"
            raise InvalidSpec(f"metadata.annotations.{key}", problem)
        if name not in (key, "") and name not in ARGUMENTS:
            yield name, _word(key, metadata)


def _word(key: str, metadata: Metadata) -> str:
    """The value of an annotation; raises InvalidSpec for one that a master would take for another argument."""
    value = metadata.annotations[key]
    if value.startswith("-") and not _NEGATIVE.fullmatch(value):
        problem = f"must not begin with a dash: a master would take {quoted(value)} for an argument"
        raise InvalidSpec(f"metadata.annotations.{key}", problem)
    return value


def _is_ours(container: Mapping[str, Any]) -> bool:
    words = [*_words(container.get("command")), *_words(container.get("args"))]
    if any("pliant.master" in word for word in words):
        return True
    return not container.get("image") and not container.get("command")


def _started(container: Mapping[str, Any], metadata: Metadata) -> dict[str, Any]:
    """A container with what starts its program: where there is an image, its own entry point or DLRover's."""
    if container.get("command"):
        return dict(container)
    if not container.get("image"):
        # The engine knows where our own program is, and by which command it starts.
        args = [*arguments(metadata), *_words(container.get("args"))]
        return {"resources": _OURS, **container, "args": args}
    if container.get("args"):
        return dict(container)
    return {"resources": _THEIRS, **container, "command": [*DLROVER, *arguments(metadata)]}


def _brain(spec: ElasticJobSpec) -> Iterator[dict[str, Any]]:
    if spec.optimize_mode == "cluster" and spec.brain_service:
        yield {"name": "DLROVER_BRAIN_SERVICE_ADDR", "value": spec.brain_service}


def _marked(template: dict[str, Any], metadata: Metadata) -> dict[str, Any]:
    """With the annotations of the job, which win over the template's own; its labels go to all pods anyway."""
    own = (template.get("metadata") or {}).get("annotations") or {}
    from_job = {
        key: each for key, each in metadata.annotations.items() if not key.startswith((_NOT_FOR_PODS, *GANGS))
    }
    return with_annotations(template, {**own, **from_job}) if from_job else template


def _rule(replica: ReplicaSpec) -> RestartRule:
    """Where its author says how often it may be replaced, every loss counts; 1 is its word for a failed job."""
    is_said = replica.restart_count is not None
    return RestartRule(
        policy=RestartPolicy.ON_FAILURE,
        scope=RestartScope.POD,
        limit=replica.restart_count if is_said else RESTARTS,
        counts_disruptions=is_said,
        final_codes=frozenset({1}),
    )


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

"""The ElasticJob as its master reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.types import MASTER, PARAMETER_SERVERS, WORKER, ElasticJobSpec, ReplicaSpec
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.reading import read
from pliant.kube.amounts import amount
from pliant.master.model import JobFacts, Resources, RoleSpec
from pliant.model.state import EngineState, Requester

DEFAULT_RESTARTS, MOST_RESTARTS = 3, 5
PEOPLE: Final = (Requester.PLAN, Requester.SPEC, Requester.SCALE)
TUNED: Final = ("", "single-job", "cluster")
"""Modes in which the master may look for sizes; without a Brain, a cluster's mode is that of a single job."""


def job_facts(raw: Mapping[str, Any]) -> JobFacts:
    """What the master must know of its job; raises InvalidSpec naming the field that cannot be used."""
    metadata = raw["metadata"]
    spec = read(ElasticJobSpec, raw.get("spec"), "spec")
    state = _state(raw)
    roles = {
        name: _role(name, replica, spec, state) for name, replica in spec.replica_specs.items() if name != MASTER
    }
    return JobFacts(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        strategy=spec.distribution_strategy or PARAMETER_SERVERS,
        limits=resources(spec.resource_limits, "spec.resourceLimits"),
        roles=roles,
        is_suspended=spec.suspend or spec.suspended,
        is_tuned=spec.optimize_mode in TUNED,
    )


def resources(amounts: Mapping[str, Any], path: str) -> Resources:
    """Amounts as numbers; what is neither CPU nor memory stays as it was written."""
    values = {name: value for name, value in amounts.items() if value not in (None, "")}
    try:
        cpu = float(amount(values["cpu"])) if "cpu" in values else None
        memory = int(amount(values["memory"])) if "memory" in values else None
    except ValueError as problem:
        raise InvalidSpec(path, str(problem)) from None
    others = {name: str(value) for name, value in values.items() if name not in ("cpu", "memory")}
    return Resources(cpu=cpu or None, memory=memory or None, others=others)


def _role(name: str, replica: ReplicaSpec, spec: ElasticJobSpec, state: EngineState | None) -> RoleSpec:
    worker = spec.replica_specs.get(WORKER, ReplicaSpec()).template
    template = replica.template or worker or {}
    restarts = DEFAULT_RESTARTS if replica.restart_count is None else replica.restart_count
    return RoleSpec(
        type=name,
        replicas=replica.replicas or None,
        least=replica.min_replicas or 0,
        most=replica.max_replicas,
        resources=_given(template, f"spec.replicaSpecs.{name}.template"),
        may_scale=replica.auto_scale is not False,
        restart_limit=min(restarts, MOST_RESTARTS),
        restarts_always=(template.get("spec") or {}).get("restartPolicy") == "Always",
        by_hand=_by_hand(name, state),
        asked=state.group(name).size if state is not None else None,
    )


def _given(template: Mapping[str, Any], path: str) -> Resources:
    """What the main container asks for, or may have at most."""
    containers = (template.get("spec") or {}).get("containers") or [{}]
    main = next((each for each in containers if each.get("name") == "main"), containers[0])
    asked = main.get("resources") or {}
    together = {**(asked.get("limits") or {}), **(asked.get("requests") or {})}
    return resources(together, f"{path}.spec.containers")


def _by_hand(name: str, state: EngineState | None) -> int | None:
    if state is None:
        return None
    group = state.group(name)
    return group.requests[group.latest].size if group.latest in PEOPLE else None


def _state(raw: Mapping[str, Any]) -> EngineState | None:
    try:
        return remembered(status_in(raw))
    except InvalidSpec:
        return None  # the operator tells of it

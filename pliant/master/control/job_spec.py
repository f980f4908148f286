"""Parses the ElasticJob of the master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.types import (
    MASTER,
    PARAMETER_SERVER_STRATEGY,
    WORKER,
    ElasticJobSpec,
    ElasticReplicaSpec,
)
from pliant.frontends.spec.decoding import decode
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.kube.quantity import parse_quantity
from pliant.master.model import MasterJobSpec, MasterRoleSpec, PodResources
from pliant.model.state import EngineState, SizeRequester

DEFAULT_RESTARTS, MAX_RESTARTS = 3, 5
USER_REQUESTERS: Final = (SizeRequester.MANUAL_PLAN, SizeRequester.SPEC, SizeRequester.SCALE)
TUNING_MODES: Final = ("", "single-job", "cluster")
"""Values of `optimizeMode` in which the master may choose sizes; `cluster` without a Brain means `single-job`."""


def parse_elastic_job(raw: Mapping[str, Any]) -> MasterJobSpec:
    """Parse an ElasticJob; raise `InvalidSpec` with the field that is invalid."""
    metadata = raw["metadata"]
    spec = decode(ElasticJobSpec, raw.get("spec"), "spec")
    state = _read_engine_state(raw)
    roles = {
        name: _parse_role(name, replica, spec, state) for name, replica in spec.replica_specs.items() if name != MASTER
    }
    return MasterJobSpec(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        strategy=spec.distribution_strategy or PARAMETER_SERVER_STRATEGY,
        resource_limits=parse_resources(spec.resource_limits, "spec.resourceLimits"),
        roles=roles,
        is_suspended=spec.suspend or spec.suspended,
        allows_tuning=spec.optimize_mode in TUNING_MODES,
    )


def parse_resources(quantities: Mapping[str, Any], path: str) -> PodResources:
    """Parse CPU and memory to numbers; other resources stay strings."""
    values = {name: value for name, value in quantities.items() if value not in (None, "")}
    try:
        cpu = float(parse_quantity(values["cpu"])) if "cpu" in values else None
        memory = int(parse_quantity(values["memory"])) if "memory" in values else None
    except ValueError as error:
        raise InvalidSpec(path, str(error)) from None
    extended_resources = {name: str(value) for name, value in values.items() if name not in ("cpu", "memory")}
    return PodResources(cpu=cpu or None, memory=memory or None, extended_resources=extended_resources)


def _parse_role(
    name: str, replica_spec: ElasticReplicaSpec, spec: ElasticJobSpec, state: EngineState | None
) -> MasterRoleSpec:
    worker_template = spec.replica_specs.get(WORKER, ElasticReplicaSpec()).template
    template = replica_spec.template or worker_template or {}
    restarts = DEFAULT_RESTARTS if replica_spec.restart_count is None else replica_spec.restart_count
    return MasterRoleSpec(
        type=name,
        replicas=replica_spec.replicas or None,
        min_size=replica_spec.min_replicas or 0,
        max_size=replica_spec.max_replicas,
        resources=_main_container_resources(template, f"spec.replicaSpecs.{name}.template"),
        may_scale=replica_spec.auto_scale is not False,
        restart_limit=min(restarts, MAX_RESTARTS),
        restarts_always=(template.get("spec") or {}).get("restartPolicy") == "Always",
        user_requested_size=_user_requested_size(name, state),
        operator_requested_size=state.group(name).applied_size if state is not None else None,
    )


def _main_container_resources(template: Mapping[str, Any], path: str) -> PodResources:
    containers = (template.get("spec") or {}).get("containers") or [{}]
    main = next((each for each in containers if each.get("name") == "main"), containers[0])
    resources = main.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return parse_resources(amounts, f"{path}.spec.containers")


def _user_requested_size(name: str, state: EngineState | None) -> int | None:
    if state is None:
        return None
    group = state.group(name)
    return group.size_requests[group.latest_requester].size if group.latest_requester in USER_REQUESTERS else None


def _read_engine_state(raw: Mapping[str, Any]) -> EngineState | None:
    try:
        return load_state(raw_status(raw))
    except InvalidSpec:
        return None  # the operator reports it

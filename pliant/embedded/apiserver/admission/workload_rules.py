"""The defaults and validators of workload kinds."""

from __future__ import annotations

from collections.abc import Callable

from pliant.embedded.apiserver.admission.jobs import JOBS_RESOURCE_KEY, set_job_defaults, validate_job
from pliant.embedded.apiserver.admission.replica_sets import (
    CONTROLLER_REVISIONS_RESOURCE_KEY,
    DEPLOYMENTS_RESOURCE_KEY,
    REPLICA_SETS_RESOURCE_KEY,
    set_deployment_defaults,
    set_replica_set_defaults,
    validate_controller_revision,
    validate_deployment,
    validate_replica_set,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

WORKLOAD_DEFAULTERS: dict[str, Callable[[Object, Object | None], None]] = {
    DEPLOYMENTS_RESOURCE_KEY: set_deployment_defaults,
    REPLICA_SETS_RESOURCE_KEY: set_replica_set_defaults,
    JOBS_RESOURCE_KEY: set_job_defaults,
}
WORKLOAD_VALIDATORS: dict[str, Callable[[Object, Object | None], list[FieldError]]] = {
    DEPLOYMENTS_RESOURCE_KEY: validate_deployment,
    REPLICA_SETS_RESOURCE_KEY: validate_replica_set,
    CONTROLLER_REVISIONS_RESOURCE_KEY: validate_controller_revision,
    JOBS_RESOURCE_KEY: validate_job,
}

"""The defaulters and validators of workload kinds, which are imported when the first workload is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object


def _set_defaults(resource_key: str, obj: Object, old: Object | None) -> None:
    from pliant.embedded.apiserver.admission.workload_rules import WORKLOAD_DEFAULTERS

    WORKLOAD_DEFAULTERS[resource_key](obj, old)


def _validate(resource_key: str, obj: Object, old: Object | None) -> list[FieldError]:
    from pliant.embedded.apiserver.admission.workload_rules import WORKLOAD_VALIDATORS

    return WORKLOAD_VALIDATORS[resource_key](obj, old)


def _select_errors(obj: Object, errors: list[FieldError]) -> list[FieldError]:
    from pliant.embedded.apiserver.admission.replica_sets import without_errors_of_unselected_template

    return without_errors_of_unselected_template(obj, errors)


_DEFAULTED_KINDS = ("apps/deployments", "apps/replicasets", "batch/jobs")
DEFERRED_DEFAULTERS: dict[str, Callable[[Object, Object | None], None]] = {
    key: partial(_set_defaults, key) for key in _DEFAULTED_KINDS
}
DEFERRED_VALIDATORS: dict[str, Callable[[Object, Object | None], list[FieldError]]] = {
    key: partial(_validate, key) for key in (*_DEFAULTED_KINDS, "apps/controllerrevisions")
}
DEFERRED_ERROR_FILTERS: dict[str, Callable[[Object, list[FieldError]], list[FieldError]]] = {
    "apps/deployments": _select_errors,
    "apps/replicasets": _select_errors,
}

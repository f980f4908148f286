"""Sequences of requests to which both servers give the same answers."""

from __future__ import annotations

from tests.differential.steps import Step
from tests.differential.table import (
    crds,
    custom,
    debugging,
    discovery,
    errors,
    found,
    found_definitions,
    found_fields,
    found_managers,
    found_numbers,
    found_pods,
    found_policies,
    found_services,
    found_small_kinds,
    found_workloads,
    found_writes,
    kinds,
    lists,
    pods,
    services,
    verbs,
    workloads,
)

SEQUENCES: dict[str, list[Step]] = {
    name: steps
    for module in (
        verbs,
        lists,
        pods,
        services,
        kinds,
        workloads,
        debugging,
        custom,
        crds,
        discovery,
        errors,
        found,
        found_definitions,
        found_fields,
        found_managers,
        found_numbers,
        found_pods,
        found_policies,
        found_services,
        found_small_kinds,
        found_workloads,
        found_writes,
    )
    for name, steps in module.SEQUENCES.items()
}

"""What the server adds to volume claims and refuses of them beyond their schema."""

from __future__ import annotations

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object
from pliant.kube.amounts import amount

CLAIMS = "/persistentvolumeclaims"
PROTECTION = "kubernetes.io/pvc-protection"
"""Keeps a claim until no pod uses it."""
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def complete_claim(claim: Object, old: Object | None) -> None:
    """Protect a new claim, and begin its status."""
    if old is None:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def claim_problems(claim: Object, old: Object | None) -> list[Problem]:
    """How much, and for whom."""
    if old is not None:
        return []
    spec = claim.get("spec") or {}
    problems = []
    modes = spec.get("accessModes") or []
    if not modes:
        problems.append(
            Problem.of("spec.accessModes", Reason.REQUIRED, None, "at least 1 access mode is required")
        )
    for mode in modes:
        if mode not in _MODES:
            words = ", ".join(f'"{each}"' for each in _MODES)
            problems.append(Problem.of("spec.accessModes", Reason.UNSUPPORTED, mode, f"supported values: {words}"))
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        problems.append(Problem.of("spec.resources[storage]", Reason.REQUIRED, None, ""))
    elif amount(size) <= 0:
        problems.append(Problem.of("spec.resources[storage]", Reason.INVALID, size, "must be greater than zero"))
    return problems

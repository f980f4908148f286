"""Families of kinds: short names for API groups, by which users select kinds."""

from __future__ import annotations

KIND_FAMILIES = {
    "aitrainingjob": "elasticdeeplearning.ai",
    "elasticjob": "elastic.iml.github.io",
    "paddle": "paddlepaddle.org",
    "paddle-batch": "batch.paddlepaddle.org",
    "dl": "mpba.fbk.eu",
    "kubeflow": "kubeflow.org",
}


def family_of(api_group: str) -> str:
    """Return the family of an API group, or the group itself if it has no family."""
    return next((family for family, group in KIND_FAMILIES.items() if group == api_group), api_group)

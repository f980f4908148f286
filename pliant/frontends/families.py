"""Families of kinds: short names for API groups, by which users select kinds."""

from __future__ import annotations

API_GROUP_BY_FAMILY = {
    "aitrainingjob": "elasticdeeplearning.ai",
    "elasticjob": "elastic.iml.github.io",
    "paddle": "paddlepaddle.org",
    "paddle-batch": "batch.paddlepaddle.org",
    "dl": "mpba.fbk.eu",
    "kubeflow": "kubeflow.org",
}


def family_of(api_group: str) -> str:
    """Return the family of an API group, or the group itself if it has no family."""
    return next((family for family, group in API_GROUP_BY_FAMILY.items() if group == api_group), api_group)

"""Families of kinds: short names for API groups, by which users choose kinds."""

from __future__ import annotations

KIND_FAMILIES = {
    "aitrainingjob": "elasticdeeplearning.ai",
    "elasticjob": "elastic.iml.github.io",
    "paddle": "paddlepaddle.org",
    "paddle-batch": "batch.paddlepaddle.org",
    "dl": "mpba.fbk.eu",
    "kubeflow": "kubeflow.org",
}
"""The API group of each family. A kind belongs to the family of its group; other groups go by their own name."""

_FAMILY_BY_API_GROUP = {group: family for family, group in KIND_FAMILIES.items()}


def family_of(api_group: str) -> str:
    """Return the family of an API group, or the group itself if it has no short name."""
    return _FAMILY_BY_API_GROUP.get(api_group, api_group)

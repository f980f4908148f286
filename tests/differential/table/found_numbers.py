"""Sequences with numbers that once had different answers."""

from __future__ import annotations

import copy
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.objects.custom import gadget_crd
from tests.differential.steps import Step

_INSTALLED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.org"
_DRY = {"dryRun": "All"}


def _size_schema(**keywords: Any) -> dict[str, Any]:
    """Return a patch of the CRD with more keywords of the field `size`."""
    versions = copy.deepcopy(gadget_crd()["spec"]["versions"])
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] |= keywords
    return {"spec": {"versions": versions}}


SEQUENCES: dict[str, list[Step]] = {
    "large numbers in patches of CRDs": [
        Step("PATCH", _INSTALLED, _size_schema(**keywords), query=_DRY, media=media)
        for media in (MERGE_PATCH, STRATEGIC_MERGE_PATCH)
        for keywords in (
            {"maximum": 2**63},
            {"maximum": 2**53 + 1},
            {"maximum": 2**70},
            {"maximum": 2**63, "type": "x"},
            {"multipleOf": 2**63},
            {"enum": [2**63]},
            {"default": 2**63},
            {"example": {"a": [2**63]}},
        )
    ],
}

"""CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from tests.differential.objects.custom import gadget_crd
from tests.differential.steps import TABLE, Step

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DRY = {"dryRun": "All"}


def _create(**spec: Any) -> Step:
    crd = gadget_crd("{run}.example.org")
    return Step("POST", _CRDS, {**crd, "spec": {**crd["spec"], **spec}}, query=_DRY)


SEQUENCES: dict[str, list[Step]] = {
    "CRDs": [
        _create(),
        _create(scope="Everywhere"),
        _create(versions=[]),
        Step("POST", _CRDS, {**gadget_crd("{run}.example.org"), "metadata": {"name": "other"}}, query=_DRY),
        Step("POST", _CRDS, gadget_crd()),
        Step("GET", f"{_CRDS}/gadgets.example.org", accept=TABLE),
    ]
}

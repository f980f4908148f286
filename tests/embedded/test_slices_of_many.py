"""A pod of a job with many members concerns its own service, and not those of all others."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from pliant.embedded.controllers.endpoint_slices import EndpointSliceController
from pliant.embedded.object_views import PodView, ServiceView

MANY = 500


def metadata(number: int, **more: Any) -> dict[str, Any]:
    return {"namespace": "default", "name": f"big-{number}", "uid": str(number), **more}


def labels(number: int) -> dict[str, str]:
    return {"job": "big", "group": "worker", "index": str(number)}


def service(number: int) -> ServiceView:
    return msgspec.convert({"metadata": metadata(number), "spec": {"selector": labels(number)}}, ServiceView)


def test_few_services_are_looked_at_for_each_pod() -> None:
    slices = EndpointSliceController(cast(Any, None), cast(Any, None))
    for number in range(MANY):
        slices.on_service_change(None, service(number))
    slices._due.clear()
    pod = msgspec.convert({"metadata": metadata(77, labels=labels(77)), "spec": {}}, PodView)
    slices.on_pod_change(None, pod)
    assert ("default", "big-77") in slices._due
    assert len(slices._due) <= 3

    for number in range(MANY):
        slices.on_service_change(service(number), None)
    slices._due.clear()
    slices.on_pod_change(None, pod)
    assert not slices._due

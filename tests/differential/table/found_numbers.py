"""Sequences with numbers that once had different answers: whole numbers with a fraction, booleans, large integers."""

from __future__ import annotations

import copy
from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.objects.custom import gadget_crd
from tests.differential.steps import Step

_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_INSTALLED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.org"
_REVISIONS = "/apis/apps/v1/namespaces/{run}-a/controllerrevisions"
_JOBS = "/apis/batch/v1/namespaces/{run}-a/jobs"
_TEMPLATE: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
_DRY = {"dryRun": "All"}


def _gadget(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "one", **(metadata or {})}
    return {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": metadata, "spec": {"size": 1, **spec}}


def _put(**spec: Any) -> Step:
    return Step("PUT", f"{_GADGETS}/one", _gadget({"resourceVersion": "{version}"}, **spec))


def _merge(**spec: Any) -> Step:
    return Step("PATCH", f"{_GADGETS}/one", {"spec": spec}, media=MERGE_PATCH)


def _apply(**spec: Any) -> Step:
    query = {"fieldManager": "ada", "force": "true"}
    return Step("PATCH", f"{_GADGETS}/one", _gadget(**spec), query=query, media=APPLY_PATCH)


def _apply_job(**spec: Any) -> Step:
    typed = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}}
    query = {"fieldManager": "ada", "force": "true"}
    return Step(
        "PATCH", f"{_JOBS}/one", {**typed, "spec": {"template": _TEMPLATE, **spec}}, query=query, media=APPLY_PATCH
    )


def _exit_codes(number: float) -> dict[str, Any]:
    return {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [number]}}]}


def _size_schema(**keywords: Any) -> dict[str, Any]:
    """Return a patch of the CRD with more keywords of the field `size`."""
    versions = copy.deepcopy(gadget_crd()["spec"]["versions"])
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] |= keywords
    return {"spec": {"versions": versions}}


SEQUENCES: dict[str, list[Step]] = {
    "whole numbers with a fraction are another value than the stored integers": [
        Step("POST", _GADGETS, _gadget(level=2, kept={"a": [1]})),
        _put(level=2.0, kept={"a": [1]}),
        _put(level=2, kept={"a": [1]}),
        _merge(level=2.0),
        _merge(kept={"a": [1.0]}),
        _merge(ratio=0.0),
        _merge(ratio=0.0),
        _merge(ratio=0),
        _apply(level=2.0),
        _merge(range={"low": 1.0, "high": 2}),
        _merge(level=4.0, even=1),
        Step("PATCH", f"{_GADGETS}/one", [{"op": "replace", "path": "/spec/level", "value": 2.0}], media=JSON_PATCH),
    ],
    "a Scale has no whole numbers with a fraction": [
        Step("POST", _GADGETS, _gadget(replicas=2.0)),
        Step("POST", _GADGETS, _gadget()),
        Step("PATCH", f"{_GADGETS}/one/status", {"status": {"replicas": 2.0}}, media=MERGE_PATCH),
        _merge(replicas=2.0),
    ],
    "booleans are no integers": [
        Step("POST", _GADGETS, _gadget(level=1)),
        _put(level=True),
        _merge(level=True),
        _merge(enabled=True),
        _put(level=1, enabled=1),
        _merge(enabled=1),
        _merge(enabled=1.0),
        _merge(free={"a": True}),
        _merge(free={"a": 1}),
        _apply(free={"a": True}),
        Step("PATCH", f"{_GADGETS}/one", {"spec": 1.5}, media=MERGE_PATCH),
    ],
    "the text of a large number in an object of any type is kept": [
        Step("POST", _REVISIONS, {"metadata": {"name": "one"}, "data": {"spec": {"a": 2**63}}}),
        Step("PATCH", f"{_REVISIONS}/one", {"metadata": {"labels": {"a": "b"}}}, media=MERGE_PATCH),
    ],
    "a strategic merge patch changes the text of a large number in an object of any type": [
        Step("POST", _REVISIONS, {"metadata": {"name": "one"}, "data": {"spec": {"a": 2**63 - 1}}}),
        Step("POST", _REVISIONS, {"metadata": {"name": "two"}, "data": {"spec": {"a": 2**63}}}),
        *(
            Step("PATCH", f"{_REVISIONS}/{name}", {"revision": 2}, media=media)
            for name in ("one", "two")
            for media in (STRATEGIC_MERGE_PATCH, MERGE_PATCH)
        ),
    ],
    "applied numbers that their fields cannot hold": [
        step
        for number in (2**31, 2**32 + 5, 2**63, 2**70, 1e19, 1.5, -(2**31) - 1)
        for step in (
            _apply_job(parallelism=number),
            _apply_job(parallelism=1),
            _apply_job(activeDeadlineSeconds=number),
            _apply_job(podFailurePolicy=_exit_codes(number)),
            _apply_job(template={"spec": {**_TEMPLATE["spec"], "terminationGracePeriodSeconds": number}}),
        )
    ],
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

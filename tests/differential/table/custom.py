"""Custom objects: schemas, status, scale and versions."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import SPACE, TABLE, Step

_GADGETS = f"/apis/example.org/v1/namespaces/{SPACE}/gadgets"
_BETA = f"/apis/example.org/v1beta1/namespaces/{SPACE}/gadgets"
_ONE = f"{_GADGETS}/g"
_JOBS = f"/apis/elasticdeeplearning.ai/v1/namespaces/{SPACE}/aitrainingjobs"
_STRICT = {"fieldValidation": "Strict"}


def _gadget(name: str = "g", version: str = "v1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": f"example.org/{version}", "kind": "Gadget", "metadata": metadata, "spec": {"size": 1, **spec}}


def _create(**spec: Any) -> Step:
    return Step("POST", _GADGETS, _gadget("n", **spec), query={"dryRun": "All"})


def _job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}}
    worker = {"worker": {"replicas": 2, "template": template}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "j"},
        "spec": {"replicaSpecs": worker, **spec},
    }


def _merge(path: str, body: Any, **query: str) -> Step:
    return Step("PATCH", path, body, query=query, media=MERGE_PATCH)


SEQUENCES: dict[str, list[Step]] = {
    "schemas": [
        _create(),
        _create(size=None),
        _create(size="two"),
        _create(size=-1),
        _create(size=1.5),
        _create(size=101),
        _create(colour="pink"),
        _create(code="ab"),
        _create(code="AB-123456789"),
        _create(ratio=1),
        _create(even=3),
        _create(email="nonsense"),
        _create(when="yesterday"),
        _create(when=None),
        _create(percent=True),
        _create(quantity="5x"),
        _create(tags=["a", "a"]),
        _create(tags=["a", "b", "c", "d", "e"]),
        _create(ports=[{"port": 80}, {"port": 80, "protocol": "UDP"}]),
        _create(ports=[{"port": 80}, {"port": 80}]),
        _create(ports=[{"name": "x"}]),
        _create(steps=[]),
        _create(settings={"a": "1", "b": "2", "c": "3", "d": "4"}),
        _create(options={"mode": None, "depth": None}),
        _create(choice={"a": "1", "b": "2"}),
        _create(free={"any": [None, {}]}, unknown=1),
        Step("POST", _GADGETS, {**_gadget("n"), "spec": None}),
        Step("POST", _GADGETS, _gadget("n", unknown=1), query=_STRICT),
        Step("POST", _GADGETS, _gadget("n", "v2")),
        Step("POST", f"/apis/example.org/v1alpha1/namespaces/{SPACE}/gadgets", _gadget("n", "v1alpha1")),
    ],
    "versions, status and scale": [
        Step("POST", _GADGETS, _gadget()),
        Step("GET", f"{_BETA}/g"),
        Step("GET", _ONE, accept=TABLE),
        Step("PUT", _ONE, _gadget()),
        _merge(_ONE, {"spec": {"size": 2}}),
        _merge(_ONE, {"spec": {"size": 2}}),
        _merge(_ONE, {"metadata": {"labels": {"a": "b"}}}),
        _merge(_ONE, {"status": {"phase": "Failed"}}),
        _merge(f"{_ONE}/status", {"status": {"phase": "Running"}, "spec": {"size": 9}}),
        Step("GET", f"{_ONE}/scale"),
        _merge(f"{_ONE}/scale", {"spec": {"replicas": 3}}),
        Step("GET", f"{_ONE}/scale"),
        _merge(f"{_ONE}/scale", {"spec": {"replicas": -1}}),
        _merge(f"{_ONE}/scale", {"spec": {"replicas": "x"}}),
        Step("PATCH", _ONE, {"spec": {}}, media=STRATEGIC_MERGE_PATCH),
        Step("GET", _GADGETS, query={"fieldSelector": "spec.colour=red"}),
        Step("GET", _GADGETS, query={"fieldSelector": "spec.size=1"}),
        Step("DELETE", _ONE),
        Step("DELETE", _ONE),
    ],
    "server-side apply of lists": [
        Step(
            "PATCH",
            _ONE,
            _gadget(tags=["a"], ports=[{"port": 80}], atom={"x": "1"}),
            query={"fieldManager": "ada"},
            media=APPLY_PATCH,
        ),
        Step(
            "PATCH", _ONE, _gadget(tags=["b"], ports=[{"port": 81}]), query={"fieldManager": "bob"}, media=APPLY_PATCH
        ),
        Step("PATCH", _ONE, _gadget(atom={"y": "1"}), query={"fieldManager": "bob"}, media=APPLY_PATCH),
        Step("PATCH", _ONE, _gadget(ports=[{"port": 81}]), query={"fieldManager": "bob"}, media=APPLY_PATCH),
        Step("PATCH", _ONE, _gadget(), query={"fieldManager": "ada"}, media=APPLY_PATCH),
        Step("PATCH", _ONE, _gadget(unknown=1), query={"fieldManager": "ada"}, media=APPLY_PATCH),
    ],
    "training jobs": [
        Step("POST", _JOBS, _job()),
        Step("POST", _JOBS, _job(replicaSpecs={"worker": {"replicas": "two"}})),
        Step("POST", _JOBS, _job(completePolicy="Perhaps")),
        Step("POST", _JOBS, _job(nonsense=1), query=_STRICT),
        _merge(f"{_JOBS}/j", {"spec": {"replicaSpecs": {"worker": {"replicas": 3}}}}),
        _merge(f"{_JOBS}/j/status", {"status": {"phase": "Running"}, "spec": {"completePolicy": "Any"}}),
        Step("GET", _JOBS, accept=TABLE),
        Step("GET", f"{_JOBS}/j/scale"),
        _merge(f"{_JOBS}/j/scale", {"spec": {"replicas": 3}}),
        _merge(f"{_JOBS}/j", {"spec": {"elastic": {"replicas": 2}}}),
        Step("GET", f"{_JOBS}/j/scale"),
        _merge(f"{_JOBS}/j/scale", {"spec": {"replicas": -1}}),
        Step("DELETE", f"{_JOBS}/j"),
    ],
}

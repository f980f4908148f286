"""An operator with kopf: a custom kind with handlers, a timer, a finalizer and a status, and events."""

import asyncio
import threading

import kopf
from kubernetes import client, config

from manifests import attempts, passed

GROUP, VERSION, PLURAL, NAME = "kopf.pliant.test", "v1", "gizmos", "kopf"
config.load_kube_config()
crds, custom, core = client.ApiextensionsV1Api(), client.CustomObjectsApi(), client.CoreV1Api()
ticks: list[str] = []


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.posting.level = 20


@kopf.on.create(GROUP, VERSION, PLURAL)
def create(spec: kopf.Spec, name: str, **_: object) -> dict:
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-child"},
        "data": {"size": str(spec["size"])},
    }
    kopf.adopt(child)
    core.create_namespaced_config_map("default", child)
    return {"size": spec["size"]}


@kopf.on.update(GROUP, VERSION, PLURAL, field="spec.size")
def update(new: int, name: str, patch: kopf.Patch, **_: object) -> None:
    core.patch_namespaced_config_map(f"{name}-child", "default", {"data": {"size": str(new)}})
    patch.status["resized"] = new


@kopf.on.delete(GROUP, VERSION, PLURAL)
def delete(body: kopf.Body, **_: object) -> None:
    kopf.info(body, reason="Removed", message="deleted by the handler")


@kopf.timer(GROUP, VERSION, PLURAL, interval=0.2)
def tick(name: str, **_: object) -> None:
    ticks.append(name)


def definition() -> dict:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}}
    names = {"plural": PLURAL, "singular": "gizmo", "kind": "Gizmo"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": spec,
    }


def child_size() -> str:
    found = core.list_namespaced_config_map("default", field_selector=f"metadata.name={NAME}-child").items
    return found[0].data["size"] if found else ""


def work() -> None:
    arguments = (GROUP, VERSION, "default", PLURAL)
    gizmo = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Gizmo", "metadata": {"name": NAME}, "spec": {"size": 1}}
    custom.create_namespaced_custom_object(*arguments, gizmo)
    for _ in attempts("the handler has stored its result"):
        seen = custom.get_namespaced_custom_object(*arguments, NAME)
        if seen.get("status", {}).get("create") == {"size": 1} and child_size() == "1":
            break
    assert seen["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    passed("watch custom resources, create handler, status, finalizer")
    custom.patch_namespaced_custom_object(*arguments, NAME, {"spec": {"size": 5}})
    for _ in attempts("the handler has seen the change"):
        seen = custom.get_namespaced_custom_object(*arguments, NAME)
        if seen["status"].get("resized") == 5 and child_size() == "5":
            break
    passed("update handler, patch of the status")
    for _ in attempts("the timer has run"):
        if len(ticks) >= 3:
            break
    passed("timer")
    custom.delete_namespaced_custom_object(*arguments, NAME)
    for _ in attempts("the object and its child are deleted"):
        left = custom.list_namespaced_custom_object(*arguments)["items"]
        if not left and not child_size():
            break
    passed("delete handler, owner reference")
    for _ in attempts("the events are listed"):
        reasons = {
            each.reason for each in core.list_namespaced_event("default").items if each.involved_object.kind == "Gizmo"
        }
        if "Removed" in reasons:
            break
    passed("events")


def main() -> None:
    crds.create_custom_resource_definition(definition())
    ready, stop = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run_operator() -> None:
        try:
            asyncio.run(kopf.operator(namespaces=["default"], standalone=True, ready_flag=ready, stop_flag=stop))
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=run_operator)
    thread.start()
    try:
        assert ready.wait(30), failures
        work()
    finally:
        stop.set()
        thread.join(30)
        crds.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    assert not failures, failures


main()

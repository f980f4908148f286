"""What a real API server refuses, fills in and answers was compared with ours; these are the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import CONFIG_MAPS, EVENTS, PODS, SERVICES
from tests.embedded.serving import WIDGETS, Served, config, create_widget_crd, pod, service, serving, widget


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


def with_container(**fields: Any) -> dict[str, Any]:
    body = pod("n")
    body["spec"]["containers"][0] |= fields
    return body


ABOUT_ELSEWHERE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"},
}
REFUSED = {
    "ports of one name": (
        SERVICES,
        service("n", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
        "spec.ports[1].name",
    ),
    "several ports without names": (SERVICES, service("n", ports=[{"port": 80}, {"port": 81}]), "spec.ports[0].name"),
    "a request above its limit": (
        PODS,
        with_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}),
        "spec.containers[0].resources.requests",
    ),
    "less than nothing": (
        PODS,
        with_container(resources={"requests": {"cpu": "-1"}}),
        "spec.containers[0].resources.requests[cpu]",
    ),
    "a finalizer of nobody": (
        CONFIG_MAPS,
        {**config("n"), "metadata": {"name": "n", "finalizers": ["short"]}},
        "metadata.finalizers[0]",
    ),
    "an event about elsewhere": (EVENTS, ABOUT_ELSEWHERE, "involvedObject.namespace"),
}


@pytest.mark.parametrize(("resource", "body", "field"), REFUSED.values(), ids=REFUSED)
async def test_the_field_at_fault_is_named(server: Served, resource: Any, body: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await server.client.create(resource, "default", body)
    assert refusal.value.details["causes"][0]["field"] == field


@pytest.mark.parametrize(
    ("method", "query", "options"),
    [
        ("POST", {"fieldValidation": "Sometimes"}, "CreateOptions"),
        ("POST", {"dryRun": "Some"}, "CreateOptions"),
        ("GET", {"resourceVersionMatch": "Exact"}, "ListOptions"),
        ("GET", {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}, "ListOptions"),
        ("GET", {"watch": "true", "sendInitialEvents": "true"}, "ListOptions"),
        ("DELETE", {"propagationPolicy": "Sideways"}, "DeleteOptions"),
    ],
)
async def test_options_that_make_no_sense_are_invalid(
    server: Served, method: str, query: dict[str, str], options: str
) -> None:
    body = config("n") if method == "POST" else None
    reply, status = await server.call(method, CONFIG_MAPS.path("default"), body, **query)
    assert (reply.status, status["details"]["kind"], status["details"]["group"]) == (422, options, "meta.k8s.io")


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:0123", "IfNotPresent"),
    ],
)
async def test_images_that_may_change_are_always_pulled(server: Served, image: str, policy: str) -> None:
    made = await server.client.create(PODS, "default", with_container(image=image))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_a_pod_is_filled_in_as_by_the_usual_admission(server: Served) -> None:
    body = pod("n")
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    body["spec"]["tolerations"] = [own]
    made = await server.client.create(PODS, "default", body)
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [each["key"].rpartition("/")[2] for each in made["spec"]["tolerations"]] == ["not-ready", "unreachable"]
    assert made["spec"]["tolerations"][0] == own
    assert made["metadata"]["generation"] == 1


async def test_nobody_can_be_given_another_uid(server: Served) -> None:
    await server.client.create(CONFIG_MAPS, "default", config("n"))
    with pytest.raises(Invalid, match="field is immutable"):
        await server.client.patch(CONFIG_MAPS, "default", "n", {"metadata": {"uid": "1234"}})


async def test_a_size_that_is_not_stated_cannot_be_read_but_can_be_set(server: Served) -> None:
    await create_widget_crd(server)
    body = widget("a")
    del body["spec"]
    await server.client.create(WIDGETS, "default", body)
    reply, status = await server.call("GET", WIDGETS.path("default", "a", "scale"))
    assert (reply.status, status["reason"]) == (500, "InternalError")
    assert '".spec.size" does not exist' in status["message"]
    await server.client.patch(WIDGETS, "default", "a", {"spec": {"replicas": 5}}, subresource="scale")
    assert (await server.client.get(WIDGETS, "default", "a"))["spec"] == {"size": 5}


@pytest.mark.parametrize("spec", [None, {}, {"selector": None}, {"template": {"metadata": None, "spec": None}}])
@pytest.mark.parametrize("kind", ["apps/v1 Deployment", "apps/v1 ReplicaSet", "batch/v1 Job"])
async def test_workloads_without_required_fields_are_refused(server: Served, kind: str, spec: Any) -> None:
    api_version, name = kind.split()
    body = {"apiVersion": api_version, "kind": name, "metadata": {"name": "a"}, "spec": spec}
    reply, status = await server.call("POST", f"/apis/{api_version}/namespaces/default/{name.lower()}s", body)
    assert (reply.status, status["reason"]) == (422, "Invalid")
    fields = {cause["field"] for cause in status["details"]["causes"]}
    assert {"spec.template.spec.containers", "spec.template"} & fields
    assert "Job" in kind or "spec.selector" in fields

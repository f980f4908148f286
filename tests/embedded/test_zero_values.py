"""Empty values of optional fields are stored as kube-apiserver stores them: as absent fields."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.protobuf.encoder import encode_protobuf
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES
from tests.embedded.serving import config, create_widget_crd, pod, service, serving, widget


def pod_with_zeros() -> dict[str, Any]:
    manifest = pod(labels={"empty": ""}, annotations={})
    manifest["spec"] |= {"hostNetwork": False, "nodeName": "", "volumes": [], "activeDeadlineSeconds": 60}
    manifest["spec"]["containers"][0] |= {
        "env": [{"name": "EMPTY", "value": ""}],
        "tty": False,
        "args": [],
        "resources": {},
        "securityContext": {"runAsNonRoot": False, "runAsUser": 0, "capabilities": {}},
        "livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 0, "terminationGracePeriodSeconds": 1},
    }
    return manifest


async def test_zeros_of_values_are_left_out_and_zeros_of_pointers_kept() -> None:
    async with serving() as server:
        spec = (await server.client.create(PODS, "default", pod_with_zeros(), strict=True))["spec"]
        assert not {"hostNetwork", "nodeName", "volumes"} & spec.keys()
        (container,) = spec["containers"]
        assert not {"tty", "args"} & container.keys()
        assert container["env"] == [{"name": "EMPTY"}]
        assert container["resources"] == {}
        assert container["securityContext"] == {"runAsNonRoot": False, "runAsUser": 0, "capabilities": {}}
        assert "initialDelaySeconds" not in container["livenessProbe"]
        metadata = (await server.client.get(PODS, "default", "a"))["metadata"]
        assert (metadata["labels"], "annotations" in metadata) == ({"empty": ""}, False)


async def test_a_client_in_go_may_send_a_pod_back() -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod_with_zeros())
        path = PODS.path("default", "a")
        _, stored = await server.call("GET", path)
        body = encode_protobuf(stored)
        reply, _ = await server.call("PUT", path, body, media="application/vnd.kubernetes.protobuf")
        assert reply.status == 200, reply.body
        for zero in ({"value": ""}, {"value": None}):  # nor does it matter if the zero is sent back
            stored["spec"]["containers"][0]["env"][0] |= zero
            assert (await server.call("PUT", path, stored))[0].status == 200


async def test_patched_and_applied_objects_leave_out_zeros_and_custom_ones_keep_them() -> None:
    async with serving() as server:
        await create_widget_crd(server)
        await server.client.create(SERVICES, "default", service("a", publishNotReadyAddresses=True))
        patched = await server.client.patch(SERVICES, "default", "a", {"spec": {"publishNotReadyAddresses": False}})
        assert "publishNotReadyAddresses" not in patched["spec"]
        applied = await server.client.apply(
            CONFIG_MAPS, "default", config("b", data={}, immutable=False), field_manager="m"
        )
        assert ("data" in applied, applied["immutable"]) == (False, False)  # immutable is a pointer
        _, custom = await server.call("POST", "/apis/example.org/v1/namespaces/default/widgets", widget("w", size=0))
        assert custom["spec"] == {"size": 0}


async def test_a_port_of_a_service_with_the_target_zero_has_the_target_of_its_port() -> None:
    async with serving() as server:
        ports = [{"port": 80, "targetPort": 0}]
        created = await server.client.create(SERVICES, "default", service("a", ports=ports))
        assert created["spec"]["ports"][0]["targetPort"] == 80

"""Ephemeral containers are added by their subresource only, and never changed or removed."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import PODS
from pliant.kube.transport.base import MERGE_PATCH
from tests.embedded.serving import Served, pod, serving
from tests.virtual_time import on_virtual_time

PATH = "spec.ephemeralContainers"


@on_virtual_time
async def test_containers_are_added_with_their_defaults() -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod())
        patched = await add(server, container("one"))
        [added] = patched["spec"]["ephemeralContainers"]
        assert added["imagePullPolicy"] == "IfNotPresent"
        assert added["terminationMessagePath"] == "/dev/termination-log"
        assert patched["metadata"]["generation"] == 2
        await add(server, container("one"), container("two", targetContainerName="main"))
        path = "/api/v1/namespaces/default/pods/a/ephemeralcontainers"
        reply, stored = await server.call("GET", path)
        assert [each["name"] for each in stored["spec"]["ephemeralContainers"]] == ["one", "two"]
        stored["metadata"]["labels"] = {"ignored": "yes"}
        stored["spec"]["ephemeralContainers"].append(container("three"))
        reply, replaced = await server.call("PUT", path, stored)
        assert (reply.status, len(replaced["spec"]["ephemeralContainers"])) == (200, 3)
        assert "labels" not in replaced["metadata"]
        reply, _ = await server.call("PUT", path, {**stored, "spec": replaced["spec"]})
        assert reply.status == 409, "the version is that of the pod before"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "main"}, f'{PATH}[1].name: Duplicate value: "main"'),
        ({"image": ""}, f"{PATH}[1].image: Required value"),
        ({"targetContainerName": "none"}, f'{PATH}[1].targetContainerName: Not found: "none"'),
        ({"ports": [{"containerPort": 1}]}, f"{PATH}[1].ports: Forbidden: cannot be set for an Ephemeral Container"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, f'{PATH}[1].volumeMounts[0].name: Not found: "v"'),
    ],
)
@on_virtual_time
async def test_invalid_containers_are_refused(fields: dict[str, Any], problem: str) -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod())
        await add(server, container("one"))
        with pytest.raises(Invalid) as refusal:
            await add(server, container("one"), container(**{"name": "two", **fields}))
        assert problem in str(refusal.value)


@on_virtual_time
async def test_containers_are_not_changed_and_not_added_by_other_requests() -> None:
    async with serving() as server:
        created = pod()
        created["spec"]["ephemeralContainers"] = [container("one")]
        with pytest.raises(Invalid, match="cannot be set on create"):
            await server.client.create(PODS, "default", created)
        await server.client.create(PODS, "default", pod())
        await add(server, container("one"))
        with pytest.raises(Invalid, match='existing ephemeral containers "one" may not be removed'):
            await add(server)
        with pytest.raises(Invalid, match='existing ephemeral containers "one" may not be changed'):
            await add(server, container("one", command=["other"]))
        for containers in ([], [container("one"), container("two")]):
            with pytest.raises(Invalid, match="pod updates may not change fields other than"):
                await server.client.patch(
                    PODS, "default", "a", {"spec": {"ephemeralContainers": containers}}, content_type=MERGE_PATCH
                )


async def add(server: Served, *containers: dict[str, Any]) -> Any:
    """Set the ephemeral containers of the pod."""
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    return await server.client.patch(
        PODS, "default", "a", patch, subresource="ephemeralcontainers", content_type=MERGE_PATCH
    )


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", "command": ["sh"], **fields}

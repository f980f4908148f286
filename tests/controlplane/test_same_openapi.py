"""The embedded server publishes the definitions that the real one publishes, without descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.openapi.definitions import definition_name
from pliant.embedded.registry.unsupported_kinds import unsupported_kinds
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CRDS
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.embedded.crd_examples import make_crd

pytestmark = pytest.mark.real

Definitions = dict[str, Any]

GROUP = "openapi.example.org"
UNSUPPORTED = frozenset(f"{definition_name(kind)}{suffix}" for kind in unsupported_kinds() for suffix in ("", "List"))
"""Definitions of kinds without objects: the server makes them, and they have no fields."""
FIELDS: dict[str, Any] = {
    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "default": 3},
    "either": {"x-kubernetes-int-or-string": True},
    "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
    "items": {
        "type": "array",
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "nothing": {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}},
    "one": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "open": {"x-kubernetes-preserve-unknown-fields": True},
    "word": {"type": "string", "enum": ["a", "b"], "pattern": "[ab]", "maxLength": 1},
}


def crd() -> dict[str, Any]:
    """Return a CRD with the keywords that OpenAPI v2 represents differently."""
    found = make_crd(group=GROUP)
    found["metadata"]["name"] = f"jobs.{GROUP}"
    found["spec"]["versions"] = [version for version in found["spec"]["versions"] if version["storage"]]
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] |= FIELDS
    spec["required"] += ["nothing", "word"]
    return found


def without_descriptions(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_descriptions(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: {name: without_descriptions(child) for name, child in value.items()}
        if keyword == "properties"
        else without_descriptions(value)
        for keyword, value in schema.items()
        if keyword != "description"
    }


async def get(client: KubeClient, path: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(await client.get_raw(path))
    return found


async def v3_definitions(client: KubeClient, path: str) -> Definitions:
    found: Definitions = (await get(client, f"/openapi/v3/{path}"))["components"]["schemas"]
    return found


async def wait_until_published(client: KubeClient, group_version: str, name: str) -> None:
    """Wait until the real server has published a CRD in both versions; it does so after it serves the kind."""
    for _ in range(150):
        is_in_v3 = group_version in (await get(client, "/openapi/v3"))["paths"]
        if is_in_v3 and name in (await get(client, "/openapi/v2"))["definitions"]:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{name} is not published")


def differences(ours: Definitions, real: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the definitions that both servers have and that differ; options list other groups."""
    return {
        name: (schema, without_descriptions(real[name]))
        for name, schema in ours.items()
        if name in real.keys() - UNSUPPORTED
        and not name.endswith("DeleteOptions")
        and without_descriptions(real[name]) != schema
    }


async def test_both_servers_publish_the_same_definitions(plane: ControlPlane) -> None:
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            real, ours = KubeClient(transport), KubeClient(InProcessTransport(api))
            for client in (real, ours):
                await client.create(CRDS, None, crd())
            custom = "org.example.openapi.v1.Job"

            await wait_until_published(real, f"apis/{GROUP}/v1", custom)
            served = [(await get(client, "/openapi/v3"))["paths"].keys() for client in (real, ours)]
            shared = served[0] & served[1]
            assert {"api/v1", "apis/policy/v1", f"apis/{GROUP}/v1"} <= shared
            for path in sorted(shared):
                assert not differences(await v3_definitions(ours, path), await v3_definitions(real, path)), path
            published = (await get(ours, "/openapi/v2"))["definitions"]
            assert {custom, "io.k8s.api.core.v1.PodSpec"} <= published.keys()
            assert not differences(published, (await get(real, "/openapi/v2"))["definitions"])
    finally:
        await transport.aclose()

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.protobuf.wire import as_bytes, as_text, iter_fields
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.openapi.gnostic import encode_document
from pliant.embedded.registry.openapi.handler import SWAGGER_PROTOBUF
from pliant.embedded.registry.openapi.swagger import swagger_document, to_swagger_schema
from tests.embedded.crd_examples import make_crd
from tests.embedded.serving import Served, create_widget_crd, serving

OLD_SWAGGER_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    registry = KindRegistry.with_builtin_kinds()
    registry.register_crd(make_crd())
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(swagger_document(registry.kinds())))
    return found


def fields(raw: bytes) -> dict[int, list[bytes]]:
    """Return the values of a message by number; all of them are bytes."""
    found: dict[int, list[bytes]] = {}
    for number, value in iter_fields(raw):
        if isinstance(value, bytes):
            found.setdefault(number, []).append(value)
    return found


def entries(raw: list[bytes]) -> dict[str, dict[int, list[bytes]]]:
    """Return the values of a map by name."""
    found = {}
    for each in raw:
        entry = fields(each)
        found[entry[1][0].decode()] = fields(entry[2][0])
    return found


def test_definitions_have_the_names_of_kubernetes(document: dict[str, Any]) -> None:
    definitions = document["definitions"]
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["properties"]["spec"] == {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
    containers = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    assert (containers["x-kubernetes-patch-strategy"], containers["x-kubernetes-patch-merge-key"]) == ("merge", "name")
    assert definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {
        "format": "int-or-string",
        "type": "string",
    }
    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert "org.example.v1.JobList" in definitions
    assert "io.k8s.api.rbac.v1.PolicyRule" in definitions
    assert "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" in definitions


def test_every_reference_has_a_definition(document: dict[str, Any]) -> None:
    text = msgspec.json.encode(document).decode()
    wanted = {part.partition('"')[0] for part in text.split('"#/definitions/')[1:]}
    assert wanted <= set(document["definitions"])
    assert "#/components" not in text
    assert "allOf" not in text.replace('"allOf":{"items"', "")  # JSONSchemaProps has a property of this name


def test_writes_name_their_parameters_and_their_body(document: dict[str, Any]) -> None:
    path = document["paths"]["/apis/example.org/v1/namespaces/{namespace}/jobs/{name}"]
    patch = path["patch"]
    assert [parameter["name"] for parameter in patch["parameters"]] == [
        "body",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
    ]
    assert "application/apply-patch+yaml" in patch["consumes"]
    assert "application/strategic-merge-patch+json" not in patch["consumes"]
    assert path["parameters"][0] == {
        "name": "name",
        "in": "path",
        "required": True,
        "type": "string",
        "uniqueItems": True,
    }
    pod = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert "application/strategic-merge-patch+json" in pod["patch"]["consumes"]
    eviction = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"]["kind"] == "Eviction"


STRING = {"type": "string"}
CONVERSIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string", "default": "a", "pattern": "a+"}, {"type": "string", "pattern": "a+"}),
    ({"type": "array", "items": STRING, "nullable": True}, {}),
    ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"x-kubernetes-preserve-unknown-fields": True}),
    (
        {"type": "array", "items": STRING, "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    (
        {"type": "object", "required": ["a", "b"], "properties": {"a": STRING, "b": {**STRING, "nullable": True}}},
        {"type": "object", "required": ["a"], "properties": {"a": STRING, "b": {}}},
    ),
    (
        {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": STRING}},
        {"type": "object", "properties": {"a": STRING}},
    ),
    ({"x-kubernetes-int-or-string": True, "anyOf": [STRING]}, {"x-kubernetes-int-or-string": True}),
    ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
]


@pytest.mark.parametrize(("schema", "expected"), CONVERSIONS)
def test_schemas_of_crds_are_converted_as_kubernetes_converts_them(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert to_swagger_schema(schema) == expected


def test_the_protobuf_form_says_the_same(document: dict[str, Any]) -> None:
    message = fields(encode_document(document))
    assert message[1] == [b"2.0"]
    definitions = entries(fields(message[9][0])[1])
    assert list(definitions) == list(document["definitions"])
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert fields(pod[22][0])[1] == [b"object"]
    assert list(entries(fields(pod[25][0])[1])) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert entries(fields(pod[25][0])[1])["spec"][1] == [b"#/definitions/io.k8s.api.core.v1.PodSpec"]
    extension = entries(pod[31])["x-kubernetes-group-version-kind"]
    assert msgspec.json.decode(extension[2][0]) == [{"group": "", "kind": "Pod", "version": "v1"}]
    paths = entries(fields(message[8][0])[2])
    assert list(paths) == list(document["paths"])
    patch = fields(paths["/api/v1/namespaces/{namespace}/pods/{name}"][8][0])
    bodies: list[bytes] = []
    others: list[bytes] = []
    for parameter in patch[8]:
        content = fields(fields(parameter)[1][0])
        bodies += content.get(1, ())
        others += content.get(2, ())
    assert [fields(body)[2] for body in bodies] == [[b"body"]]
    assert [fields(fields(each)[3][0])[4] for each in others] == [
        [name.encode()] for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]


def test_all_keywords_of_a_crd_can_be_encoded() -> None:
    schema = {
        "type": "object",
        "title": "t",
        "description": "d",
        "enum": [1, "a"],
        "format": "f",
        "pattern": "p",
        "maximum": 10**400,
        "minimum": -1.5,
        "exclusiveMaximum": True,
        "multipleOf": 3,
        "maxLength": 2**70,
        "uniqueItems": False,
        "additionalProperties": False,
        "items": {},
        "example": {"a": [None]},
        "required": ["ä"],
    }
    document = {"swagger": "2.0", "info": {"title": "", "version": ""}, "paths": {}, "definitions": {"a": schema}}
    encoded = encode_document(document)
    [definition] = entries(fields(fields(encoded)[9][0])[1]).values()
    assert definition[3] == [b"t"]
    assert definition[19] == ["ä".encode()]


@pytest.mark.parametrize("accept", [f"{SWAGGER_PROTOBUF}, */*", OLD_SWAGGER_PROTOBUF])
async def test_kubectl_gets_protobuf(server: Served, accept: str) -> None:
    reply, _ = await server.call("GET", "/openapi/v2", accept=accept)
    assert reply.content_type == SWAGGER_PROTOBUF
    first = next(iter_fields(reply.body))
    assert (first[0], as_text(first[1])) == (1, "2.0")
    assert as_bytes(dict(iter_fields(reply.body))[9])


async def test_other_clients_get_json_until_the_kinds_change(server: Served) -> None:
    reply, before = await server.call("GET", "/openapi/v2", accept="*/*")
    again, _ = await server.call("GET", "/openapi/v2/", accept="application/json")
    assert again is reply
    await create_widget_crd(server)
    changed, after = await server.call("GET", "/openapi/v2", accept="application/json;q=0.9")
    assert "org.example.v1.WidgetList" not in before["definitions"]
    assert after["definitions"]["org.example.v1.WidgetList"]["required"] == ["items"]
    assert changed.headers["ETag"] != reply.headers["ETag"]


async def test_other_media_types_and_paths_are_refused(server: Served) -> None:
    reply, status = await server.call("GET", "/openapi/v2", accept="text/html")
    assert (reply.status, status["reason"]) == (406, "NotAcceptable")
    for path in ("/openapi/v2/pods", "/openapi", "/openapi/v3/apis//v1", "/openapi/v3/api/v2"):
        reply, text = await server.call("GET", path, accept="*/*")
        assert (reply.status, text) == (404, b"404 page not found\n")

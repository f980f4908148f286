from __future__ import annotations

import pkgutil
from typing import Any

import msgspec
import pytest

from pliant.embedded.registry.builtin_kinds import builtin_kinds
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.openapi import documents
from pliant.embedded.registry.openapi.definitions import PublishedDefinitions, definition_name
from tests.embedded.crd_examples import make_crd


@pytest.fixture
def registry() -> KindRegistry:
    registry = KindRegistry.with_builtin_kinds()
    registry.register_crd(make_crd())
    return registry


def document(registry: KindRegistry, group: str, version: str) -> dict[str, Any]:
    found = documents.render_openapi_document(registry, group, version)
    assert found is not None
    decoded: dict[str, Any] = msgspec.json.decode(found)
    return decoded


def document_urls(registry: KindRegistry) -> dict[str, str]:
    return {place: entry["serverRelativeURL"] for place, entry in documents.openapi_index(registry)["paths"].items()}


def test_the_index_names_each_document_by_its_content(registry: KindRegistry) -> None:
    before = document_urls(registry)
    assert set(before) == {
        "api/v1",
        "apis/admissionregistration.k8s.io/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/events.k8s.io/v1",
        "apis/example.org/v1",
        "apis/example.org/v1beta1",
        "apis/metrics.k8s.io/v1beta1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/discovery.k8s.io/v1",
        "apis/networking.k8s.io/v1",
        "apis/policy/v1",
        "apis/scheduling.k8s.io/v1",
        "apis/scheduling.volcano.sh/v1beta1",
        "apis/scheduling.x-k8s.io/v1alpha1",
    }
    assert before["api/v1"].startswith("/openapi/v3/api/v1?hash=")
    changed = make_crd()
    changed["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["extra"] = {"type": "string"}
    registry.register_crd(changed)
    after = document_urls(registry)
    assert after["apis/example.org/v1"] != before["apis/example.org/v1"]
    assert after["api/v1"] == before["api/v1"]


def test_equal_catalogs_have_equal_hashes(registry: KindRegistry) -> None:
    other = KindRegistry.with_builtin_kinds()
    other.register_crd(make_crd())
    other.register_crd(make_crd())
    assert document_urls(other) == document_urls(registry)


def test_writes_tell_that_fields_are_validated(registry: KindRegistry) -> None:
    paths = document(registry, "example.org", "v1")["paths"]
    one = paths["/apis/example.org/v1/namespaces/{namespace}/jobs/{name}"]
    many = paths["/apis/example.org/v1/namespaces/{namespace}/jobs"]
    gvk = {"group": "example.org", "version": "v1", "kind": "Job"}
    for operation in (one["patch"], one["put"], many["post"]):
        assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]
        assert operation["x-kubernetes-group-version-kind"] == gvk
    scale = paths["/apis/example.org/v1/namespaces/{namespace}/jobs/{name}/scale"]["patch"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert paths["/apis/example.org/v1/jobs"]["get"]["x-kubernetes-action"] == "list"


def test_schemas_say_which_kind_they_are(registry: KindRegistry) -> None:
    schemas = document(registry, "example.org", "v1")["components"]["schemas"]
    job = schemas["org.example.v1.Job"]
    assert job["x-kubernetes-group-version-kind"] == [{"group": "example.org", "version": "v1", "kind": "Job"}]
    assert job["properties"]["spec"]["properties"]["replicas"]["type"] == "integer"
    assert schemas["org.example.v1.JobList"]["properties"]["items"]["items"] == {
        "$ref": "#/components/schemas/org.example.v1.Job"
    }


@pytest.mark.parametrize(
    "place", [("", "v1"), ("coordination.k8s.io", "v1"), ("apiextensions.k8s.io", "v1"), ("example.org", "v1")]
)
def test_documents_hold_every_reference_they_make(registry: KindRegistry, place: tuple[str, str]) -> None:
    found = document(registry, *place)
    text = msgspec.json.encode(found).decode()
    wanted = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert wanted <= set(found["components"]["schemas"])


def test_an_unserved_version_has_no_document(registry: KindRegistry) -> None:
    assert documents.render_openapi_document(registry, "example.org", "v1alpha1") is None


def test_each_built_in_kind_has_the_definition_that_kubernetes_publishes() -> None:
    published = PublishedDefinitions()
    for kind in builtin_kinds():
        if not kind.is_custom and kind.group != "metrics.k8s.io" and not kind.unsupported_message:
            assert definition_name(kind) in published, f"add {kind.kind} to scripts/update-openapi, and run it"


def test_all_data_about_kubernetes_is_of_one_release() -> None:
    versions = {
        name: msgspec.json.decode(pkgutil.get_data("pliant.schemas", name) or b"")["version"]
        for name in ("kubernetes.json", "openapi.json", "protobuf.json")
    }
    assert len(set(versions.values())) == 1, versions

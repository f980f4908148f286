from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.registry import discovery
from pliant.embedded.registry.kind_registry import KindRegistry
from tests.embedded.crd_examples import make_crd


@pytest.fixture
def registry() -> KindRegistry:
    registry = KindRegistry.with_builtin_kinds()
    registry.register_crd(make_crd())
    return registry


def entry(resources: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    return next(resource for resource in resources if resource[key] == name)


def test_groups_list_their_versions_best_first(registry: KindRegistry) -> None:
    groups = {group["name"]: group for group in discovery.api_group_list(registry)["groups"]}
    built_in, others = list(groups)[:-1], list(groups)[-1:]
    assert {"coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io"} <= set(built_in)
    assert others == ["example.org"]
    assert [version["version"] for version in groups["example.org"]["versions"]] == ["v1", "v1beta1"]
    assert groups["example.org"]["preferredVersion"] == {"groupVersion": "example.org/v1", "version": "v1"}
    alone = discovery.api_group(registry, "example.org")
    assert alone is not None
    assert alone["kind"] == "APIGroup"
    assert discovery.api_group(registry, "nobody.org") is None


def test_resources_come_with_their_subresources(registry: KindRegistry) -> None:
    answer = discovery.api_resource_list(registry, "example.org", "v1")
    assert answer is not None
    assert answer["groupVersion"] == "example.org/v1"
    assert entry(answer["resources"], "name", "jobs")["shortNames"] == ["jb"]
    scale = entry(answer["resources"], "name", "jobs/scale")
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert scale["verbs"] == ["get", "patch", "update"]
    assert discovery.api_resource_list(registry, "example.org", "v9") is None


def test_core_resources_are_listed_without_a_group(registry: KindRegistry) -> None:
    answer = discovery.api_resource_list(registry, "", "v1")
    assert answer is not None
    assert answer["groupVersion"] == "v1"
    assert entry(answer["resources"], "name", "pods/log")["verbs"] == ["get"]
    assert entry(answer["resources"], "name", "pods/binding")["kind"] == "Binding"
    assert entry(answer["resources"], "name", "namespaces")["namespaced"] is False


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_everything_is_told_at_once(registry: KindRegistry, version: str) -> None:
    answer = discovery.aggregated_discovery(registry, is_core=False, version=version)
    assert answer["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    group = next(item for item in answer["items"] if item["metadata"]["name"] == "example.org")
    assert [server["version"] for server in group["versions"]] == ["v1", "v1beta1"]
    job = group["versions"][0]["resources"][0]
    assert job["responseKind"] == {"group": "example.org", "version": "v1", "kind": "Job"}
    assert (job["scope"], job["singularResource"], job["categories"]) == ("Namespaced", "job", ["all"])
    scale = entry(job["subresources"], "subresource", "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_the_core_group_is_told_apart(registry: KindRegistry) -> None:
    answer = discovery.aggregated_discovery(registry, is_core=True)
    assert [server["version"] for server in answer["items"][0]["versions"]] == ["v1"]
    pods = entry(answer["items"][0]["versions"][0]["resources"], "resource", "pods")
    assert pods["shortNames"] == ["po"]
    assert {sub["subresource"] for sub in pods["subresources"]} == {
        "status",
        "log",
        "binding",
        "eviction",
        "exec",
        "attach",
        "ephemeralcontainers",
        "portforward",
    }


def test_versions_are_ranked_as_kubernetes_does() -> None:
    ranked = sorted(["v1alpha1", "v10", "foo", "v1beta2", "v2", "v1", "v1beta1"], key=discovery.version_sort_key)
    assert ranked == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]

"""Creating and changing objects, in the words of the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from pliant.kube.resources import CONFIG_MAPS, CRDS, PODS, SERVICES
from pliant.kube.transport.base import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.embedded.serving import WIDGETS, Served, config, create_widget_crd, pod, service, serving, widget, widget_crd

PATHS = {"ConfigMap": "/api/v1/namespaces/default/configmaps", "Secret": "/api/v1/namespaces/default/secrets"}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


async def test_a_created_object_gets_what_the_server_gives(server: Served) -> None:
    made = await server.client.create(PODS, "default", pod("a"))
    metadata = made["metadata"]
    assert metadata["uid"].count("-") == 4
    assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert int(metadata["resourceVersion"]) == server.api.store.committed.version
    assert metadata["namespace"] == "default"
    spec = made["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["serviceAccountName"] == "default"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert await server.client.get(PODS, "default", "a") == made


async def test_names_are_drawn_from_a_prefix(server: Served) -> None:
    drawn = set()
    for _ in range(5):
        made = await server.client.create(PODS, "default", pod("") | {"metadata": {"generateName": "run-"}})
        drawn.add(made["metadata"]["name"])
    assert len(drawn) == 5
    assert all(name.startswith("run-") and len(name) == 9 for name in drawn)


async def test_a_name_can_be_taken_only_once(server: Served) -> None:
    await server.client.create(PODS, "default", pod("a"))
    with pytest.raises(AlreadyExists) as refused:
        await server.client.create(PODS, "default", pod("a"))
    assert refused.value.message == 'pods "a" already exists'
    assert refused.value.details == {"name": "a", "kind": "pods"}


async def test_what_is_absent_is_said_to_be_absent(server: Served) -> None:
    await create_widget_crd(server)
    with pytest.raises(NotFound, match=r'^pods "x" not found$'):
        await server.client.get(PODS, "default", "x")
    with pytest.raises(NotFound, match=r'^widgets.example.org "x" not found$'):
        await server.client.get(WIDGETS, "default", "x")
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await server.client.create(PODS, "nowhere", pod("a"))


async def test_a_stale_update_conflicts(server: Served) -> None:
    made = await server.client.create(CONFIG_MAPS, "default", config("a", data={"x": "1"}))
    newer = await server.client.replace(CONFIG_MAPS, "default", "a", made | {"data": {"x": "2"}})
    with pytest.raises(Conflict) as refused:
        await server.client.replace(CONFIG_MAPS, "default", "a", made | {"data": {"x": "3"}})
    assert refused.value.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert await server.client.get(CONFIG_MAPS, "default", "a") == newer


async def test_an_update_of_another_incarnation_conflicts(server: Served) -> None:
    made = await server.client.create(CONFIG_MAPS, "default", config("a"))
    made["metadata"] |= {"uid": "another", "resourceVersion": ""}
    with pytest.raises(Conflict, match="UID in precondition: another"):
        await server.client.replace(CONFIG_MAPS, "default", "a", made)


async def test_writing_the_same_again_changes_no_version(server: Served) -> None:
    await create_widget_crd(server)
    made = await server.client.create(WIDGETS, "default", widget("a", size=2))
    assert await server.client.replace(WIDGETS, "default", "a", made) == made
    assert await server.client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}}) == made
    assert await server.client.patch(WIDGETS, "default", "a", {}, subresource="status") == made


async def test_generation_counts_changes_of_the_wish_alone(server: Served) -> None:
    await create_widget_crd(server)
    made = await server.client.create(WIDGETS, "default", widget("a"))
    assert made["metadata"]["generation"] == 1
    labelled = await server.client.patch(WIDGETS, "default", "a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    noted = await server.client.patch(WIDGETS, "default", "a", {"status": {"phase": "On"}}, subresource="status")
    assert noted["metadata"]["generation"] == 1
    grown = await server.client.patch(WIDGETS, "default", "a", {"spec": {"size": 5}})
    assert grown["metadata"]["generation"] == 2
    assert grown["status"] == {"phase": "On"}


async def test_each_endpoint_changes_only_its_own_part(server: Served) -> None:
    await create_widget_crd(server)
    made = await server.client.create(WIDGETS, "default", widget("a") | {"status": {"phase": "Faked"}})
    assert "status" not in made
    both = {"spec": {"size": 9}, "status": {"phase": "On"}}
    noted = await server.client.patch(WIDGETS, "default", "a", both, subresource="status")
    assert (noted["spec"]["size"], noted["status"]) == (1, {"phase": "On"})
    grown = await server.client.patch(WIDGETS, "default", "a", both | {"status": {"phase": "Off"}})
    assert (grown["spec"]["size"], grown["status"]) == (9, {"phase": "On"})


async def test_what_the_server_owns_cannot_be_rewritten(server: Served) -> None:
    made = await server.client.create(CONFIG_MAPS, "default", config("a"))
    theirs = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    assert await server.client.patch(CONFIG_MAPS, "default", "a", {"metadata": theirs}) == made
    deletion = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
    with pytest.raises(Invalid, match=r"metadata\.deletionTimestamp: Invalid value"):
        await server.client.patch(CONFIG_MAPS, "default", "a", deletion)


async def test_a_patch_that_names_a_version_is_bound_to_it(server: Served) -> None:
    made = await server.client.create(CONFIG_MAPS, "default", config("a"))
    bound = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "1"}}
    await server.client.patch(CONFIG_MAPS, "default", "a", bound)
    with pytest.raises(Conflict, match="has been modified"):
        await server.client.patch(CONFIG_MAPS, "default", "a", bound | {"data": {"x": "2"}})


async def test_patches_come_in_three_kinds(server: Served) -> None:
    await server.client.create(PODS, "default", pod("a", labels={"x": "1", "y": "2"}))
    patch = [{"op": "replace", "path": "/metadata/labels/x", "value": "3"}]
    await server.client.patch(PODS, "default", "a", patch, content_type=JSON_PATCH)
    await server.client.patch(PODS, "default", "a", {"metadata": {"labels": {"y": None}}}, content_type=MERGE_PATCH)
    image = {"spec": {"containers": [{"name": "main", "image": "new"}]}}
    made = await server.client.patch(PODS, "default", "a", image, content_type=STRATEGIC_MERGE_PATCH)
    assert made["metadata"]["labels"] == {"x": "3"}
    assert made["spec"]["containers"][0]["command"] == ["true"]
    assert made["spec"]["containers"][0]["image"] == "new"


async def test_patches_it_cannot_read_are_refused_by_media_type(server: Served) -> None:
    await create_widget_crd(server)
    await server.client.create(WIDGETS, "default", widget("a"))
    path = WIDGETS.path("default", "a")
    for media in (STRATEGIC_MERGE_PATCH, "text/plain"):
        reply, status = await server.call("PATCH", path, {}, media=media)
        assert (reply.status, status["reason"]) == (415, "UnsupportedMediaType")


async def test_unknown_fields_are_refused_warned_of_or_ignored(server: Served) -> None:
    await create_widget_crd(server)
    path = WIDGETS.path("default")
    reply, status = await server.call("POST", path, widget("a", sizee=1), fieldValidation="Strict")
    assert reply.status == 400
    assert status["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.sizee"'
    )
    reply, made = await server.call("POST", path, widget("b", sizee=1))
    assert reply.headers["Warning"] == r'299 - "unknown field \"spec.sizee\""'
    assert made["spec"] == {"size": 1}
    reply, _ = await server.call("POST", path, widget("c", sizee=1), fieldValidation="Ignore")
    assert (reply.status, reply.headers) == (201, {})


async def test_an_object_that_breaks_its_schema_is_refused_field_by_field(server: Served) -> None:
    await create_widget_crd(server)
    with pytest.raises(Invalid) as refused:
        await server.client.create(WIDGETS, "default", widget("a", size=-1, colour="blue"))
    assert refused.value.message.startswith('Widget.example.org "a" is invalid: [')
    assert {cause["field"] for cause in refused.value.details["causes"]} == {"spec.size", ".spec.size", "spec.colour"}
    with pytest.raises(Invalid, match=r"spec.size"):
        await server.client.create(WIDGETS, "default", widget("a", size=-1))


async def test_names_and_kinds_must_fit_the_path(server: Served) -> None:
    for name in ("Upper", "under_score", "-dash"):
        with pytest.raises(Invalid, match=r"metadata.name: Invalid value"):
            await server.client.create(PODS, "default", pod(name))
    with pytest.raises(Invalid, match="name or generateName is required"):
        await server.client.create(PODS, "default", pod(""))
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        await server.client.create(PODS, "default", pod("a", namespace="other"))
    with pytest.raises(BadRequest, match='ConfigMap in version "v1" cannot be handled as a Pod'):
        await server.client.create(PODS, "default", config("a"))
    made = await server.client.create(CONFIG_MAPS, "default", config("a"))
    with pytest.raises(BadRequest, match="does not match the name on the URL"):
        await server.client.replace(CONFIG_MAPS, "default", "b", made)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"kind":"Secret"}', b"[" * 100_000])
async def test_nonsense_is_a_bad_request(server: Served, body: bytes) -> None:
    reply, status = await server.call("POST", PODS.path("default"), body)
    assert (reply.status, status["reason"]) == (400, "BadRequest")


async def test_yaml_is_read_but_not_its_aliases(server: Served) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: '2030-01-01'}\n"
    reply, made = await server.call("POST", CONFIG_MAPS.path("default"), text, media="application/yaml")
    assert (reply.status, made["data"]) == (201, {"day": "2030-01-01"})
    bomb = b"a: &a [1]\nb: [*a, *a]\n"
    reply, status = await server.call("POST", CONFIG_MAPS.path("default"), bomb, media="application/yaml")
    assert reply.status == 400
    assert "aliases" in status["message"]


@pytest.mark.parametrize(
    "body", [b"[" * 30_000 + b"]" * 30_000, b"[" * 100_000, b"a: " + b"{b: " * 5_000, b"- " * 5_000 + b"x"]
)
async def test_yaml_that_is_nested_deeply_is_refused(server: Served, body: bytes) -> None:
    reply, status = await server.call("POST", CONFIG_MAPS.path("default"), body, media="application/yaml")
    assert (reply.status, status["reason"]) == (400, "BadRequest")
    assert "nested more than 200 levels" in status["message"]


async def test_a_definition_that_is_nested_too_deep_is_refused_and_not_stored(server: Served) -> None:
    crd = widget_crd()
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(240):
        schema = {"type": "object", "properties": {"a": schema}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["deep"] = schema
    reply, status = await server.call("POST", CRDS.path(None), crd)
    assert (reply.status, status["reason"]) == (400, "BadRequest")
    assert "nested more than 200 levels" in status["message"]
    _, found = await server.call("GET", CRDS.path(None))
    assert found["items"] == []


@pytest.mark.parametrize("key", ["../../x", "/etc/x", "a\0b", "", ".", "..", "..x", "a b", "x" * 254])
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_keys_that_are_no_file_names_are_refused(server: Served, kind: str, key: str) -> None:
    path = PATHS[kind]
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "data": {key: "YQ=="}}
    reply, status = await server.call("POST", path, body)
    assert (reply.status, status["details"]["causes"][0]["field"]) == (422, f"data[{key}]")
    body["data"] = {"a..b_C-9": "YQ=="}
    assert (await server.call("POST", path, body))[0].status == 201
    reply, _ = await server.call("PATCH", f"{path}/a", {"data": {key: "YQ=="}}, media="application/merge-patch+json")
    assert reply.status == 422


async def test_a_config_map_holds_a_mebibyte_and_each_key_once(server: Served) -> None:
    reply, _ = await server.call("POST", PATHS["ConfigMap"], config("a", data={"x": "y" * (1 << 20)}))
    assert reply.status == 201
    reply, status = await server.call("POST", PATHS["ConfigMap"], config("b", data={"x": "y" * (1 << 20), "z": "1"}))
    assert (reply.status, "1048576 bytes" in status["message"]) == (422, True)
    twice = {**config("c", data={"x": "y"}), "binaryData": {"x": "YQ=="}}
    reply, status = await server.call("POST", PATHS["ConfigMap"], twice)
    assert (reply.status, "duplicate of key" in status["message"]) == (422, True)


async def test_a_dry_run_answers_and_keeps_nothing(server: Served) -> None:
    version = server.api.store.committed.version
    reply, made = await server.call("POST", SERVICES.path("default"), service("a"), dryRun="All")
    assert (reply.status, made["metadata"]["name"]) == (201, "a")
    assert server.api.store.committed.version == version
    await server.client.create(CONFIG_MAPS, "default", config("a"))
    reply, _ = await server.call("DELETE", CONFIG_MAPS.path("default", "a"), dryRun="All")
    assert reply.status == 200
    await server.client.get(CONFIG_MAPS, "default", "a")


@pytest.mark.parametrize("nonsense", [[], {}, ["1"], True])
async def test_what_is_no_amount_is_refused_by_name(server: Served, nonsense: object) -> None:
    body = pod("x")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": nonsense}}
    reply, status = await server.call("POST", PODS.path("default"), body)
    assert reply.status == 400
    assert "spec.containers[0].resources.limits[cpu]: must be a quantity" in status["message"]


PATHS_OF_PODS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"configMap": {"items": [{"key": "k", "path": "../x"}]}}, {}, "configMap.items[0].path"),
    ({"configMap": {"items": [{"key": "k", "path": "/etc/passwd"}]}}, {}, "configMap.items[0].path"),
    ({"secret": {"items": [{"key": "k", "path": "..x"}]}}, {}, "secret.items[0].path"),
    ({"downwardAPI": {"items": [{"path": "a/../../x"}]}}, {}, "downwardAPI.path"),
    ({"projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}}, {}, "projected.path"),
    ({"projected": {"sources": [{"configMap": {"items": [{"key": "k", "path": "/x"}]}}]}}, {}, "items[0].path"),
    ({"hostPath": {"path": "/a/../b"}}, {}, "hostPath.path"),
    ({"emptyDir": {}}, {"subPath": "../x"}, "volumeMounts.subPath"),
    ({"emptyDir": {}}, {"subPath": "/x"}, "volumeMounts.subPath"),
    ({"emptyDir": {}}, {"subPath": "a\0b"}, "volumeMounts.subPath"),
    ({"emptyDir": {}}, {"subPathExpr": "$(A)/../x"}, "volumeMounts.subPathExpr"),
    ({"emptyDir": {}}, {"subPath": "a", "subPathExpr": "b"}, "volumeMounts[0].subPathExpr"),
]


@pytest.mark.parametrize(("source", "mount", "field"), PATHS_OF_PODS)
async def test_a_path_that_leads_outside_its_volume_is_refused_by_name(
    server: Served, source: dict[str, Any], mount: dict[str, Any], field: str
) -> None:
    body = pod()
    body["spec"]["volumes"] = [{"name": "v", **source}]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v", **mount}]
    reply, status = await server.call("POST", "/api/v1/namespaces/default/pods", body)
    assert reply.status == 422, status
    assert any(cause["field"].endswith(field) for cause in status["details"]["causes"])

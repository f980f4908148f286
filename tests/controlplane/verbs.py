"""What two API servers should answer alike about any kind, verb by verb."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.kube.transport.base import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.controlplane.exchange import IN, PARTIAL, SPACE, TABLE, Exchange, config_map


def verb_exchanges() -> Iterator[Exchange]:
    """All of them, in order."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    yield Exchange("make a namespace", "POST", "/api/v1/namespaces", namespace)
    yield from _plain()
    yield from _patches()
    yield from _lists()
    yield from _watches()
    yield from _deletions()


def _plain() -> Iterator[Exchange]:
    maps, one = f"{IN}/configmaps", f"{IN}/configmaps/m"
    yield Exchange("create", "POST", maps, config_map())
    yield Exchange("create what exists", "POST", maps, config_map())
    yield Exchange("create by prefix", "POST", maps, {**config_map(), "metadata": {"generateName": "x-"}})
    yield Exchange("create without a name", "POST", maps, {**config_map(), "metadata": {}})
    yield Exchange("create with a bad name", "POST", maps, config_map("Bad_Name"))
    yield Exchange("create with bad labels", "POST", maps, config_map("n", labels={"a b": "c d"}))
    yield Exchange("create elsewhere", "POST", maps, config_map("n", namespace="other"))
    yield Exchange("create in no namespace", "POST", "/api/v1/namespaces/none/configmaps", config_map("n"))
    yield Exchange("create another kind", "POST", maps, {**config_map("n"), "kind": "Secret"})
    yield Exchange("create what the path names", "POST", maps, {"metadata": {"name": "unnamed"}})
    yield Exchange(
        "create without apiVersion", "POST", maps, {"kind": "ConfigMap", "metadata": {"name": "unversioned"}}
    )
    yield Exchange("create with a version", "POST", maps, config_map("n", resourceVersion="7"))
    yield Exchange("create from nonsense", "POST", maps, b"{nonsense")
    yield Exchange("create from a list", "POST", maps, [])
    yield Exchange("create with a wrong type", "POST", maps, {**config_map("n"), "data": {"a": 1}})
    unknown = {**config_map("n"), "dta": {}}
    yield Exchange("unknown field, strict", "POST", maps, unknown, {"fieldValidation": "Strict"})
    yield Exchange("unknown field, ignored", "POST", maps, unknown, {"fieldValidation": "Ignore", "dryRun": "All"})
    yield Exchange("bad field validation", "POST", maps, config_map("n"), {"fieldValidation": "Sometimes"})
    yield Exchange("bad dry run", "POST", maps, config_map("n"), {"dryRun": "Some"})
    yield Exchange("bad form", "POST", maps, b"a: 1", media="text/plain")
    yield Exchange("get", "GET", one)
    yield Exchange("get as table", "GET", one, accept=TABLE)
    yield Exchange("get as metadata", "GET", one, accept=PARTIAL)
    yield Exchange("get nothing", "GET", f"{maps}/none")
    yield Exchange("replace", "PUT", one, {**config_map(), "data": {"c": "3"}})
    yield Exchange("replace at this version", "PUT", one, config_map(resourceVersion="{version}"))
    yield Exchange("replace at an old version", "PUT", one, config_map(resourceVersion="1"))
    yield Exchange("replace by another name", "PUT", one, config_map("other"))
    yield Exchange("replace nothing", "PUT", f"{maps}/none", config_map("none"))
    yield Exchange("replace another's uid", "PUT", one, config_map(uid="1234"))


def _patches() -> Iterator[Exchange]:
    one = f"{IN}/configmaps/m"
    yield Exchange("merge", "PATCH", one, {"data": {"d": "4", "a": None}}, media=MERGE_PATCH)
    yield Exchange("merge nothing", "PATCH", one, {}, media=MERGE_PATCH)
    yield Exchange("merge a name", "PATCH", one, {"metadata": {"name": "z"}}, media=MERGE_PATCH)
    yield Exchange("merge an old version", "PATCH", one, {"metadata": {"resourceVersion": "1"}}, media=MERGE_PATCH)
    yield Exchange("merge another's uid", "PATCH", one, {"metadata": {"uid": "1234"}}, media=MERGE_PATCH)
    yield Exchange("merge a wrong type", "PATCH", one, {"data": [1]}, media=MERGE_PATCH)
    yield Exchange("merge a list", "PATCH", one, [1], media=MERGE_PATCH)
    yield Exchange("merge into nothing", "PATCH", f"{IN}/configmaps/none", {"data": {}}, media=MERGE_PATCH)
    strict = {"fieldValidation": "Strict"}
    yield Exchange("merge an unknown field", "PATCH", one, {"dta": {}}, strict, media=MERGE_PATCH)
    steps = [{"op": "test", "path": "/data/d", "value": "4"}, {"op": "add", "path": "/data/e", "value": "5"}]
    yield Exchange("steps", "PATCH", one, steps, media=JSON_PATCH)
    yield Exchange("steps that fail", "PATCH", one, [{**steps[0], "value": "0"}], media=JSON_PATCH)
    yield Exchange("steps to nowhere", "PATCH", one, [{"op": "remove", "path": "/x/y"}], media=JSON_PATCH)
    yield Exchange("steps of nonsense", "PATCH", one, {"op": "add"}, media=JSON_PATCH)
    yield Exchange("strategic", "PATCH", one, {"data": {"f": "6"}}, media=STRATEGIC_MERGE_PATCH)
    yield Exchange("an unknown patch", "PATCH", one, {}, media="application/nonsense")


def _lists() -> Iterator[Exchange]:
    maps = f"{IN}/configmaps"
    for name in ("l1", "l2", "l3"):
        yield Exchange(f"create {name}", "POST", maps, config_map(name, labels={"n": name, "all": "yes"}))
    for title, query in {
        "all": {"fieldSelector": "metadata.name!=kube-root-ca.crt"},
        "by label": {"labelSelector": "all=yes"},
        "by labels": {"labelSelector": "n in (l1,l2),all"},
        "by absence": {"labelSelector": "!all", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
        "by bad label": {"labelSelector": "a=="},
        "by name": {"fieldSelector": "metadata.name=l1"},
        "by not name": {"fieldSelector": "metadata.name!=l1", "labelSelector": "all"},
        "by bad field": {"fieldSelector": "data.a=1"},
        "by nonsense field": {"fieldSelector": "nonsense"},
        "a page": {"limit": "2", "labelSelector": "all"},
        "a bad page": {"limit": "x"},
        "a bad rest": {"continue": "nonsense"},
        "a bad version": {"resourceVersion": "x"},
        "version 0": {"resourceVersion": "0", "labelSelector": "all"},
        "a match without a version": {"resourceVersionMatch": "Exact"},
        "exactly now": {"resourceVersionMatch": "Exact", "resourceVersion": "{version}", "labelSelector": "all"},
        "bad match": {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"},
    }.items():
        yield Exchange(f"list {title}", "GET", maps, query=query)
    yield Exchange("list as table", "GET", maps, query={"labelSelector": "all"}, accept=TABLE)
    yield Exchange("list nowhere", "GET", "/api/v1/namespaces/none/configmaps")
    yield Exchange("list everywhere", "GET", "/api/v1/configmaps", query={"labelSelector": "all"})


def _watches() -> Iterator[Exchange]:
    maps = f"{IN}/configmaps"
    for title, query in {
        "from now": {"resourceVersion": "{version}"},
        "from 0": {"resourceVersion": "0", "labelSelector": "all"},
        "from nowhere": {"labelSelector": "all"},
        "from nonsense": {"resourceVersion": "x"},
        "a bad field": {"fieldSelector": "data.a=1"},
        "with initial events": {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "labelSelector": "all",
        },
        "with initial events, no match": {"sendInitialEvents": "true", "allowWatchBookmarks": "true"},
    }.items():
        yield Exchange(f"watch {title}", "GET", maps, query={"watch": "true", "timeoutSeconds": "1", **query})


def _deletions() -> Iterator[Exchange]:
    maps = f"{IN}/configmaps"
    yield Exchange("delete nothing", "DELETE", f"{maps}/none")
    yield Exchange("delete by a wrong uid", "DELETE", f"{maps}/l1", {"preconditions": {"uid": "1234"}})
    yield Exchange("delete by an old version", "DELETE", f"{maps}/l1", {"preconditions": {"resourceVersion": "1"}})
    yield Exchange("delete in no way", "DELETE", f"{maps}/l1", {"propagationPolicy": "Sideways"})
    yield Exchange("delete, dry", "DELETE", f"{maps}/l1", query={"dryRun": "All"})
    yield Exchange("delete", "DELETE", f"{maps}/l1")
    kept = config_map("kept", finalizers=["example.org/keep"])
    yield Exchange("create with a finalizer", "POST", maps, kept)
    yield Exchange("delete with a finalizer", "DELETE", f"{maps}/kept")
    yield Exchange("delete again", "DELETE", f"{maps}/kept")
    yield Exchange(
        "add a finalizer too late",
        "PATCH",
        f"{maps}/kept",
        {"metadata": {"finalizers": ["b.org/c"]}},
        media=MERGE_PATCH,
    )
    yield Exchange("let go", "PATCH", f"{maps}/kept", {"metadata": {"finalizers": None}}, media=MERGE_PATCH)
    yield Exchange("gone", "GET", f"{maps}/kept")
    yield Exchange("bad finalizer", "POST", maps, config_map("n", finalizers=["short"]))
    yield Exchange("delete many", "DELETE", maps, query={"labelSelector": "all"})

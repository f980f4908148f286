"""Random sequences of requests over a small world: two namespaces, three names, every kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.objects.examples import EXAMPLES, KindExample
from tests.differential.objects.mutations import has_escaped_characters, iterate_paths, mutate
from tests.differential.objects.policies import with_policy
from tests.differential.steps import OTHER_SPACE, PARTIAL, PARTIAL_LIST, SPACE, TABLE, WATCH, Step
from tests.differential.subresource_steps import make_ephemeral_step, make_scale_step, make_status_step

SEQUENCE_LENGTH = 40
_POLICY_SHARE = 0.2
"""How many sequences have a policy that decides about their requests."""
_NAMES = ("one", "two", "three")
_SELECTORS = ("app=web", "app in (web,db),tier", "!app", "app!=web", "tier notin (2)", "a==", "x y", "app,tier=1")
_BAD_QUERIES: tuple[dict[str, str], ...] = (
    {"dryRun": "Some"},
    {"fieldValidation": "Sometimes"},
    {"fieldManager": "x" * 200},
    {"dryRun": "All"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "Ignore"},
    {"pretty": "true"},
)
_LIST_QUERIES: tuple[dict[str, str], ...] = (
    {"limit": "1"},
    {"limit": "1", "continue": "{continue}"},
    {"limit": "x"},
    {"limit": "-1"},
    {"continue": "nonsense"},
    {"resourceVersion": "0"},
    {"resourceVersion": "{now}"},
    {"resourceVersion": "x"},
    {"resourceVersion": "{now}", "resourceVersionMatch": "Exact"},
    {"resourceVersion": "{now}", "resourceVersionMatch": "NotOlderThan"},
    {"resourceVersionMatch": "Exact"},
    {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    {"resourceVersion": "0", "resourceVersionMatch": "Sometimes"},
    {"fieldSelector": "metadata.name=one"},
    {"fieldSelector": "metadata.name!=one"},
    {"fieldSelector": "metadata.namespace=" + SPACE},
    {"fieldSelector": "data.a=1"},
    {"fieldSelector": "spec.colour=red"},
    {"fieldSelector": "spec.enabled=true,spec.level!=2"},
    {"fieldSelector": "spec.host=example.org"},
    {"fieldSelector": "nonsense"},
    {"sendInitialEvents": "true"},
    {},
)


def random_sequence(
    rng: random.Random, length: int = SEQUENCE_LENGTH, examples: Sequence[KindExample] = EXAMPLES
) -> list[Step]:
    """Return a sequence about a few kinds, so that requests meet the objects of earlier ones."""
    chosen = rng.choices(examples, [example.weight for example in examples], k=3)
    steps = [random_step(rng, rng.choice(chosen)) for _ in range(length)]
    has_policies = any(example.kind == "ValidatingAdmissionPolicy" for example in examples)
    return with_policy(rng, steps) if has_policies and rng.random() < _POLICY_SHARE else steps


def random_step(rng: random.Random, example: KindExample) -> Step:
    """Return one request about a kind."""
    verbs = _DRY_VERBS if example.is_dry else _VERBS
    make = rng.choices([verb for verb, _ in verbs], [weight for _, weight in verbs])[0]
    return make(rng, example)


def _space(rng: random.Random) -> str:
    return SPACE if rng.random() < 0.85 else rng.choice((OTHER_SPACE, OTHER_SPACE, "missing"))


def _object_path(rng: random.Random, example: KindExample) -> str:
    return f"{example.collection_path(_space(rng))}/{example.object_name(rng.choice(_NAMES))}"


def _write_query(rng: random.Random, example: KindExample) -> dict[str, str]:
    query = dict(rng.choice(_BAD_QUERIES)) if rng.random() < 0.15 else {}
    return {**query, "dryRun": "All"} if example.is_dry else query


def _make_body(rng: random.Random, example: KindExample, name: str, share: float = 0.45) -> dict[str, Any]:
    body = example.make(rng, name)
    body = mutate(rng, body) if rng.random() < share else body
    if example.api_version.startswith("rbac.") and isinstance(body.get("metadata"), dict):
        # The answer to an update that ends the deletion of a role shows its empty rules as [] or as null.
        body["metadata"].pop("finalizers", None)
    return body


def _create(rng: random.Random, example: KindExample) -> Step:
    body = _make_body(rng, example, rng.choice(_NAMES))
    if rng.random() < 0.05 and example.namespaced:
        return _create_generated(rng, example)
    return Step("POST", example.collection_path(_space(rng)), body, query=_write_query(rng, example))


def _create_generated(rng: random.Random, example: KindExample) -> Step:
    """Create an object under a generated name; such objects are alike, because servers sort them differently."""
    prefix = rng.choice(("zz-", "zz-", "Bad_", "x" * 60))
    body = {"metadata": {"generateName": prefix}, **example.plain_fields()}
    body |= {"apiVersion": example.api_version, "kind": example.kind}
    query = {} if prefix == "zz-" else {"dryRun": "All"}
    return Step("POST", example.collection_path(_space(rng)), body, query=query)


def _update(rng: random.Random, example: KindExample) -> Step:
    path = _object_path(rng, example)
    body = _make_body(rng, example, _NAMES[0], 0.3)
    if isinstance(body.get("metadata"), dict):
        # Not {first}: kube-apiserver may have written the object again for its managers, which the other one has not.
        extra = rng.choice(({}, {"resourceVersion": "{version}"}, {"resourceVersion": "{version}"}))
        if rng.random() < 0.15:
            extra = rng.choice(({"resourceVersion": "1"}, {"uid": "{uid}"}, {"uid": "other"}))
        name = path.rpartition("/")[2] if rng.random() < 0.97 else "another"
        body["metadata"] = {**body["metadata"], "name": name, **extra}
    return Step("PUT", path, body, query=_write_query(rng, example))


def _fragment(rng: random.Random, example: KindExample) -> dict[str, Any]:
    """Return a part of an object for a merge patch, without its type."""
    body = _make_body(rng, example, _NAMES[0], 0.4)
    metadata = body.pop("metadata", None)
    body.pop("apiVersion", None)
    body.pop("kind", None)
    if isinstance(metadata, dict) and rng.random() < 0.3:
        body["metadata"] = {name: value for name, value in metadata.items() if name != "name"}
    if rng.random() < 0.1:
        body["metadata"] = rng.choice(
            (
                {"resourceVersion": "{version}"},
                {"resourceVersion": "1"},
                {"finalizers": None},
                {"labels": {"app": "web"}},
                {"labels": None},
                {"uid": "other"},
                {"name": "another"},
            )
        )
    return body


def _merge_patch(rng: random.Random, example: KindExample) -> Step:
    media = MERGE_PATCH if rng.random() < 0.6 or example.is_custom else STRATEGIC_MERGE_PATCH
    odd: tuple[Any, ...] = ([], [1], {}, "x")
    body = _fragment(rng, example) if rng.random() < 0.95 else rng.choice(odd)
    return Step("PATCH", _object_path(rng, example), body, query=_write_query(rng, example), media=media)


def _json_patch(rng: random.Random, example: KindExample) -> Step:
    source = example.make(rng, _NAMES[0])
    paths = ["/" + "/".join(map(str, path)) for path in iterate_paths(source)]
    values = [1, "x", {}, [], None, {"app": "web"}]
    operations = []
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice([*paths, "/metadata/labels/new", "/metadata/annotations", "/nowhere/x", "/spec/-", "x", ""])
        operation = rng.choice(("add", "add", "remove", "replace", "test", "move", "copy", "nonsense"))
        entry: dict[str, Any] = {"op": operation, "path": path}
        if operation in ("move", "copy"):
            entry["from"] = rng.choice(paths)
        if operation in ("add", "replace", "test"):
            entry["value"] = rng.choice(values) if rng.random() < 0.4 else _value_at(source, path)
        if operation == "test" and has_escaped_characters(entry["value"]):
            continue
        operations.append(entry)
    body: Any = operations if rng.random() < 0.95 else rng.choice(({}, {"op": "add"}, [1], []))
    return Step("PATCH", _object_path(rng, example), body, query=_write_query(rng, example), media=JSON_PATCH)


def _value_at(source: Any, path: str) -> Any:
    for segment in path.split("/")[1:]:
        if isinstance(source, list) and segment.isdigit() and int(segment) < len(source):
            source = source[int(segment)]
        elif isinstance(source, dict) and segment in source:
            source = source[segment]
        else:
            return "x"
    return source


def _apply(rng: random.Random, example: KindExample) -> Step:
    path = _object_path(rng, example)
    body = _make_body(rng, example, _NAMES[0], 0.25)
    if isinstance(body.get("metadata"), dict):
        body["metadata"] = {**body["metadata"], "name": path.rpartition("/")[2]}
    query = {**_write_query(rng, example), "fieldManager": rng.choice(("ada", "bob"))}
    if rng.random() < 0.5:
        query["force"] = rng.choice(("true", "true", "false"))
    if rng.random() < 0.03:
        del query["fieldManager"]
    return Step("PATCH", path, body, query=query, media=APPLY_PATCH)


def _status(rng: random.Random, example: KindExample) -> Step:
    if example.make_status is None:
        return _get(rng, example)
    return make_status_step(rng, example, _object_path(rng, example), _write_query(rng, example))


def _scale(rng: random.Random, example: KindExample) -> Step:
    if not example.has_scale:
        return _list(rng, example)
    return make_scale_step(rng, example, _object_path(rng, example), _write_query(rng, example))


def _get(rng: random.Random, example: KindExample) -> Step:
    accept = rng.choice((TABLE, PARTIAL)) if rng.random() < 0.3 else "application/json"
    query = {"resourceVersion": rng.choice(("0", "{now}", "x"))} if rng.random() < 0.1 else {}
    return Step("GET", _object_path(rng, example), query=query, accept=accept)


def _list(rng: random.Random, example: KindExample) -> Step:
    query = dict(rng.choice(_LIST_QUERIES)) if rng.random() < 0.5 else {}
    if rng.random() < 0.4 or not example.namespaced:
        query["labelSelector"] = rng.choice(_SELECTORS)
    accept = rng.choice((TABLE, PARTIAL_LIST)) if rng.random() < 0.3 else "application/json"
    if not example.namespaced:
        query["fieldSelector"] = f"metadata.name={example.object_name(rng.choice(_NAMES))}"
    return Step("GET", example.collection_path(_space(rng)), query=query, accept=accept)


def _delete_options(rng: random.Random) -> dict[str, Any]:
    return dict(
        rng.choice(
            (
                {"gracePeriodSeconds": 0},
                {"gracePeriodSeconds": 5},
                {"gracePeriodSeconds": -1},
                {"gracePeriodSeconds": "x"},
                {"propagationPolicy": "Background"},
                {"propagationPolicy": "Sideways"},
                {"propagationPolicy": "Background", "orphanDependents": True},
                {"preconditions": {"uid": "{uid}"}},
                {"preconditions": {"uid": "other"}},
                {"preconditions": {"resourceVersion": "{version}"}},
                {"preconditions": {"resourceVersion": "1"}},
                {"dryRun": ["All"]},
                {"dryRun": ["Some"]},
                {"unknown": 1},
            )
        )
    )


def _delete(rng: random.Random, example: KindExample) -> Step:
    body = _delete_options(rng) if rng.random() < 0.5 else None
    return Step("DELETE", _object_path(rng, example), body)


def _delete_collection(rng: random.Random, example: KindExample) -> Step:
    # Pods are refused in a namespace whose default service account was deleted.
    if not example.namespaced or example.kind == "ServiceAccount" or rng.random() < 0.5:
        return _delete(rng, example)
    query = {"labelSelector": rng.choice(_SELECTORS)} if rng.random() < 0.7 else {}
    body = _delete_options(rng) if rng.random() < 0.2 else None
    return Step("DELETE", example.collection_path(), body, query=query)


def _watch(rng: random.Random, example: KindExample) -> Step:
    if not example.namespaced or example.kind == "Event":
        return _get(rng, example)
    query = dict(
        rng.choice(
            (
                {"resourceVersion": "{now}"},
                {"resourceVersion": "{now}", "labelSelector": "app=web"},
                {"resourceVersion": "{now}", "labelSelector": "app in (web,db)"},
                {"resourceVersion": "x"},
                {"resourceVersion": "{now}", "resourceVersionMatch": "Exact"},
                {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
                {"sendInitialEvents": "true"},
                {"labelSelector": "app=web"},
                {"resourceVersion": "0"},
                {},
            )
        )
    )
    return Step(WATCH, example.collection_path(), query=query)


def _pod_action(rng: random.Random, example: KindExample) -> Step:
    """Bind or evict a pod, or debug it."""
    if example.kind != "Pod":
        return _create(rng, example)
    path = _object_path(rng, example)
    if rng.random() < 0.4:
        return make_ephemeral_step(rng, example, path, _write_query(rng, example))
    name = path.rpartition("/")[2]
    if rng.random() < 0.5:
        node: dict[str, Any] = {"kind": "Node", "name": rng.choice(("n1", "n2", ""))}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": node}
        return Step("POST", f"{path}/binding", body)
    options = {"deleteOptions": _delete_options(rng)} if rng.random() < 0.4 else {}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}
    return Step("POST", f"{path}/eviction", body)


_Verb = Callable[[random.Random, KindExample], Step]
_VERBS: tuple[tuple[_Verb, int], ...] = (
    (_create, 30),
    (_update, 12),
    (_merge_patch, 12),
    (_json_patch, 7),
    (_apply, 10),
    (_status, 6),
    (_scale, 4),
    (_get, 5),
    (_list, 8),
    (_delete, 6),
    (_delete_collection, 3),
    (_watch, 3),
    (_pod_action, 5),
)
_DRY_VERBS: tuple[tuple[_Verb, int], ...] = (
    (_create, 8),
    (_get, 1),
    (_apply, 2),
    (_update, 2),
    (_merge_patch, 2),
    (_json_patch, 1),
    (_status, 1),
)

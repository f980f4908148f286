"""Mutations that turn a valid object into one that is almost valid."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

Path = tuple[str | int, ...]

_STRINGS = ("", "Bad_Name!", "-x-", "a b", "x" * 64, "x" * 300, "ä", "1", "a/b", "a/b/c", "a.b", "..", "True", "10Gi")
_NUMBERS = (-1, 0, 1, 2, 65536, 2**31, 2**63, 1.5)
_OTHER_TYPES: tuple[Any, ...] = ("text", 5, True, [], {}, ["x"], {"x": "y"}, 1.5)
_METADATA: tuple[dict[str, Any], ...] = (
    {"labels": {"a b": "c"}},
    {"labels": {"a": "c d"}},
    {"labels": {"example.org/": "x"}},
    {"labels": {"Bad_Prefix/x": "y", "z" * 64: "v" * 64}},
    {"labels": {"a": None}},
    {"annotations": {"a b": "c"}},
    {"annotations": {"UPPER.org/x": "c"}},
    {"finalizers": ["short"]},
    {"finalizers": ["example.org/a", "example.org/a"]},
    {"finalizers": ["bad name/x"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}]},
    {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"]},
    {"namespace": "other"},
    {"uid": "some-uid"},
    {"resourceVersion": "7"},
    {"resourceVersion": "x"},
    {"generateName": "zz-"},
    {"name": None},
    {"name": ""},
    {"name": "Upper"},
    {"name": "a.b"},
    {"name": "1a"},
    {"name": "x" * 64},
    {"name": "x" * 254},
    {"name": "a/b"},
    {"name": "a%b"},
    {"name": ".."},
    {"creationTimestamp": "2000-01-01T00:00:00Z"},
    {"deletionTimestamp": "2000-01-01T00:00:00Z"},
    {"deletionGracePeriodSeconds": 5},
    {"generation": 7},
    {"unknown": 1},
    {"labels": []},
    {"selfLink": "/x"},
)


def mutate(rng: random.Random, obj: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with one or two mutations."""
    result = copy.deepcopy(obj)
    for _ in range(rng.choice((1, 1, 1, 2))):
        if rng.random() < 0.15:
            metadata = result.get("metadata")
            change = copy.deepcopy(rng.choice(_METADATA))
            result["metadata"] = {**metadata, **change} if isinstance(metadata, dict) else change
        else:
            _mutate_somewhere(rng, result)
    _mount_no_token(result)
    return result


def _mount_no_token(obj: dict[str, Any]) -> None:
    """Mount no token into a pod: kube-apiserver adds a volume for it, which the kubelet of Pliant does not need."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and spec.get("automountServiceAccountToken") is True:
        spec["automountServiceAccountToken"] = False


def _mutate_somewhere(rng: random.Random, obj: dict[str, Any]) -> None:
    fields = {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion", "kind")}
    paths = (
        list(iterate_paths(fields))
        if rng.random() < 0.97
        else [(name,) for name in ("apiVersion", "kind", "metadata") if name in obj]
    )
    if not paths:
        obj["unknown"] = 1
        return
    path = rng.choice(paths)
    if path[0] in ("apiVersion", "kind") and "example.org" in str(obj.get("apiVersion")) and "template" in str(fields):
        return  # of an object of another type than its path, kube-apiserver also reports the embedded resources
    change = rng.choice(_CHANGES)
    parent: Any = obj
    for segment in path[:-1]:
        parent = parent[segment]
    change(rng, parent, path[-1])


def has_escaped_characters(value: Any) -> bool:
    """Return whether kube-apiserver, which compares the texts of JSON values in patches, finds a value in no object."""
    return any(character in json.dumps(value) for character in "<>&")


def iterate_paths(value: Any, prefix: Path = ()) -> Any:
    """Yield the paths of all members."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*prefix, key)
        yield from iterate_paths(member, (*prefix, key))


def _remove(rng: random.Random, parent: Any, key: Any) -> None:
    del parent[key]


def _set_null(rng: random.Random, parent: Any, key: Any) -> None:
    parent[key] = None


def _change_type(rng: random.Random, parent: Any, key: Any) -> None:
    parent[key] = copy.deepcopy(rng.choice(_OTHER_TYPES))


def _change_value(rng: random.Random, parent: Any, key: Any) -> None:
    """Replace a value by another one of its type."""
    match parent[key]:
        case bool(flag):
            parent[key] = not flag
        case int() | float():
            parent[key] = rng.choice(_NUMBERS)
        case str():
            parent[key] = rng.choice(_STRINGS)
        case list() as items:
            parent[key] = rng.choice(([], items + copy.deepcopy(items), items[::-1], items * 6))
        case dict() as members:
            parent[key] = rng.choice(({}, {**members, "unknown": 1}, {**members, "bad key!": "x"}, {**members, "": ""}))


def _copy_sibling(rng: random.Random, parent: Any, key: Any) -> None:
    """Give a member the value of another member, or add a twin to a list."""
    if isinstance(parent, dict):
        parent[key] = copy.deepcopy(parent[rng.choice(sorted(parent))])
    else:
        parent.append(copy.deepcopy(parent[key]))


_CHANGES: tuple[Callable[[random.Random, Any, Any], None], ...] = (
    _remove,
    _set_null,
    _change_type,
    _change_value,
    _change_value,
    _change_value,
    _change_value,
    _copy_sibling,
)

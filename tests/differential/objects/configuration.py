"""Random valid objects of the small kinds: configuration, claims, budgets, leases and events."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.steps import SPACE

Fields = dict[str, Any]
_TIME = "2030-01-01T00:00:00Z"
_MICRO_TIME = "2030-01-01T00:00:00.000000Z"


def make_config_map(rng: random.Random) -> Fields:
    fields: Fields = {"data": {key: rng.choice(("1", "two", "")) for key in rng.sample("abc", rng.randrange(4))}}
    if rng.random() < 0.2:
        fields["binaryData"] = rng.choice(({"bin": "AAE="}, {"bin": "", "x.y_z-1": "AAE="}))
    if rng.random() < 0.15:
        fields["immutable"] = rng.choice((True, False))
    return fields


def make_secret(rng: random.Random) -> Fields:
    docker = '{"auths":{"r.example.org":{"auth":"dTpw"}}}'
    kinds: list[Fields] = [
        {"data": {"a": "YQ=="}},
        {"stringData": {"a": "plain"}, "data": {"b": "Yg=="}},
        {"type": "Opaque", "data": {}},
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": "u", "password": "p"}},
        {"type": "kubernetes.io/basic-auth", "data": {"username": ""}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": rng.choice(("{}", docker))}},
        {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{}"}},
        {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": "k"}},
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "c", "tls.key": rng.choice(("k", ""))}},
        {"type": "bootstrap.kubernetes.io/token", "stringData": {"token-id": "abcdef", "token-secret": "0123"}},
        {"type": "kubernetes.io/service-account-token", "data": {"token": "YQ=="}},
        {"type": "example.org/own", "data": {}},
    ]
    return {**rng.choice(kinds), **({"immutable": rng.choice((True, False))} if rng.random() < 0.1 else {})}


def make_service_account(rng: random.Random) -> Fields:
    return rng.choice(
        (
            {},
            {"automountServiceAccountToken": False},
            {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "i"}]},
            {"secrets": [{"name": "s", "kind": "Secret"}, {"name": "t"}], "automountServiceAccountToken": True},
        )
    )


def make_lease(rng: random.Random) -> Fields:
    spec: Fields = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": _MICRO_TIME,
        "acquireTime": "2030-01-01T00:00:00.123456Z",
    }
    chosen = {name: spec[name] for name in rng.sample(sorted(spec), rng.randrange(4))}
    return {"spec": chosen | {"leaseTransitions": rng.choice((0, 1))}}


def make_budget(rng: random.Random) -> Fields:
    selectors: list[Fields] = [
        {"matchLabels": {"app": "web"}},
        {},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}], "matchLabels": {"tier": "1"}},
    ]
    bound = rng.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "10%"}, {"maxUnavailable": 0}))
    if rng.random() < 0.05:
        bound = {"minAvailable": 1, "maxUnavailable": 1}
    policy = rng.choice(({}, {"unhealthyPodEvictionPolicy": rng.choice(("AlwaysAllow", "IfHealthyBudget"))}))
    return {"spec": {"selector": rng.choice(selectors), **bound, **policy}}


def make_budget_status(rng: random.Random) -> Fields:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True",
        "reason": "x",
        "message": "",
        "lastTransitionTime": _TIME,
    }
    more: Fields = rng.choice(
        ({}, {}, {"observedGeneration": 1}, {"disruptedPods": {"p": _TIME}}, {"conditions": [condition]})
    )
    return {**dict.fromkeys(counts, rng.randrange(3)), **more}


def make_claim(rng: random.Random) -> Fields:
    resources: Fields = {"requests": {"storage": rng.choice(("1Gi", "500M", "2Gi"))}}
    if rng.random() < 0.2:
        resources["limits"] = {"storage": "5Gi"}
    modes = rng.choice((["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"], ["ReadWriteOncePod"]))
    options: Fields = {
        "storageClassName": rng.choice(("", "fast")),
        "volumeMode": rng.choice(("Filesystem", "Block")),
        "selector": rng.choice(
            ({"matchLabels": {"a": "b"}}, {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {})
        ),
        "volumeName": "pv",
        # Of this and dataSourceRef, the embedded server cannot know which one a client has set.
        "dataSource": rng.choice(
            (
                {"kind": "PersistentVolumeClaim", "name": "other"},
                {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
            )
        ),
        "volumeAttributesClassName": "gold",
    }
    spec = {"accessModes": modes, "resources": resources}
    return {"spec": spec | {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 0, 1, 2)))}}


def make_claim_status(rng: random.Random) -> Fields:
    condition = {"type": "Resizing", "status": "True", "lastTransitionTime": _TIME}
    return rng.choice(
        (
            {"phase": rng.choice(("Bound", "Pending", "Lost"))},
            {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": rng.choice(("1Gi", "1.5Gi"))}},
            {"conditions": [condition]},
            {"allocatedResources": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}},
        )
    )


def make_namespace_spec(rng: random.Random) -> Fields:
    return rng.choice(({}, {}, {"spec": {"finalizers": ["example.org/keep"]}}))


def make_namespace_status(rng: random.Random) -> Fields:
    condition = {
        "type": "NamespaceContentRemaining",
        "status": "True",
        "reason": "SomeResourcesRemain",
        "lastTransitionTime": _TIME,
    }
    return rng.choice(({"phase": "Active"}, {"conditions": [condition]}, {"phase": "Terminating"}))


def make_event(rng: random.Random) -> Fields:
    about = {"kind": "Pod", "name": "p", "namespace": SPACE, "apiVersion": "v1"}
    options: Fields = {
        "count": 2,
        "source": {"component": "me", "host": "n1"},
        "firstTimestamp": _TIME,
        "lastTimestamp": _TIME,
        "eventTime": _MICRO_TIME,
        "reportingComponent": "example.org/controller",
        "reportingInstance": "c-1",
        "action": "Start",
        "related": {"kind": "Node", "name": "n1"},
        "series": {"count": 2, "lastObservedTime": _MICRO_TIME},
    }
    chosen = {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 1, 1, 4)))}
    return {"involvedObject": about, "reason": "Started", "message": "it did", "type": "Normal", **chosen}


def make_new_event(rng: random.Random) -> Fields:
    """Return an event of events.k8s.io/v1."""
    about = {"kind": "Pod", "name": "p", "namespace": SPACE, "apiVersion": "v1"}
    more = rng.choice(
        (
            {},
            {"note": "it did"},
            {"series": {"count": 2, "lastObservedTime": _MICRO_TIME}},
            {"related": {"kind": "Node"}},
        )
    )
    return {
        "eventTime": _MICRO_TIME,
        "reportingController": "example.org/controller",
        "reportingInstance": "c-1",
        "action": "Start",
        "reason": "Started",
        "type": rng.choice(("Normal", "Warning")),
        "regarding": about,
        **more,
    }


def make_priority_class(rng: random.Random) -> Fields:
    policies: list[Fields] = [
        {},
        {"preemptionPolicy": "Never"},
        {"preemptionPolicy": "PreemptLowerPriority", "description": "text"},
        {"description": "text"},
    ]
    # Without globalDefault: a default class would change the pods of sequences that run at the same time.
    return {"value": rng.choice((0, 5, -5, 1000, 1_000_000_000)), **rng.choice(policies)}

"""Random valid pods."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.objects.containers import make_container, make_init_container
from tests.differential.objects.scheduling import make_scheduling_options
from tests.differential.objects.volumes import make_volumes

Fields = dict[str, Any]


def make_pod_spec(rng: random.Random) -> Fields:
    """Return a random valid spec of a pod."""
    spec: Fields = {"containers": [make_container(rng, "main")]}
    if rng.random() < 0.2:
        spec["containers"].append(make_container(rng, "second"))
    if rng.random() < 0.2:
        spec["initContainers"] = [make_init_container(rng)]
    if rng.random() < 0.5:
        spec |= make_volumes(rng, spec["containers"][0])
    options = _pod_options(rng) | make_scheduling_options(rng)
    for name in rng.sample(sorted(options), rng.choice((0, 0, 1, 1, 2, 3, 4))):
        spec[name] = options[name]
    return spec


def make_overhead(rng: random.Random) -> Fields:
    """Return the overhead of a template; pods have one only if their RuntimeClass has it."""
    choices: tuple[Fields, ...] = ({"cpu": "100m"}, {"memory": "10Mi", "cpu": 1}, {"example.org/dongle": "1"}, {})
    return {"overhead": rng.choice(choices)} if rng.random() < 0.1 else {}


def _pod_options(rng: random.Random) -> Fields:
    return {
        "restartPolicy": rng.choice(("Always", "OnFailure", "Never")),
        "terminationGracePeriodSeconds": rng.choice((0, 5)),
        "activeDeadlineSeconds": 100,
        "hostname": "h",
        "subdomain": "s",
        "setHostnameAsFQDN": rng.choice((True, False)),
        "hostnameOverride": "h",
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "dnsPolicy": rng.choice(("Default", "ClusterFirst", "ClusterFirstWithHostNet")),
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}, {"ip": "10.0.0.2", "hostnames": ["c"]}],
        "hostNetwork": rng.choice((True, False)),
        "hostPID": rng.choice((True, False)),
        "hostIPC": rng.choice((True, False)),
        "hostUsers": rng.choice((True, False)),
        "os": {"name": rng.choice(("linux", "linux", "windows"))},
        "securityContext": _make_security_context(rng),
        "imagePullSecrets": [{"name": "s"}],
        "shareProcessNamespace": True,
        "enableServiceLinks": False,
        "readinessGates": [{"conditionType": "example.org/ready"}],
        "resources": {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1"}},
        "resourceClaims": [{"name": "r", "resourceClaimName": "c"}, {"name": "t", "resourceClaimTemplateName": "t"}],
    }


def _make_security_context(rng: random.Random) -> Fields:
    options: Fields = {
        "runAsUser": rng.choice((0, 1)),
        "runAsGroup": 1,
        "runAsNonRoot": rng.choice((True, False)),
        "fsGroup": 2,
        "fsGroupChangePolicy": rng.choice(("Always", "OnRootMismatch")),
        "supplementalGroups": [1, 2],
        "supplementalGroupsPolicy": rng.choice(("Merge", "Strict")),
        "seLinuxOptions": {"level": "s0", "role": "r", "type": "t", "user": "u"},
        "seLinuxChangePolicy": rng.choice(("MountOption", "Recursive")),
        "seccompProfile": rng.choice(
            ({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a/b"}, {"type": "Unconfined"})
        ),
        "appArmorProfile": rng.choice(
            ({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a"}, {"type": "Unconfined"})
        ),
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}, {"name": "net/core/somaxconn", "value": "1"}],
        "windowsOptions": {"runAsUserName": "ContainerUser"},
    }
    return {name: options[name] for name in rng.sample(sorted(options), rng.randrange(1, 4))}

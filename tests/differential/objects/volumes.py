"""Random valid volumes of pods."""

from __future__ import annotations

import random
from typing import Any

Fields = dict[str, Any]


def make_volumes(rng: random.Random, container: Fields) -> Fields:
    """Return the field `volumes`, and mount all volumes in the container."""
    volumes = [{"name": f"v{index}", **rng.choice(_make_sources(rng))} for index in range(rng.randrange(1, 3))]
    options: tuple[Fields, ...] = (
        {},
        {},
        {"subPath": "a"},
        {"subPathExpr": "$(A)"},
        {"readOnly": True},
        {"mountPropagation": "HostToContainer"},
        {"readOnly": True, "recursiveReadOnly": "IfPossible"},
    )
    container["volumeMounts"] = [
        {"name": volume["name"], "mountPath": f"/mnt/{volume['name']}", **rng.choice(options)} for volume in volumes
    ]
    if rng.random() < 0.1:
        volumes.append({"name": "block", "persistentVolumeClaim": {"claimName": "b"}})
        container["volumeDevices"] = [{"name": "block", "devicePath": "/dev/x"}]
    return {"volumes": volumes}


def _make_sources(rng: random.Random) -> list[Fields]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p/q"}], "defaultMode": 256}},
        {"secret": {"secretName": "s", "optional": True}},
        {"hostPath": {"path": "/tmp"}},
        {"hostPath": {"path": "/tmp", "type": "DirectoryOrCreate"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {
            "downwardAPI": {
                "items": [{"path": "m", "resourceFieldRef": {"resource": "limits.memory", "containerName": "main"}}]
            }
        },
        {"projected": {"sources": _make_projections(rng)}},
        {"projected": {"sources": _make_projections(rng), "defaultMode": 292}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"image": {"reference": "busybox:1", "pullPolicy": "IfNotPresent"}},
        {"nfs": {"server": "s", "path": "/p"}},
        {"csi": {"driver": "csi.example.org", "volumeAttributes": {"a": "b"}}},
        {"iscsi": {"targetPortal": "1.1.1.1", "iqn": "iqn.2000-01.org.example:x", "lun": 1}},
        {"fc": {"targetWWNs": ["w"], "lun": 1}},
        {"cephfs": {"monitors": ["m"]}},
        {"rbd": {"monitors": ["m"], "image": "i"}},
        {"gcePersistentDisk": {"pdName": "p"}},
        {"awsElasticBlockStore": {"volumeID": "v"}},
        {"azureFile": {"secretName": "s", "shareName": "n"}},
        {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x"}},
    ]


def _make_projections(rng: random.Random) -> list[Fields]:
    projections: list[Fields] = [
        {"configMap": {"name": "c"}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "x", "mode": 256}], "optional": True}},
        {"secret": {"name": "s", "items": [{"key": "k", "path": "y"}]}},
        {"downwardAPI": {"items": [{"path": "z", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "t"}},
        {"serviceAccountToken": {"path": "u", "audience": "a", "expirationSeconds": 700}},
        {"clusterTrustBundle": {"name": "b", "path": "b.pem"}},
        {"clusterTrustBundle": {"signerName": "example.org/x", "labelSelector": {}, "path": "c.pem"}},
    ]
    return rng.sample(projections, rng.randrange(1, 4))

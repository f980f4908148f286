from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.kubelet.environment.variables import UnsupportedPodSpec
from pliant.embedded.kubelet.volumes.pod_volumes import PreparedVolume, container_volume_mounts


def mounted(laid: PreparedVolume, **wanted: Any) -> dict[str, Any]:
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data", **wanted}]}
    [mount] = container_volume_mounts(container, {"data": laid}, {"RANK": "3"})
    return dict(mount)


@pytest.mark.parametrize(
    ("volume", "mount", "expected"),
    [(False, {}, False), (False, {"readOnly": True}, True), (True, {}, True), (True, {"readOnly": False}, True)],
)
def test_a_mount_is_read_only_if_it_or_its_volume_says_so(
    tmp_path: Path, volume: bool, mount: dict[str, bool], expected: bool
) -> None:
    assert mounted(PreparedVolume(path=tmp_path, readonly=volume), **mount)["readonly"] is expected
    assert mounted(PreparedVolume(memory_name="volume-data", readonly=volume), **mount)["readonly"] is expected


def test_a_sub_path_is_made_inside_its_volume(tmp_path: Path) -> None:
    assert mounted(PreparedVolume(path=tmp_path), subPathExpr="rank-$(RANK)")["source"] == str(tmp_path / "rank-3")
    assert (tmp_path / "rank-3").is_dir()
    with pytest.raises(UnsupportedPodSpec, match="must not contain"):
        mounted(PreparedVolume(path=tmp_path), subPath="../elsewhere")


def test_a_mount_of_an_unknown_volume_is_refused() -> None:
    with pytest.raises(UnsupportedPodSpec, match="no volume 'data'"):
        list(container_volume_mounts({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, {}, {}))

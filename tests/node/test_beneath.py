"""Files that are written for a pod stay below the directory of the pod, whatever the pod has put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pliant.embedded.kubelet.environment.variables import UnsupportedPodSpec
from pliant.embedded.kubelet.volumes.beneath import remove_other_files, write_file


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "a\0b"])
def test_a_path_that_leads_outside_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "volume"
    root.mkdir()
    with pytest.raises(UnsupportedPodSpec, match="must be relative"):
        write_file(root, path, b"content", 0o644)
    assert [each.name for each in tmp_path.rglob("*")] == ["volume"]


def test_a_directory_that_was_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "volume", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "a").symlink_to(outside)
    with pytest.raises(OSError, match="a"):
        write_file(root, "a/key", b"content", 0o644)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["key", ".key.new"])
def test_a_link_in_place_of_a_file_is_replaced_and_its_target_left_alone(tmp_path: Path, name: str) -> None:
    root, target = tmp_path / "volume", tmp_path / "target"
    root.mkdir()
    target.write_text("mine")
    (root / name).symlink_to(target)
    write_file(root, "key", b"content", 0o640)
    assert ((root / "key").read_bytes(), (root / "key").is_symlink(), target.read_text()) == (b"content", False, "mine")
    assert (root / "key").stat().st_mode & 0o777 == 0o640


def test_a_pipe_in_place_of_a_file_delays_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    write_file(tmp_path, "key", b"content", 0o644)
    assert (tmp_path / "key").read_bytes() == b"content"


def test_other_files_are_removed_but_not_those_behind_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "volume", tmp_path / "outside"
    for folder in (root / "deep", outside):
        folder.mkdir(parents=True)
        (folder / "key").touch()
        (folder / "other").touch()
    (root / "link").symlink_to(outside)
    remove_other_files(root, {"deep/key"})
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["deep", "deep/key", "link"]
    assert sorted(path.name for path in outside.iterdir()) == ["key", "other"]

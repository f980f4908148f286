"""Sets the directory in which the programs of jobs start on a local cluster, as an annotation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pliant.cli.input.local_cluster_options import check_utf8_path
from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest
from pliant.model.labels import WORKSPACE_ANNOTATION


def with_workspace(manifests: Iterable[Manifest], workspace: Path, *, overwrite: bool) -> list[Manifest]:
    """Return the manifests with the annotation on jobs; without `overwrite`, not on those that have one."""
    check_utf8_path(workspace)
    return [_with_workspace(manifest, workspace, overwrite=overwrite) for manifest in manifests]


def _with_workspace(manifest: Manifest, workspace: Path, *, overwrite: bool) -> Manifest:
    metadata = manifest.raw["metadata"]
    annotations = metadata.get("annotations") or {}
    if frontend_of(manifest) is None or (WORKSPACE_ANNOTATION in annotations and not overwrite):
        return manifest
    annotations = {**annotations, WORKSPACE_ANNOTATION: str(workspace)}
    return replace(manifest, raw={**manifest.raw, "metadata": {**metadata, "annotations": annotations}})

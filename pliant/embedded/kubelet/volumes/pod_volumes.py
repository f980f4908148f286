"""Prepare the volumes of a pod as directories, and resolve the volume mounts of its containers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.kubelet.environment import variables
from pliant.embedded.kubelet.environment.variables import (
    CONFIG_MAP_KIND,
    SECRET_KIND,
    MissingConfig,
    ResolvedPod,
    UnsupportedPodSpec,
)
from pliant.embedded.kubelet.volumes import beneath

_DEFAULT_FILE_MODE = 0o644
_GENERATED_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
_REFRESHED_SOURCES = ("configMap", "secret", "projected")

VolumeFile = tuple[str, tuple[bytes, int]]
"""The path, content and mode of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVolume:
    """A volume that is ready: a path on the host, or a directory in the memory of the pod."""

    path: Path | None = None
    memory_name: str = ""
    readonly: bool = False
    is_pod_owned: bool = True


PreparedVolumes = Mapping[str, PreparedVolume]
"""Volumes by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLocations:
    """Where the volumes of a pod are created."""

    volumes_dir: Path
    host_path_roots: Sequence[Path]
    """The directories that hostPath volumes may use."""
    claims_dir: Path
    rewrite_hostnames: Callable[[bytes], bytes]
    """Applied to the content of generated files."""


def prepare_volumes(resolved_pod: ResolvedPod, locations: VolumeLocations) -> PreparedVolumes:
    """Prepare all volumes of a pod and return them by name."""
    volumes: dict[str, PreparedVolume] = {}
    for volume in resolved_pod.pod["spec"].get("volumes") or ():
        failure = f'MountVolume.SetUp failed for volume "{volume["name"]}"'
        try:
            volumes[volume["name"]] = _prepare_volume(volume, resolved_pod, locations)
        except MissingConfig as error:
            raise MissingConfig(error.kind, error.name, f"{failure} : {error}") from error
        except UnsupportedPodSpec as error:
            raise UnsupportedPodSpec(f"{failure} : {error}") from error
    return volumes


def refresh_config_volumes(resolved_pod: ResolvedPod, locations: VolumeLocations) -> None:
    """Update the files of ConfigMap, Secret and projected volumes."""
    for volume in resolved_pod.pod["spec"].get("volumes") or ():
        if any(volume.get(source) is not None for source in _REFRESHED_SOURCES):
            _write_files(locations, volume, _volume_files(volume, resolved_pod))


def container_volume_mounts(
    container: Mapping[str, Any], prepared_volumes: PreparedVolumes, env: Mapping[str, str]
) -> Iterator[Mount]:
    """Yield the volume mounts of a container."""
    for mount in container.get("volumeMounts") or ():
        volume = prepared_volumes.get(mount["name"])
        if volume is None:
            raise UnsupportedPodSpec(f"volumeMounts: the pod has no volume {mount['name']!r}")
        sub_path = variables.expand_variables(mount.get("subPathExpr") or "", env) or mount.get("subPath") or ""
        variables.validate_relative_path(sub_path)
        readonly = volume.readonly or bool(mount.get("readOnly"))
        target = str(PurePosixPath("/", mount["mountPath"]))
        if volume.path is None:
            memory_name = str(PurePosixPath(volume.memory_name, sub_path))
            yield Mount(target=target, memory_name=memory_name, readonly=readonly, pod_owned=True)
        else:
            mount_of = Mount(target=target, source=str(volume.path), readonly=readonly, pod_owned=volume.is_pod_owned)
            if sub_path:
                root = volume.path.resolve()
                mount_of["source"] = str(_resolve_sub_path(root, sub_path, readonly=volume.readonly))
                mount_of["beneath"] = str(root)
            yield mount_of


def remove_forcibly(directory: Path) -> None:
    """Remove a directory tree, even if a pod has made parts of it unreadable."""

    def make_writable_and_remove(function: Any, path: str, _: object) -> None:
        Path(path).parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    if directory.exists():
        shutil.rmtree(directory, onerror=make_writable_and_remove)


def _prepare_volume(volume: Mapping[str, Any], resolved_pod: ResolvedPod, locations: VolumeLocations) -> PreparedVolume:
    name = volume["name"]
    if (empty_dir := volume.get("emptyDir")) is not None:
        if empty_dir.get("medium") == "Memory":
            return PreparedVolume(memory_name=f"volume-{name}")
        return PreparedVolume(path=beneath.make_directory(locations.volumes_dir, name))
    if (host_path := volume.get("hostPath")) is not None:
        return PreparedVolume(path=_resolve_host_path(host_path, locations.host_path_roots), is_pod_owned=False)
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        data = variables.require_config_data(variables.VOLUME_CLAIM_KIND, {"name": claim["claimName"]}, resolved_pod)
        claim_dir = beneath.make_directory(locations.claims_dir, data[variables.CLAIM_UID_KEY].decode())
        return PreparedVolume(path=claim_dir, readonly=bool(claim.get("readOnly")))
    if not any(volume.get(source) is not None for source in _GENERATED_SOURCES):
        source = next((key for key in volume if key != "name"), "no source")
        raise UnsupportedPodSpec(f"{source} is not supported: use emptyDir, persistentVolumeClaim or hostPath")
    _write_files(locations, volume, _volume_files(volume, resolved_pod))
    return PreparedVolume(path=locations.volumes_dir / name, readonly=True)


def _volume_files(volume: Mapping[str, Any], resolved_pod: ResolvedPod) -> Iterator[VolumeFile]:
    """Yield the files of a ConfigMap, Secret, downward API or projected volume."""
    for kind, field, name in ((CONFIG_MAP_KIND, "configMap", "name"), (SECRET_KIND, "secret", "secretName")):
        if (source := volume.get(field)) is not None:
            reference = {**source, "name": source.get(name, "")}
            yield from _files_from_keys(kind, reference, resolved_pod, source.get("defaultMode"))
    if (source := volume.get("downwardAPI")) is not None:
        yield from _downward_api_files(source, resolved_pod, source.get("defaultMode"))
    projected = volume.get("projected") or {}
    mode = projected.get("defaultMode")
    for source in projected.get("sources") or ():
        for kind, field in ((CONFIG_MAP_KIND, "configMap"), (SECRET_KIND, "secret")):
            if (reference := source.get(field)) is not None:
                yield from _files_from_keys(kind, reference, resolved_pod, mode)
        if (downward_api := source.get("downwardAPI")) is not None:
            yield from _downward_api_files(downward_api, resolved_pod, mode)


def _files_from_keys(
    kind: str, reference: Mapping[str, Any], resolved_pod: ResolvedPod, mode: int | None
) -> Iterator[VolumeFile]:
    data = variables.require_config_data(kind, reference, resolved_pod)
    default_mode = _DEFAULT_FILE_MODE if mode is None else mode
    items = reference.get("items")
    if items is None:
        yield from ((key, (value, default_mode)) for key, value in data.items())
        return
    for item in items:
        if item["key"] in data:
            yield variables.validate_relative_path(item["path"]), (data[item["key"]], item.get("mode") or default_mode)
        elif not reference.get("optional"):
            raise UnsupportedPodSpec(f"{kind.lower()} {reference['name']!r} has no key {item['key']!r}")


def _downward_api_files(source: Mapping[str, Any], resolved_pod: ResolvedPod, mode: int | None) -> Iterator[VolumeFile]:
    default_mode = _DEFAULT_FILE_MODE if mode is None else mode
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            value = variables.field_ref_value(reference["fieldPath"], resolved_pod)
        else:
            reference = item["resourceFieldRef"]
            containers = resolved_pod.pod["spec"]["containers"]
            container = next(each for each in containers if each["name"] == reference.get("containerName"))
            value = variables.resource_ref_value(reference, container, resolved_pod)
        yield variables.validate_relative_path(item["path"]), (value.encode(), item.get("mode") or default_mode)


def _write_files(locations: VolumeLocations, volume: Mapping[str, Any], files: Iterable[VolumeFile]) -> None:
    """Write the files of a volume, each atomically, and delete its other files."""
    directory = beneath.make_directory(locations.volumes_dir, volume["name"])
    contents = {path: (locations.rewrite_hostnames(value), mode) for path, (value, mode) in files}
    for relative_path, (value, mode) in contents.items():
        beneath.write_file(directory, relative_path, value, mode | 0o400)
    # The tokens of a projected volume are written and renewed elsewhere.
    sources = (volume.get("projected") or {}).get("sources") or ()
    tokens = [source["serviceAccountToken"]["path"] for source in sources if source.get("serviceAccountToken")]
    beneath.remove_other_files(directory, {*contents, *tokens})


def _resolve_host_path(host_path: Mapping[str, Any], roots: Sequence[Path]) -> Path:
    path = Path(host_path["path"]).resolve()
    root = next((each.resolve() for each in roots if path.is_relative_to(each.resolve())), None)
    if root is None:
        allowed = ", ".join(str(root) for root in roots)
        raise UnsupportedPodSpec(f"hostPath {host_path['path']} is not allowed: use a path inside {allowed}")
    path_type = host_path.get("type") or ""
    if path_type == "DirectoryOrCreate":
        beneath.make_directory(root, *path.relative_to(root).parts)
    elif path_type == "FileOrCreate" and not path.exists():
        beneath.touch_file(root, *path.relative_to(root).parts, mode=0o644)
    expectations = {"Directory": (path.is_dir, "is not a directory"), "File": (path.is_file, "is not a file")}
    is_as_expected, problem = expectations.get(path_type, (path.exists, "does not exist"))
    if not is_as_expected():
        raise UnsupportedPodSpec(f"hostPath type check failed: {host_path['path']} {problem}")
    return path


def _resolve_sub_path(root: Path, sub_path: str, *, readonly: bool) -> Path:
    """Return the path below `root`, without links in it; the agent follows none when it mounts it."""
    source = (root / sub_path).resolve()
    if not source.is_relative_to(root):
        raise UnsupportedPodSpec(f"subPath {sub_path!r} is outside its volume")
    if not source.exists():
        if readonly:
            raise UnsupportedPodSpec(f"subPath {sub_path!r} does not exist in its volume, which is read-only")
        # A container of the pod may have replaced a directory by a link since it was resolved.
        beneath.make_directory(root, *source.relative_to(root).parts)
    return source

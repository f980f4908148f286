"""Lay out a pod's volumes as folders, and say what each container sees of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.embedded.kubelet.environment.variables import (
    CLAIM_UID_KEY,
    CONFIG_MAP,
    SECRET,
    VOLUME_CLAIM,
    ResolvedPod,
    UnsupportedPodSpec,
    expand_variables,
    field_ref_value,
    read_config_data,
    resource_ref_value,
)
from pliant.embedded.kubelet.runtime.node_agent import Mount

_DEFAULT_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVolume:
    """A volume that is ready: a path on the host, or pod memory by name."""

    path: Path | None = None
    memory_name: str = ""
    readonly: bool = False
    is_pod_owned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLocations:
    """Where volumes are made."""

    volumes_dir: Path
    """The pod's own."""
    host_path_roots: Sequence[Path]
    """What host paths may show."""
    claims_dir: Path
    """Where claims have their folders."""
    rewrite_hostnames: Callable[[bytes], bytes]
    """What of configuration is written into files."""


def prepare_volumes(resolved_pod: ResolvedPod, locations: VolumeLocations) -> dict[str, PreparedVolume]:
    """Make every volume of a pod."""
    return {
        volume["name"]: _prepare_volume(volume, resolved_pod, locations)
        for volume in resolved_pod.pod["spec"].get("volumes") or ()
    }


def refresh_config_volumes(resolved_pod: ResolvedPod, locations: VolumeLocations) -> None:
    """Bring what volumes made of configuration hold up to date, file by file, for pods that look at them."""
    for volume in resolved_pod.pod["spec"].get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _REFRESHED_SOURCES):
            _write_files(
                locations.volumes_dir / volume["name"],
                _with_rewritten_hostnames(_volume_files(volume, resolved_pod), locations),
            )


def container_volume_mounts(
    container: Mapping[str, Any], prepared_volumes: Mapping[str, PreparedVolume], variables: Mapping[str, str]
) -> Iterator[Mount]:
    """What a container sees of the volumes."""
    for wanted in container.get("volumeMounts") or ():
        volume = prepared_volumes.get(wanted["name"])
        if volume is None:
            raise UnsupportedPodSpec(f"volumeMounts: the pod has no volume {wanted['name']!r}")
        sub = expand_variables(wanted.get("subPathExpr") or "", variables) or wanted.get("subPath") or ""
        readonly = volume.readonly or bool(wanted.get("readOnly"))
        target = str(PurePosixPath("/", wanted["mountPath"]))
        if volume.path is None:
            memory = str(PurePosixPath(volume.memory_name, _validate_relative_path(sub)))
            yield Mount(target=target, memory=memory, readonly=readonly, private=True)
        else:
            source = _resolve_sub_path(volume, _validate_relative_path(sub))
            yield Mount(target=target, source=str(source), readonly=readonly, private=volume.is_pod_owned)


def remove_forcibly(folder: Path) -> None:
    """Remove what was laid out, even what a pod has made unreadable."""

    def insist(function: Any, path: str, _: object) -> None:
        Path(path).parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    if folder.exists():
        shutil.rmtree(folder, onerror=insist)


def _prepare_volume(volume: Mapping[str, Any], resolved_pod: ResolvedPod, locations: VolumeLocations) -> PreparedVolume:
    name, folder = volume["name"], locations.volumes_dir / volume["name"]
    if (empty := volume.get("emptyDir")) is not None:
        if empty.get("medium") == "Memory":
            return PreparedVolume(memory_name=f"volume-{name}")
        folder.mkdir(parents=True, exist_ok=True)
        return PreparedVolume(path=folder)
    if (host := volume.get("hostPath")) is not None:
        return PreparedVolume(path=_resolve_host_path(name, host, locations.host_path_roots), is_pod_owned=False)
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        uid = read_config_data(VOLUME_CLAIM, {"name": claim["claimName"]}, resolved_pod)[CLAIM_UID_KEY].decode()
        kept = locations.claims_dir / uid
        kept.mkdir(parents=True, exist_ok=True)
        return PreparedVolume(path=kept, readonly=bool(claim.get("readOnly")))
    files = dict(_volume_files(volume, resolved_pod))
    if not files and not any(volume.get(kind) is not None for kind in ("configMap", "secret", *_GENERATED_SOURCES)):
        kind = next((key for key in volume if key != "name"), "nothing")
        raise UnsupportedPodSpec(
            f"volume {name!r}: {kind} is not offered here; use emptyDir, persistentVolumeClaim, hostPath"
        )
    _write_files(folder, _with_rewritten_hostnames(files.items(), locations))
    return PreparedVolume(path=folder, readonly=True)


_GENERATED_SOURCES = ("downwardAPI", "projected")
_REFRESHED_SOURCES = ("configMap", "secret", "projected")


def _volume_files(volume: Mapping[str, Any], resolved_pod: ResolvedPod) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Path, content and mode of every file that a volume made of configuration holds."""
    for kind, field, name in ((CONFIG_MAP, "configMap", "name"), (SECRET, "secret", "secretName")):
        if (source := volume.get(field)) is not None:
            yield from _files_from_keys(
                kind, {**source, "name": source.get(name, "")}, resolved_pod, source.get("defaultMode")
            )
    if (source := volume.get("downwardAPI")) is not None:
        yield from _downward_api_files(source, resolved_pod, source.get("defaultMode"))
    projected = volume.get("projected") or {}
    mode = projected.get("defaultMode")
    for source in projected.get("sources") or ():
        for kind, field in ((CONFIG_MAP, "configMap"), (SECRET, "secret")):
            if (chosen := source.get(field)) is not None:
                yield from _files_from_keys(kind, chosen, resolved_pod, mode)
        if (downward := source.get("downwardAPI")) is not None:
            yield from _downward_api_files(downward, resolved_pod, mode)


def _with_rewritten_hostnames(
    files: Iterable[tuple[str, tuple[bytes, int]]], locations: VolumeLocations
) -> dict[str, tuple[bytes, int]]:
    return {path: (locations.rewrite_hostnames(value), mode) for path, (value, mode) in files}


def _files_from_keys(
    kind: str, source: Mapping[str, Any], resolved_pod: ResolvedPod, mode: int | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    held = read_config_data(kind, source, resolved_pod)
    usual = _DEFAULT_FILE_MODE if mode is None else mode
    items = source.get("items")
    if items is None:
        yield from ((key, (value, usual)) for key, value in held.items())
        return
    for item in items:
        if item["key"] in held:
            yield _validate_relative_path(item["path"]), (held[item["key"]], item.get("mode") or usual)
        elif not source.get("optional"):
            raise UnsupportedPodSpec(f"{kind.lower()} {source['name']!r} has no key {item['key']!r}")


def _downward_api_files(
    source: Mapping[str, Any], resolved_pod: ResolvedPod, mode: int | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    usual = _DEFAULT_FILE_MODE if mode is None else mode
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            value = field_ref_value(reference["fieldPath"], resolved_pod)
        else:
            reference = item["resourceFieldRef"]
            containers = resolved_pod.pod["spec"]["containers"]
            named = next(each for each in containers if each["name"] == reference.get("containerName"))
            value = resource_ref_value(reference, named, resolved_pod)
        yield _validate_relative_path(item["path"]), (value.encode(), item.get("mode") or usual)


def _write_files(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Have a folder hold just these files; whoever reads one meanwhile finds it old or new, never half."""
    folder.mkdir(parents=True, exist_ok=True)
    stale = [each for each in folder.rglob("*") if each.is_file() and str(each.relative_to(folder)) not in files]
    for path, (value, mode) in files.items():
        place = folder / path
        if place.is_file() and place.read_bytes() == value:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name}.new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(value)
            os.fchmod(handle, mode | 0o400)
        fresh.replace(place)
    for each in stale:
        each.unlink()


def _resolve_host_path(volume_name: str, host_path: Mapping[str, Any], roots: Sequence[Path]) -> Path:
    path = Path(host_path["path"]).resolve()
    if not any(path.is_relative_to(root.resolve()) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise UnsupportedPodSpec(
            f"volume {volume_name!r}: hostPath {host_path['path']} lies outside of what pods may use ({allowed})"
        )
    kind = host_path.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    expected = {"Directory": path.is_dir, "File": path.is_file}.get(kind, path.exists)
    if not expected():
        raise UnsupportedPodSpec(
            f"volume {volume_name!r}: hostPath {host_path['path']} is not there ({kind or 'any kind'} expected)"
        )
    return path


def _resolve_sub_path(volume: PreparedVolume, sub_path: str) -> Path:
    assert volume.path is not None
    source = volume.path / sub_path
    if not source.resolve().is_relative_to(volume.path.resolve()):
        raise UnsupportedPodSpec(f"subPath {sub_path!r} leads out of its volume")
    if not source.exists():
        if volume.readonly:
            raise UnsupportedPodSpec(f"subPath {sub_path!r} is not in its volume")
        source.mkdir(parents=True)
    return source


def _validate_relative_path(path: str) -> str:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise UnsupportedPodSpec(f"path {path!r} must be relative and must not contain '..'")
    return path

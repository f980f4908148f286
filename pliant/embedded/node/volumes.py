"""Lay out a pod's volumes as folders, and say what each container sees of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.embedded.node.environment import (
    CLAIM,
    CONFIG_MAP,
    SECRET,
    UID,
    PodFacts,
    Unusable,
    content,
    expand,
    field_value,
    resource_value,
)
from pliant.embedded.node.link import Mount

_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A volume that is ready: a path on the host, or pod memory by name."""

    path: Path | None = None
    memory: str = ""
    readonly: bool = False
    private: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where volumes are made."""

    folder: Path
    """The pod's own."""
    roots: Sequence[Path]
    """What host paths may show."""
    claims: Path
    """Where claims have their folders."""
    spoken: Callable[[bytes], bytes]
    """What of configuration is written into files."""


def lay_out(facts: PodFacts, ground: Ground) -> dict[str, Laid]:
    """Make every volume of a pod."""
    return {volume["name"]: _lay(volume, facts, ground) for volume in facts.pod["spec"].get("volumes") or ()}


def refresh(facts: PodFacts, ground: Ground) -> None:
    """Bring what volumes made of configuration hold up to date, file by file, for pods that look at them."""
    for volume in facts.pod["spec"].get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _FOLLOWED):
            _write_files(ground.folder / volume["name"], _spoken(_files(volume, facts), ground))


def mounts(
    container: Mapping[str, Any], laid: Mapping[str, Laid], variables: Mapping[str, str]
) -> Iterator[Mount]:
    """What a container sees of the volumes."""
    for wanted in container.get("volumeMounts") or ():
        volume = laid.get(wanted["name"])
        if volume is None:
            raise Unusable(f"volumeMounts: the pod has no volume {wanted['name']!r}")
        sub = expand(wanted.get("subPathExpr") or "", variables) or wanted.get("subPath") or ""
        readonly = volume.readonly or bool(wanted.get("readOnly"))
        target = str(PurePosixPath("/", wanted["mountPath"]))
        if volume.path is None:
            memory = str(PurePosixPath(volume.memory, _inside(sub)))
            yield Mount(target=target, memory=memory, readonly=readonly, private=True)
        else:
            source = _sub_path(volume, _inside(sub))
            yield Mount(target=target, source=str(source), readonly=readonly, private=volume.private)


def remove(folder: Path) -> None:
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


def _lay(volume: Mapping[str, Any], facts: PodFacts, ground: Ground) -> Laid:
    name, folder = volume["name"], ground.folder / volume["name"]
    if (empty := volume.get("emptyDir")) is not None:
        if empty.get("medium") == "Memory":
            return Laid(memory=f"volume-{name}")
        folder.mkdir(parents=True, exist_ok=True)
        return Laid(path=folder)
    if (host := volume.get("hostPath")) is not None:
        return Laid(path=_host_path(name, host, ground.roots), private=False)
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        uid = content(CLAIM, {"name": claim["claimName"]}, facts)[UID].decode()
        kept = ground.claims / uid
        kept.mkdir(parents=True, exist_ok=True)
        return Laid(path=kept, readonly=bool(claim.get("readOnly")))
    files = dict(_files(volume, facts))
    if not files and not any(volume.get(kind) is not None for kind in ("configMap", "secret", *_GENERATED)):
        kind = next((key for key in volume if key != "name"), "nothing")
        raise Unusable(
            f"volume {name!r}: {kind} is not offered here; use emptyDir, persistentVolumeClaim, hostPath"
        )
    _write_files(folder, _spoken(files.items(), ground))
    return Laid(path=folder, readonly=True)


_GENERATED = ("downwardAPI", "projected")
_FOLLOWED = ("configMap", "secret", "projected")


def _files(volume: Mapping[str, Any], facts: PodFacts) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Path, content and mode of every file that a volume made of configuration holds."""
    for kind, field, name in ((CONFIG_MAP, "configMap", "name"), (SECRET, "secret", "secretName")):
        if (source := volume.get(field)) is not None:
            yield from _chosen(kind, {**source, "name": source.get(name, "")}, facts, source.get("defaultMode"))
    if (source := volume.get("downwardAPI")) is not None:
        yield from _downward(source, facts, source.get("defaultMode"))
    projected = volume.get("projected") or {}
    mode = projected.get("defaultMode")
    for source in projected.get("sources") or ():
        for kind, field in ((CONFIG_MAP, "configMap"), (SECRET, "secret")):
            if (chosen := source.get(field)) is not None:
                yield from _chosen(kind, chosen, facts, mode)
        if (downward := source.get("downwardAPI")) is not None:
            yield from _downward(downward, facts, mode)


def _spoken(files: Iterable[tuple[str, tuple[bytes, int]]], ground: Ground) -> dict[str, tuple[bytes, int]]:
    return {path: (ground.spoken(value), mode) for path, (value, mode) in files}


def _chosen(
    kind: str, source: Mapping[str, Any], facts: PodFacts, mode: int | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    held = content(kind, source, facts)
    usual = _FILE_MODE if mode is None else mode
    items = source.get("items")
    if items is None:
        yield from ((key, (value, usual)) for key, value in held.items())
        return
    for item in items:
        if item["key"] in held:
            yield _inside(item["path"]), (held[item["key"]], item.get("mode") or usual)
        elif not source.get("optional"):
            raise Unusable(f"{kind.lower()} {source['name']!r} has no key {item['key']!r}")


def _downward(
    source: Mapping[str, Any], facts: PodFacts, mode: int | None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    usual = _FILE_MODE if mode is None else mode
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            value = field_value(reference["fieldPath"], facts)
        else:
            reference = item["resourceFieldRef"]
            containers = facts.pod["spec"]["containers"]
            named = next(each for each in containers if each["name"] == reference.get("containerName"))
            value = resource_value(reference, named, facts)
        yield _inside(item["path"]), (value.encode(), item.get("mode") or usual)


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


def _host_path(name: str, host: Mapping[str, Any], roots: Sequence[Path]) -> Path:
    path = Path(host["path"]).resolve()
    if not any(path.is_relative_to(root.resolve()) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise Unusable(f"volume {name!r}: hostPath {host['path']} lies outside of what pods may use ({allowed})")
    kind = host.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    expected = {"Directory": path.is_dir, "File": path.is_file}.get(kind, path.exists)
    if not expected():
        raise Unusable(f"volume {name!r}: hostPath {host['path']} is not there ({kind or 'any kind'} expected)")
    return path


def _sub_path(volume: Laid, sub: str) -> Path:
    assert volume.path is not None
    source = volume.path / sub
    if not source.resolve().is_relative_to(volume.path.resolve()):
        raise Unusable(f"subPath {sub!r} leads out of its volume")
    if not source.exists():
        if volume.readonly:
            raise Unusable(f"subPath {sub!r} is not in its volume")
        source.mkdir(parents=True)
    return source


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise Unusable(f"path {path!r} must be relative and must not contain '..'")
    return path

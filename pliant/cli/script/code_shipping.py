"""Ships a script and its local modules to a cluster in a ConfigMap."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pliant.cli.input.problems import SourceLocation, input_error
from pliant.cli.script.imports import ScriptImports

CODE_DIR = "/pliant/code"
MAX_CODE_BYTES = 900 * 1024
"""A ConfigMap holds at most 1 MiB, with the names and the overhead of its encoding."""
_VOLUME_NAME = "code"


def read_code(imports: ScriptImports) -> dict[str, bytes]:
    """Return the contents of the script and of its local modules, by path relative to the script's directory."""
    contents = {imports.script.name: _read(imports.script)}
    contents |= {path.relative_to(imports.root).as_posix(): _read(path) for path in imports.local_files}
    total = sum(map(len, contents.values()))
    if total > MAX_CODE_BYTES:
        largest = max(contents, key=lambda path: len(contents[path]))
        size = f"{total / 1024:,.0f} KiB, and at most {MAX_CODE_BYTES // 1024} KiB can be sent to a cluster"
        problem = f"the script and its local modules have {size}"
        fix = f"the largest is {largest} ({len(contents[largest]) / 1024:,.0f} KiB): put it into the image"
        location = SourceLocation(source=str(imports.script))
        raise input_error(problem, location=location, fix=f"{fix}, and use --no-ship")
    return contents


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        location = SourceLocation(source=str(path))
        raise input_error(f"cannot read: {error.strerror}", location=location) from None


def build_code_config_map(name: str, contents: dict[str, bytes]) -> dict[str, Any]:
    """Return a ConfigMap with the files; its keys are the paths without slashes."""
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for path, data in contents.items():
        try:
            text[_config_map_key(path)] = data.decode()
        except UnicodeDecodeError:
            binary[_config_map_key(path)] = base64.b64encode(data).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "immutable": True,
        "data": text,
        **({"binaryData": binary} if binary else {}),
    }


def _config_map_key(path: str) -> str:
    """Return a key that no other path has: keys allow letters, digits, `-`, `_` and `.`."""
    return re.sub(r"[^A-Za-z0-9_.]", lambda match: f"-{ord(match[0]):x}-", path)


def with_code_mounted(job: dict[str, Any], config_map: str, paths: Iterable[str]) -> dict[str, Any]:
    """Return the job of a script with the files of a ConfigMap mounted in every container."""
    job = copy.deepcopy(job)
    items = [{"key": _config_map_key(path), "path": path} for path in paths]
    source = {"name": config_map, "items": items}
    for pod_spec in _pod_specs(job):
        pod_spec["volumes"] = [{"name": _VOLUME_NAME, "configMap": source}]
        for container in pod_spec["containers"]:
            container["volumeMounts"] = [{"name": _VOLUME_NAME, "mountPath": CODE_DIR, "readOnly": True}]
    return job


def _pod_specs(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in job["spec"]["replicaSpecs"].values():
        yield group["template"]["spec"]

"""Suggests the next command for inputs that are not job files: URLs, directories, charts, other workloads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SCRIPT_SUFFIX, _NOTEBOOK_SUFFIX = ".py", ".ipynb"
_URL_SCHEMES = ("http://", "https://")
_CHART_FILE, _CHART_ARCHIVE_SUFFIX = "Chart.yaml", ".tgz"
_KUSTOMIZATION_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_TEMPLATE_MARK = "{{"
_WORKLOAD_KINDS = frozenset({"Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})


def suggest_for_unreadable_path(path: str) -> tuple[str, str]:
    """Return what is wrong with a path that is no file, and what to type instead; both may be empty."""
    quoted = shlex.quote(path)
    if path.startswith(_URL_SCHEMES):
        if path.endswith(_SCRIPT_SUFFIX):
            return "a URL is not a file", f"download it first: curl -fLO {quoted}"
        return "a URL is not a file", f"curl -fL {quoted} | pliant run -"
    if path.endswith(_CHART_ARCHIVE_SUFFIX):
        return "a chart is not a job", f"helm template {quoted} | pliant run -"
    if path.endswith(_NOTEBOOK_SUFFIX):
        script = shlex.quote(f"{path.removesuffix(_NOTEBOOK_SUFFIX)}.py")
        return "a notebook is not a program", f"jupyter nbconvert --to script {quoted} && pliant run {script}"
    if path.endswith(_SCRIPT_SUFFIX):
        on_cluster = f"on a running cluster: pliant run {quoted} --cluster NAME, or --context NAME --image IMAGE"
        return "a script is not a job file", f"pliant run {quoted}; {on_cluster}"
    if Path(path).is_dir():
        return "a directory is not a file", _suggest_for_directory(Path(path))
    return "", ""


def _suggest_for_directory(directory: Path) -> str:
    quoted = shlex.quote(str(directory))
    if (directory / _CHART_FILE).is_file():
        return f"it contains a Helm chart: helm template {quoted} | pliant run -"
    if any((directory / name).is_file() for name in _KUSTOMIZATION_FILES):
        return f"it contains a kustomization: kubectl kustomize {quoted} | pliant run -"
    if (directory / "job.yaml").is_file():
        return f"pliant run {shlex.quote(str(directory / 'job.yaml'))}"
    if any(directory.glob("*.y*ml")):
        return f"specify the files in it: pliant run {quoted}/*.yaml"
    scripts = sorted(path for path in directory.glob("*.py") if path.name != "__init__.py")
    likely = [path for path in scripts if path.name in ("train.py", "main.py", "__main__.py")]
    return f"pliant run {shlex.quote(str((likely or scripts)[0]))}" if scripts else "specify a file"


def suggest_for_template(text: str) -> str:
    """Return what to type for a file that is a template of a Helm chart; empty if it is not one."""
    return "render the template first: helm template CHART | pliant run -" if _TEMPLATE_MARK in text else ""


def suggest_for_workload(raw: Mapping[str, Any]) -> str:
    """Return what to type instead of a workload that is no training job; empty if the kind is another one."""
    if raw.get("kind") not in _WORKLOAD_KINDS or str(raw.get("apiVersion")).partition("/")[0] not in ("batch", "apps"):
        return ""
    script = _find_script(raw.get("spec"))
    if script:
        workers = (raw.get("spec") or {}).get("parallelism") or (raw.get("spec") or {}).get("replicas")
        size = f" --workers {workers}" if isinstance(workers, int) and workers > 1 else ""
        return f"run its program as a training job: pliant run {shlex.quote(script)}{size}"
    return "write a training job instead: `pliant new generic NAME` creates an example"


def _find_script(value: Any) -> str:
    """Return the first Python script in the command of a container; empty if there is none."""
    if isinstance(value, Mapping):
        for field in ("command", "args"):
            words = value.get(field)
            for word in words if isinstance(words, list) else ():
                if isinstance(word, str) and word.endswith(".py"):
                    return word
        value = list(value.values())
    if isinstance(value, list):
        return next(filter(None, map(_find_script, value)), "")
    return ""

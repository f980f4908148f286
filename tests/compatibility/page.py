"""Renders docs/compatibility.md: one table for each origin, from what was seen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from tests.compatibility.archives import Origin
from tests.compatibility.samples import Sample, Samples
from tests.compatibility.trial import Ended
from tests.golden.files import ROOT

PAGE = ROOT / "docs" / "compatibility.md"
WIDTH = 127


def with_section(page: str, origin: Origin, found: Samples, ended: Iterable[Ended]) -> str:
    """The page with the section of an origin as it was seen."""
    name = origin.title.lower()
    start, end = f"<!-- samples: {name} -->\n", "<!-- end of samples -->"
    section = f"{start}{_summary(origin, found)}\n{_table(ended)}{end}"
    assert start in page, f"{PAGE.name} has no section for {name}"
    return re.sub(f"{re.escape(start)}.*?{re.escape(end)}", lambda _: section, page, flags=re.DOTALL)


def _summary(origin: Origin, found: Samples) -> str:
    releases: dict[str, list[str]] = {}
    for archive in origin.archives:
        releases.setdefault(archive.project, []).append(archive.version)
    listed = "; ".join(f"{project} {', '.join(versions)}" for project, versions in releases.items())
    text = (
        f"From {listed}: {len(found.tried)} samples. {found.published} different manifests are published; those that "
        "differ only in image and command count once, as the newest release has them."
    )
    if found.not_served:
        text += (
            f" {len(found.not_served)} more files have MPIJobs of `v1alpha1` or `v1alpha2`, which Pliant does not"
            " serve. Neither do the latest releases of Kubeflow's operators."
        )
    return textwrap.fill(text, WIDTH, break_on_hyphens=False) + "\n"


def _table(ended: Iterable[Ended]) -> str:
    rows = ["| sample | release | kind | replicas | result | remarks |", "|---|---|---|---|---|---|"]
    for each in ended:
        sample = each.sample
        project = sample.archive.project.rpartition("/")[2]
        cells = [f"`{sample.path}`", f"{project} {sample.archive.version}", _kind(sample), _replicas(sample)]
        rows.append(f"| {' | '.join([*cells, each.phase, '; '.join(_remarks(sample)) or '–'])} |")
    return "\n".join(rows) + "\n"


def _kind(sample: Sample) -> str:
    version, kind = str(sample.manifest["apiVersion"]), str(sample.manifest["kind"])
    return kind if version == "kubeflow.org/v1" else f"{kind} `{version}`"


def _replicas(sample: Sample) -> str:
    listed = [f"{size} {group}" for group, size in sample.sizes.items()]
    chosen = [group for group in sample.groups if group not in sample.sizes]
    parts = [", ".join(listed), f"{', '.join(chosen)}: chosen by the master" if chosen else ""]
    return "; ".join(filter(None, parts))


def _remarks(sample: Sample) -> list[str]:
    remarks = list(sample.changes)
    if sample.claims:
        remarks.append("the test creates the PersistentVolumeClaim")
    if sample.plans:
        remarks.append("with its ScalePlan")
    if sample.path.endswith("deepfm.yaml"):
        remarks.append("`cleanPodPolicy: OnFailed` means `Never`, as in paddle-operator")
    return remarks

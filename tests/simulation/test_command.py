"""`pliant simulate`: files in, figures and pictures out, mistakes told with their place."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pliant.cli.main import main

NODES = "name,count,cpu,memory,gpu\nsmall,2,4,16Gi,\nlarge,1,8,64Gi,2\n"
JOBS = "name,submit,min_size,max_size,cpu,memory,work,throughput\n"
JOBS += "a,0,1,4,1,1Gi,60,linear\nb,5s,2,8,500m,512Mi,2m,1=1 4=3\n"
SERVICES = "time,name,replicas,cpu,memory\n0,web,2,1,1Gi\n1m,web,4,,\n"
TRACE = """\
until: 5m
nodes:
  - {name: n, count: 2, cpu: 8, memory: 32Gi, example.org/chip: 4}
jobs:
  - name: paddle
    count: 3
    interval: 10
    min_size: 1
    max_size: 6
    cpu: 1
    memory: 1Gi
    work: 200
    fixed_replicas: [{name: pserver, count: 2, cpu: 500m, memory: 1Gi}]
services:
  - {name: web, cpu: 1, steps: 0=2 60=6 120=1}
windows:
  - {name: noon, start: 60, end: 120}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("nodes.csv", NODES), ("jobs.csv", JOBS), ("services.csv", SERVICES), ("trace.yaml", TRACE)):
        (tmp_path / name).write_text(text)
    return tmp_path


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *words])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@pytest.mark.usefixtures("folder")
def test_tables_in_csv_make_one_trace(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, "nodes.csv", "jobs.csv", "services.csv", "--policy", "none", "-o", "json")
    [figures] = json.loads(out)
    assert code == 0
    assert (figures["policy"], figures["jobs"], figures["completed_jobs"], figures["never_started_jobs"]) == (
        "none",
        2,
        2,
        0,
    )
    # 60 seconds of one member's work by four, 120 of them at three times the speed of one; 3.1 s to come up.
    assert figures["completion_mean"] == pytest.approx((60 / 4 + 3.1 + 120 / 3 + 3.1) / 2)


def test_jobs_in_csv_may_have_a_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "many.csv").write_text("name,submit,count,interval,cpu,work\na,0,3,10,1,60\n")
    code, out, _ = ended(capsys, "nodes.csv", "many.csv", "--policy", "fair")
    assert code == 0
    assert "3 of 3" in out


@pytest.mark.usefixtures("folder")
def test_a_picture_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(capsys, "nodes.csv", "jobs.csv", "--policy", "fair", "--plot", "/proc/picture.svg")
    assert code == 2
    assert "--plot: cannot write /proc/picture.svg: No such file or directory" in err


@pytest.mark.usefixtures("folder")
def test_a_trace_in_yaml_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, "trace.yaml", "--policy", "none,edl-published", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["policy"] for row in rows] == ["none", "edl-published"]
    assert {row["jobs"] for row in rows} == {"3"}
    assert {row["duration_seconds"] for row in rows} == {"300.0"}
    assert 0 < float(rows[0]["cpu_utilization_noon"]) <= 1


@pytest.mark.usefixtures("folder")
def test_policies_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    first = ended(capsys, "trace.yaml", "--policy", "none,edl-published")
    assert first[1].splitlines()[0].split() == ["none", "edl-published"]
    assert "service pod wait, mean" in first[1]
    assert ended(capsys, "trace.yaml", "--policy", "none,edl-published") == first


def test_pictures_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(capsys, "trace.yaml", "--policy", "none,edl-published", "--plot", "all.svg")
    assert (code, err) == (0, "wrote all.svg\n")
    drawn = ElementTree.parse(folder / "all.svg")
    words = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"pending pods", "running replicas by job, policy edl-published", "paddle-0"} <= words
    ended(capsys, "trace.yaml", "--policy", "none,edl-published", "--plot", "pictures")
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == ["edl-published.svg", "none.svg"]


@pytest.mark.usefixtures("folder")
def test_a_png_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(capsys, "trace.yaml", "--policy", "none", "--plot", "all.png")
    if "requires a font" in err:
        pytest.skip("this machine has no font")
    assert (code, err) == (0, "wrote all.png\n")
    assert Path("all.png").read_bytes().startswith(b"\x89PNG")


class Blind:
    """A renderer that finds no font, and so leaves words out."""

    @staticmethod
    def svg_to_bytes(**options: object) -> bytes:
        return b"nothing"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("renderer", "said"), [(None, "pip install 'pliant[plots]'"), (Blind, "requires a font")])
def test_what_a_png_lacks_is_told_before_anything_is_reckoned(
    renderer: object, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", renderer)
    code, out, err = ended(capsys, "trace.yaml", "--policy", "none", "--plot", "all.png")
    assert (code, out) == (1, "")
    assert said in err


EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"


@pytest.mark.parametrize("files", [["nodes.csv", "jobs.csv", "services.csv"], ["trace.yaml"]], ids=["csv", "yaml"])
def test_examples_can_be_simulated(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    code, out, _ = ended(capsys, *files, "--policy", "none,edl,fair,goodput", "-o", "json")
    assert code == 0
    assert all(run["completed_jobs"] == run["jobs"] for run in json.loads(out))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify either files or an --experiment: edl-1, edl-2, large"),
        (["trace.yaml", "--experiment", "edl-1"], "specify either files or an --experiment"),
        (["--experiment", "edl-9"], "--experiment: unknown experiment `edl-9`; use one of: edl-1, edl-2, large"),
        (["trace.yaml", "--policy", "fare"], "--policy: unknown policy `fare`; use one of: "),
        (["trace.yaml", "--policy", ","], "--policy: at least one policy is required"),
        (["trace.yaml", "--jobs", "x"], "argument --jobs: `x` is not a number between 1 and 1,000,000"),
        (["trace.yaml", "--jobs", "5"], "--jobs: requires --experiment"),
        (
            ["trace.yaml", "--delays", "stop=3"],
            "--delays: unknown delay `stop`: use jitter, reschedule, schedule, start, terminate",
        ),
        (["trace.yaml", "--delays", "start=soon"], "--delays: `soon` is not a duration"),
        (["trace.yaml", "--delays", "jitter=2"], "--delays: jitter must be at most 1"),
        (["trace.yaml", "--until", "later"], "--until: `later` is not a duration"),
        (["trace.yaml", "--max-load", "1.5"], "--max-load: must be greater than 0 and at most 1, not 1.5"),
        (["trace.yaml", "--plot", "all.gif"], "--plot: `all.gif` must be FILE.svg, FILE.png or a directory"),
        (["trace.yaml", "--plot", "no/all.svg"], "--plot: directory `no` not found; create it first"),
        (["missing.csv"], "missing.csv: No such file or directory; specify CSV or YAML files, or an --experiment"),
        (["jobs.csv"], "jobs.csv: no nodes; add a table with the columns name, count, cpu, memory"),
        (["nodes.csv"], "nodes.csv: neither jobs nor services; add a table of one of them"),
        (["nodes.csv", "jobs.csv", "jobs.csv"], "jobs.csv:2: name: another job is named `a` (jobs.csv:2)"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_usage_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    policy = [] if "--policy" in words else ["--policy", "none"]
    code, out, err = ended(capsys, *words, *policy)
    assert code == 2
    assert out == ""
    assert said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.csv: the file is empty; the first line must name the columns"),
        ("name,cpu\na,1\n", "x.csv:1: unknown table; it needs a column `submit` for jobs"),
        ("name,submit,submit\n", "x.csv:1: duplicate column `submit`"),
        ("name,submit,min_sise\na,0,1\n", "x.csv:2: min_sise: jobs have no such field; did you mean `min_size`?"),
        ("name,submit\na,0\n,1\n", "x.csv:3: name: is required"),
        ("name,submit,max_size\na,0,many\n", "x.csv:2: max_size: `many` is not an integer"),
        ("name,submit,min_size,max_size\na,0,4,2\n", "x.csv:2: max_size: must be at least min_size (4), not 2"),
        ("name,submit,max_size\na,0,2000000\n", "x.csv:2: max_size: must be at most 1,000,000, not 2000000"),
        ("name,submit,cpu\na,0,two\n", "x.csv:2: cpu: 'two' is not a quantity such as 500m or 8Gi"),
        ("name,submit,cpu\na,0,-1\n", "x.csv:2: cpu: must not be negative"),
        ("name,submit,throughput\na,0,fast\n", "x.csv:2: throughput: `fast` is not a throughput model: use `linear`"),
        ("name,submit,throughput\na,0,0=1\n", "x.csv:2: throughput: `0=1`: sizes must be at least 1"),
        ("name,submit,work\na,0,0\n", "x.csv:2: work: must be above 0"),
        ("name,submit,initial_size,max_size\na,0,9,4\n", "x.csv:2: initial_size: must be from 1 to 4, not 9"),
        ("name,submit\na,0,3,4\n", "x.csv:2: 4 cells, but only 2 columns"),
        ('name,submit\n"a,0\n', "x.csv:2: not valid CSV"),
        ("name,replicas,time\nweb,-1,0\n", "x.csv:2: replicas: must be at least 0, not -1"),
        ("name,steps\nweb,0:400\n", "x.csv:2: steps: `0:400` is not a list of steps such as `0=400 90=300`"),
        ("name,start,end\nnoon,5,4\n", "x.csv:2: end: must be after start (5)"),
        ("name,count,memory\nn,1,1Gi\n", "x.csv:2: cpu: is required"),
    ],
)
def test_mistakes_in_tables_are_told_with_line_and_field(
    folder: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text(text)
    code, _, err = ended(capsys, "nodes.csv", "x.csv", "--policy", "none")
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobs: 3\n", "x.yaml:1:1: jobs: must be a list of mappings"),
        ("jobz: []\n", "x.yaml:1:1: unknown field `jobz`; known fields: nodes, jobs"),
        ("jobs:\n  - name: a\n    max_size: x\n", "x.yaml:3:5: max_size: `x` is not an integer"),
        ("jobs:\n  - {name: a, fixed_replicas: 3}\n", "x.yaml:2:15: fixed_replicas: must be a list of groups"),
        ("until: soon\n", "x.yaml:1:1: until: `soon` is not a duration"),
        ("- a\n", "x.yaml:1:1: must be a mapping with nodes, jobs, services, windows"),
        ("jobs: [\n", "x.yaml"),
    ],
)
def test_mistakes_in_yaml_are_told_with_line_and_column(
    folder: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.yaml").write_text(text)
    code, _, err = ended(capsys, "nodes.csv", "x.yaml", "--policy", "none")
    assert code == 2
    assert said in err

"""Every mistake in a file is answered with its place, its field and what to write instead."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pliant.cli.main import main

GOOD = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata:
  name: demo
spec:
  cleanPodPolicy: All
  replicaSpecs:
    worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: aitj-worker
              image: python:3.12-slim
              command: [python3, train.py]
"""


def complaint(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """What `pliant run` says about a file, its name shortened."""
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(file)])
    captured = capsys.readouterr()
    assert exit_.value.code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.replace(str(file), "job.yaml")


def test_a_typo_in_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(tmp_path, capsys, GOOD.replace("replicas:", "replicsa:")) == (
        "job.yaml:9:7: error: unknown field `replicsa`\n"
        "    9 │       replicsa: 2\n"
        "      │       ^^^^^^^^ spec.replicaSpecs.worker.replicsa of AITrainingJob demo\n"
        "  fix: did you mean `replicas`?\n"
    )


def test_a_missing_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.replace("              command: [python3, train.py]\n", "")
    assert complaint(tmp_path, capsys, text) == (
        "job.yaml:13:15: error: no command: local pods do not use the image, so they cannot use its command\n"
        "   13 │             - name: aitj-worker\n"
        "      │               ^ spec.replicaSpecs.worker.template.spec.containers[0].command"
        " of AITrainingJob demo\n"
        "  fix: set the command, for example `command: [python3, train.py]`\n"
    )


def test_a_missing_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.replace("              image: python:3.12-slim\n", "")
    assert text != GOOD
    assert complaint(tmp_path, capsys, text) == (
        "job.yaml:13:15: error: no image: the API server rejects the pod\n"
        "   13 │             - name: aitj-worker\n"
        "      │               ^ spec.replicaSpecs.worker.template.spec.containers[0].image"
        " of AITrainingJob demo\n"
        "  fix: add one, for example `image: python:3.12-slim`; local pods do not run it, but a cluster does\n"
    )


def test_commands_that_a_kind_supplies_are_not_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = "{template: {spec: {containers: [{name: mpi, image: mpi}]}}}"
    text = (
        "{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {name: demo}, spec: {mpiReplicaSpecs: {\n"
        f"  Launcher: {pod},\n"
        f"  Worker: {pod},\n"
        "}}}\n"
    )
    told = complaint(tmp_path, capsys, text)
    assert told.count("error: ") == 1
    assert "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command of MPIJob demo" in told


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("replicas: 2", "replicas: -1", "-1 is not allowed: should be greater than or equal to 0"),
        ("replicas: 2", "replicas: -1", "fix: write 0 or more"),
        ("replicas: 2", "replicas: two", "`replicas` must be of type integer, not string"),
        ("cleanPodPolicy: All", "cleanPodPolicy: Non", "did you mean `None`?"),
        ("kind: AITrainingJob", "kind: AITraningJob", "did you mean `AITrainingJob`?"),
        ("ai/v1", "ai/v2", "write `apiVersion: elasticdeeplearning.ai/v1`"),
        ("  name: demo", "  labels: {}", "the AITrainingJob has no name"),
        ("kind: AITrainingJob\n", "", "`kind` is missing"),
        ("  name: demo", "  nmae: demo", "did you mean `name` where `nmae` is written?"),
        ("  name: demo", "  name: De_mo", "did you mean `de-mo`?"),
        ("  name: demo", f"  name: {'d' * 60}", "error: `name` is too long:"),
        ("  name: demo", "  name: demo\n  namespace: My_Team", "did you mean `my-team`?"),
        ("replicas: 2", 'replicas: "2"', "fix: write a whole number, without quotes"),
        ("replicas: 2", "replicas: 0", "the job has no replicas, so it would never end"),
        ("  cleanPodPolicy: All", "  suspend: true", "the job is suspended, so it would never end"),
        ("  cleanPodPolicy: All", "  managedBy: a.io/b", "the job is managed by a.io/b, which does not run here"),
        ("[python3, train.py]", "python3 train.py", "fix: write a list: [one, two]"),
        ("[python3, train.py]", "[sleep, 10]", "fix: put it in quotes"),
        ("- name: aitj-worker", "- image: x", "duplicate key `image`"),
        ("spec:\n  clean", "spec:\n  suspend: true\n  clean", "the job is suspended, so it would never end"),
        (
            "spec:\n  clean",
            "spec:\n  managedBy: kueue.x-k8s.io/x\n  clean",
            "managed by kueue.x-k8s.io/x, which does not",
        ),
        ("spec:\n  clean", "spec: 3\nx:\n  clean", "`spec` must be of type object"),
    ],
)
def test_wrong_values(tmp_path: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str, words: str) -> None:
    assert right in GOOD
    assert words in complaint(tmp_path, capsys, GOOD.replace(right, wrong))


CODE = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo-code}\n"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("envFrom: [{configMapRef: {name: demo-cod}}]", "ConfigMap `demo-cod` is not in the files"),
        ("envFrom: [{configMapRef: {name: demo-cod}}]", "did you mean `demo-code`?"),
        ("env: [{name: A, valueFrom: {secretKeyRef: {name: key, key: a}}}]", "add a Secret of that name"),
    ],
)
def test_an_object_that_no_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, words: str
) -> None:
    assert words in complaint(tmp_path, capsys, f"{GOOD}              {part}\n{CODE}")


def test_every_problem_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.replace("replicas:", "replicsa:").replace("All", "Non").replace("command", "comand")
    assert complaint(tmp_path, capsys, text).count("error:") == 3


@pytest.mark.parametrize("word", ["spec:\n  clean", "replicaSpecs", "template", "containers", "command"])
def test_a_misspelt_field_is_not_said_to_be_missing_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    wrong = word.replace("spec:", "spce:") if ":" in word else word[:-2] + word[-1]
    said = complaint(tmp_path, capsys, GOOD.replace(word, wrong))
    assert said.count("error:") == 1
    assert f"did you mean `{word.partition(':')[0]}`?" in said


def test_bad_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(tmp_path, capsys, GOOD.replace("  name: demo", "\tname: demo"))
    assert said.startswith("job.yaml:4:1: error: not valid YAML")
    assert "fix: indent with spaces, not tabs" in said


def test_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "job.yaml contains no objects" in complaint(tmp_path, capsys, "# nothing here\n")


def test_a_file_without_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(tmp_path, capsys, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert "nothing to run" in said
    assert "pliant up" in said


def test_two_objects_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is defined twice, first at job.yaml:1:1" in complaint(tmp_path, capsys, f"{GOOD}---\n{GOOD}")


def test_an_item_of_a_list_has_its_own_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pdo\n  metadata: {name: a}\n"
    said = complaint(tmp_path, capsys, text)
    assert said.startswith("job.yaml:5:3: error: unknown kind `Pdo`")
    assert "did you mean `Pod`?" in said


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["run", "/nowhere/job.yaml"])
    assert exit_.value.code == 2
    assert "/nowhere/job.yaml: error: cannot read: No such file or directory" in capsys.readouterr().err


def test_the_standard_input_is_read_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: [")))
    with pytest.raises(SystemExit):
        main(["run", "-"])
    assert capsys.readouterr().err.startswith("<stdin>:1:")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["rnu"], "Did you mean `pliant run`?"),
        (["job.yaml"], "Did you mean `pliant run job.yaml`?"),
        (["run"], "the following arguments are required: FILE"),
        (["run", "a.yaml", "--timeout", "soon"], "write 30s, 5m or 1h30m"),
        (["run", "a.yaml", "--nodes", "0"], "`0` is not a positive integer"),
        (["run", "a.yaml", "--nodes", "100000"], "too large; at most 1000 nodes can be simulated"),
        (["run", "a.yaml", "-n", "My_Team"], "`My_Team` is not a valid namespace; use a-z, 0-9 and `-`"),
        (["run", "a.yaml", "--node-memory", "lots"], "write 512Mi or 8Gi"),
        (["run", "a.yaml", "--workspace", "/nowhere"], "`/nowhere` is not a directory"),
        (["up", "--port", "99999"], "use a number from 1 to 65535"),
        (["crds", "--kinds", "Nothing"], "use families (aitrainingjob, "),
        (["down", "--name", "../x"], "is not a valid cluster name"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: list[str], answer: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 2
    assert answer in capsys.readouterr().err

"""The small commands, and how fast the command line is on its feet."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest
import yaml

from pliant import __version__
from pliant.cli.main import COMMAND_SUMMARIES, main
from pliant.runtime.log_setup import ErrorNotifier, JsonFormatter, TextFormatter

HEAVY = ("aiohttp", "rich", "cryptography", "yaml", "asyncio", "msgspec")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 0
    return capsys.readouterr().out


def parsed(text: str) -> list[dict[str, Any]]:
    """The documents of a text; the parser in C reads a CRD in a tenth of the time."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "version").startswith(f"pliant {__version__} (Python ")
    assert output(capsys, "version", "--short") == f"{__version__}\n"
    assert __version__ in output(capsys, "--version")


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    said = output(capsys, "--help")
    assert all(command in said for command in COMMAND_SUMMARIES)
    assert output(capsys) == said


@pytest.mark.parametrize("command", COMMAND_SUMMARIES)
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = output(capsys, command, "--help")
    assert f"usage: pliant {command}" in said
    assert output(capsys, "help", command) == said


def test_crds_are_printed_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    [crd] = parsed(output(capsys, "crds", "--kinds", "aitrainingjob"))
    assert crd["kind"] == "CustomResourceDefinition"
    assert crd["spec"]["names"]["kind"] == "AITrainingJob"


def test_plans_are_defined_with_their_jobs_or_alone(capsys: pytest.CaptureFixture[str]) -> None:
    both = parsed(output(capsys, "crds", "--kinds", "ElasticJob"))
    assert [crd["spec"]["names"]["kind"] for crd in both] == ["ElasticJob", "ScalePlan"]
    [alone] = parsed(output(capsys, "crds", "--kinds", "scaleplans.elastic.iml.github.io"))
    assert alone["spec"]["names"]["kind"] == "ScalePlan"


@pytest.mark.parametrize("words", [("crds", "--kinds", "AITrainingJob"), ("--help",), ("version",)])
def test_nobody_has_to_read_all_that_is_printed(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "pliant", *words], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_small_commands_load_no_large_library() -> None:
    code = (
        "import sys\nfrom pliant.cli.main import main\n"
        "try: main(['version'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_local_cluster_loads_its_web_server_only_for_a_client() -> None:
    code = "import sys, pliant.cli.local.run_session, pliant.embedded.cluster\nprint('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def record(**fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "pliant.x", "levelname": "INFO", "msg": "pod deleted", **fields})


def test_fields_are_written_behind_the_message() -> None:
    line = TextFormatter().format(record(job="default/bert", because="scaled in"))
    assert line.endswith('info    pliant.x: pod deleted job=default/bert because="scaled in"')


def test_json_lines_hold_every_field() -> None:
    said = json.loads(JsonFormatter().format(record(rank=3, job=("a", "b"))))
    assert said["message"] == "pod deleted"
    assert said["rank"] == 3


def test_an_internal_error_is_noted_once() -> None:
    notes: list[str] = []
    handler = ErrorNotifier(notes.append)
    for _ in range(2):
        handler.handle(record(levelno=logging.ERROR, msg="reconcile failed", exc_info=(None, KeyError("x"), None)))
    assert notes == ["! internal error: reconcile failed: KeyError('x')"]

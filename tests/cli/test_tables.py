"""Tables that fit, paths into every kind, and scripts for shells."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from typing import Any

import pytest

from pliant.cli.commands.admin.completion import bash_script, fish_script, list_options, zsh_script
from pliant.cli.commands.jobs.top import cpu_and_memory_text
from pliant.cli.durations import format_age
from pliant.cli.input.field_paths import (
    group_replicas_path,
    merge_patch_for_field,
    scale_replicas_path,
    suspend_path,
    with_field,
)
from pliant.cli.main import COMMAND_SUMMARIES
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table, collapse_and_truncate, display_width, truncate_to_width
from pliant.errors import UserError
from pliant.frontends import FRONTENDS, Frontend


def test_columns_are_aligned_and_the_last_one_gives_way() -> None:
    table = Table(("NAME", "PHASE", "MESSAGE"), TerminalStyle(), 40)
    lines = table.render([["a", "Running", "all replicas are running and more to say"], ["longer", "Failed", "x"]])
    assert lines == ["NAME     PHASE     MESSAGE", "a        Running   all replicas are run…", "longer   Failed    x"]
    assert max(map(len, lines)) == 40


def test_a_pipe_gets_everything_and_no_colour() -> None:
    long = "x" * 500
    assert Table(("A", "B"), TerminalStyle()).render([["Running", long]])[1].endswith(long)
    assert "\x1b[32mRunning" in Table(("A", "B"), TerminalStyle(has_colour=True)).render_row(["Running", "x"])
    assert collapse_and_truncate("a\n b", 0) == "a b"


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    titles = ("NAME", "PHASE", "READY", "RESTARTS", "SIZE", "AGE", "MESSAGE")
    row = ["a-job-with-a-long-name", "Running", "2/2", "0", "worker 2 [1–4]", "7s", "訓練が失敗した " * 40]
    for line in Table(titles, TerminalStyle(), width).render([row, ["b", *row[1:]]]):
        assert 0 < display_width(line) <= width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("訓練中", 6, "訓練中"),
        ("訓練中", 5, "訓練…"),
        ("訓練中", 4, "訓…"),
        ("e\u0301té", 3, "e\u0301té"),
        ("abc", 0, ""),
    ],
)
def test_wide_characters_take_two_columns_and_accents_none(text: str, width: int, shown: str) -> None:
    assert truncate_to_width(text, width) == shown


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d")])
def test_ages_are_short(seconds: int, text: str) -> None:
    assert format_age(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize("frontend", FRONTENDS.values(), ids=lambda each: each.kind)
def test_every_kind_can_be_suspended(frontend: Frontend) -> None:
    path = suspend_path(frontend)
    assert path[0] in ("spec", "runPolicy")  # a spec that is a list has no room for it
    assert path[-1] == "suspend"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"replicaSpecs": {"worker": {"template": {}}}}, ("spec", "replicaSpecs", "worker", "replicas")),
        ({"tfReplicaSpecs": {"Worker": {"template": {}}}}, ("spec", "tfReplicaSpecs", "Worker", "replicas")),
        ({"worker": {"template": {}}}, ("spec", "worker", "replicas")),
    ],
)
def test_the_size_of_a_group_is_found_in_any_dialect(spec: dict[str, Any], path: tuple[str, ...]) -> None:
    assert group_replicas_path({"spec": spec}, "worker") == path


def test_a_group_that_is_not_written_is_not_made_up() -> None:
    with pytest.raises(UserError, match="no field for the replicas"):
        group_replicas_path({"spec": {"replicaSpecs": {"ps": {"template": {"worker": {"template": {}}}}}}}, "worker")


def test_one_field_is_set_and_nothing_else() -> None:
    raw: dict[str, Any] = {"spec": {"a": 1}}
    assert with_field(raw, ("spec", "b", "c"), 2) == {"spec": {"a": 1, "b": {"c": 2}}}
    assert raw == {"spec": {"a": 1}}
    assert merge_patch_for_field(("spec", "b"), 2) == {"spec": {"b": 2}}
    [aitj, *_] = FRONTENDS.values()
    assert scale_replicas_path(aitj) == ("spec", "elastic", "replicas")


def test_usage_is_summed_over_containers() -> None:
    usage = [{"usage": {"cpu": "250m", "memory": "64Mi"}}, {"usage": {"cpu": "1", "memory": "65536Ki"}}]
    assert cpu_and_memory_text({"containers": usage}) == ("1250m", "128Mi")
    assert cpu_and_memory_text({"containers": [{"usage": {"cpu": "1m", "memory": "512Ki"}}]}) == ("1m", "512Ki")
    assert cpu_and_memory_text({}) == ("0m", "0Ki")


def test_shells_are_told_every_command_and_option() -> None:
    options = {name: list_options(name) for name in COMMAND_SUMMARIES}
    assert "--tail" in dict(options["logs"])
    for script in (bash_script, zsh_script, fish_script):
        text = script(COMMAND_SUMMARIES, options)
        assert all(name in text for name in COMMAND_SUMMARIES)
        assert "pliant get -o name" in text


def test_bash_completes() -> None:
    script = bash_script(COMMAND_SUMMARIES, {name: list_options(name) for name in COMMAND_SUMMARIES})
    ask = 'COMP_WORDS=({}); COMP_CWORD={}; _pliant; echo "${{COMPREPLY[@]}}"\n'
    asked = script + ask.format("pliant wh", 1) + ask.format("pliant logs --ta", 2)
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["why", "--tail"]

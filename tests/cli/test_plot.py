"""`pliant plot`: from what is known of a job to charts and data."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.history.job_history import JobHistory, ProgressSample, ReplicaProgress, build_job_history
from pliant.cli.history.log_progress import SampleCollector
from pliant.cli.output.charts.panels import ChartAxis, ChartLine, ChartPanel
from pliant.cli.output.charts.text import TextChartOptions, render_text_charts
from pliant.cli.output.glyphs import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs
from pliant.cli.output.job_charts import history_to_dict, render_history_svg, render_history_text
from pliant.cli.output.style import TerminalStyle
from pliant.frontends import FRONTENDS
from pliant.model.messages import Message, MessageReason, message
from pliant.model.state import EngineState, JobPhase, TimelineEntry
from tests.builders import NOON, make_job
from tests.cli.asking import said, wait_for_log
from tests.cli.ordinary_user import OrdinaryUser

[AITJ, *_] = FRONTENDS.values()
RESIZED = Message(
    MessageReason.GROUPS_RESIZED, {}, (message(MessageReason.GROUP_RESIZED, group="worker", before=1, after=2),)
)
FAILED = message(MessageReason.REPLICA_EXITED, replica="worker-1", code=3)


def after(seconds: float) -> Any:
    return NOON + timedelta(seconds=seconds)


def sample(seconds: float, step: int | None = None, **metrics: float) -> ProgressSample:
    return ProgressSample(at=after(seconds), step=step, metrics=metrics)


def job_with(progress: Any) -> JobObject:
    timeline = (
        TimelineEntry(at=NOON, reason="Pending"),
        TimelineEntry(at=after(10), reason="Resized", message=RESIZED),
        TimelineEntry(at=after(20), reason="Restarting", message=FAILED),
    )
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, timeline=timeline, restart_count=1)
    raw = {"metadata": {"name": "demo", "namespace": "default"}, "status": {"progress": progress}}
    return JobObject(frontend=AITJ, raw=raw, job=make_job(), state=state)


def point(seconds: float, step: int, loss: str) -> dict[str, Any]:
    return {"time": after(seconds).isoformat(), "step": step, "metrics": {"loss": loss}}


REPORTED = {**point(40, 40, "0.1"), "history": {"points": [point(2, 2, "9"), point(20, 20, "inf"), point(30, 30, "1")]}}


def test_a_log_is_finer_than_the_history_and_the_history_is_longer_than_a_log() -> None:
    from_log = ReplicaProgress("worker-0", [sample(19.5, 19), sample(25.5, 25)])
    history = build_job_history(job_with(REPORTED), from_log, after(60))
    assert [each.step for each in history.samples] == [2, 19, 25, 30, 40]
    without = build_job_history(job_with(REPORTED), None, after(60))
    assert [each.step for each in without.samples] == [2, 20, 30, 40]
    assert (without.started_at, without.ended_at) == (NOON, after(60))


def test_sizes_and_restarts_are_those_of_the_timeline() -> None:
    history = build_job_history(job_with(None), None, after(60))
    assert [(each.at, each.group, each.size) for each in history.sizes] == [
        (NOON, "worker", 1),
        (after(10), "worker", 2),
    ]
    assert [entry.at for entry in history.restarts] == [after(20)]
    assert (history.samples, history.metrics) == ([], [])


def test_a_damaged_history_is_no_history() -> None:
    assert build_job_history(job_with({"step": 1, "history": {"points": "x"}}), None, after(60)).samples == []


def progressing(samples: list[ProgressSample], **fields: Any) -> JobHistory:
    named = {"name": "demo", "kind": "AITrainingJob", "namespace": "default", "phase": "Running"}
    return JobHistory(**{**named, "started_at": NOON, "ended_at": after(100), "samples": samples, **fields})


def test_throughput_is_measured_again_after_a_fall_back() -> None:
    history = progressing([*(sample(t, 2 * t) for t in range(5)), *(sample(t, t) for t in range(5, 8))])
    assert [each.steps_per_second for each in history.step_rates()] == [2, 2, 2, 2, None, 1, 1]


def test_losses_come_first_and_steps_stand_in_for_metrics() -> None:
    assert progressing([sample(1, 1, accuracy=1, val_loss=2)]).metrics == ["val_loss", "accuracy"]
    assert progressing([sample(1, 1)]).metrics == ["step"]


def test_a_long_log_becomes_a_bounded_number_of_samples() -> None:
    collector = SampleCollector(limit=100)
    for step in range(10_000):
        collector.add_line(f"{after(step).isoformat()} pliant: step={step}")
    steps = [each.step for each in collector.samples]
    assert 50 <= len(steps) <= 100
    assert {int(b or 0) - int(a or 0) for a, b in pairwise(steps)} == {128}


@pytest.mark.parametrize("line", ["no timestamp pliant: step=1", "2026-01-01T12:00:00 pliant: step=1", "", " step=1"])
def test_lines_without_a_time_are_no_samples(line: str) -> None:
    collector = SampleCollector()
    collector.add_line(line)
    collector.add_line("2026-01-01T12:00:00.123456789Z pliant: 45 %")
    [only] = collector.samples
    assert (only.at, only.metrics) == (after(0.123456), {"percent": 45})


def options(width: int = 60, glyphs: Glyphs = UNICODE_GLYPHS) -> TextChartOptions:
    return TextChartOptions(width=width, glyphs=glyphs, style=TerminalStyle())


FALLING = progressing(
    [sample(t, t, loss=100 - t) for t in range(101)],
    restarts=[TimelineEntry(at=after(50), reason="Restarting", message=FAILED)],
    restart_count=1,
)


def test_a_chart_falls_where_the_loss_falls() -> None:
    text = render_history_text(FALLING, ["loss"], options(45, ASCII_GLYPHS))
    assert text.splitlines()[2:12] == [
        "loss  0, from 0 to 100",
        " 100 |***                :",
        "     |   *****           :",
        "  75 |       ******      :",
        "     |            *****  :",
        "  50 |                 *****",
        "     |                   :  *****",
        "  25 |                   :      ******",
        "     |                   :           *****",
        "   0 |                   :                ***",
    ]
    assert text.splitlines()[-1] == "^ 50s worker-1 exited with code 3"


@pytest.mark.parametrize("width", [1, 20, 40, 100, 160])
@pytest.mark.parametrize("glyphs", [UNICODE_GLYPHS, ASCII_GLYPHS])
def test_charts_fit_the_width(width: int, glyphs: Glyphs) -> None:
    lines = render_history_text(FALLING, ["loss", "step"], options(width, glyphs)).splitlines()
    assert max(map(len, lines)) <= max(width, 30)
    assert "".join(lines).replace("…", "").isascii() is (glyphs is ASCII_GLYPHS)


@pytest.mark.parametrize(
    "values",
    [[], [math.nan], [1e308, -1e308], [5.0] * 3, [1.0, 1.0 + 1e-16], [1e-320, 0.0], [-3.0, -1.0], [0.0], [1e99, -1e99]],
)
@pytest.mark.parametrize("starts_at_zero", [True, False])
def test_any_values_can_be_drawn(values: list[float], starts_at_zero: bool) -> None:
    line = ChartLine(name="x", times=range(len(values)), values=values)
    panel = ChartPanel(title="x", lines=(line,), is_stepped=False, starts_at_zero=starts_at_zero)
    axis = ChartAxis.for_panel(panel)
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 12
    assert all(axis.low <= value <= axis.high for value in values if abs(value) < 1e100)
    assert render_text_charts([panel], 10.0, (), options())


def test_a_picture_shows_metrics_throughput_sizes_and_restarts() -> None:
    history = build_job_history(job_with(REPORTED), None, after(60))
    drawn = ElementTree.fromstring(render_history_svg(history, ["loss"]))
    svg = "{http://www.w3.org/2000/svg}"
    titles = " ".join(text.text or "" for text in drawn.iter(f"{svg}text"))
    assert all(word in titles for word in ("demo: Running", "loss  0.1", "steps/s", "replicas  worker 2"))
    assert {mark.text for mark in drawn.iter(f"{svg}title")} == {"worker-1 exited with code 3"}
    [loss] = [path.get("d", "") for path in drawn.iter(f"{svg}path") if path.get("stroke") == "#0969da"][:1]
    assert loss.count("M") == 2  # interrupted where the loss is infinite


def test_data_is_valid_json_whatever_was_reported() -> None:
    history = build_job_history(job_with(REPORTED), None, after(60))
    data = json.loads(json.dumps(history_to_dict(history, ["loss"]), allow_nan=False))
    assert [each["metrics"]["loss"] for each in data["samples"]] == [9.0, "inf", 1.0, 0.1]
    assert data["sizes"][1] == {"time": "2026-01-01T12:00:10.000Z", "group": "worker", "size": 2}
    assert data["restarts"][0]["message"] == "worker-1 exited with code 3"


TRAINING = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: plotted}
spec:
  cleanPodPolicy: None
  replicaSpecs:
    worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: aitj-worker
              image: any
              command:
                - sh
                - -c
                - |
                  for i in 1 2 3 4 5 6; do echo "pliant: step=$i loss=$((9 - i))"; sleep 0.3; done
                  COMMAND
"""


def test_a_job_is_plotted_as_text_as_data_and_as_a_picture(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("p.yaml", TRAINING.replace("COMMAND", "exec sleep 1000")))
    wait_for_log(cluster, "plotted", "step=6")
    drawn = said(cluster, "plot", "plotted").out
    assert "plotted: Running for" in drawn
    assert "loss  3, from 3 to 8" in drawn
    assert "replicas  worker 2" in drawn
    data = json.loads(said(cluster, "plot", "plotted", "-o", "json").out)
    assert [(each["step"], each["metrics"]) for each in data["samples"]] == [(i, {"loss": 9 - i}) for i in range(1, 7)]
    assert data["throughput"]
    assert said(cluster, "plot", "plotted", "-o", "p.svg").err.endswith("wrote p.svg\n")
    ElementTree.parse(cluster.home / "p.svg")
    refused = said(cluster, "plot", "plotted", "--metric", "los", code=2).err
    assert "--metric: plotted does not report `los`; it reports: loss, step" in refused
    assert (
        "must be text, json, yaml, FILE.svg or FILE.png" in said(cluster, "plot", "plotted", "-o", "x.jpg", code=2).err
    )
    said(cluster, "delete", "plotted", "--wait")


def test_a_job_without_progress_is_told_how_to_report(cluster: OrdinaryUser) -> None:
    silent = TRAINING.replace("plotted", "mute").replace("pliant: step=", "")
    said(cluster, "submit", cluster.write("m.yaml", silent.replace("COMMAND", "exec sleep 1000")))
    assert "print lines such as `pliant: step=10 loss=0.5`" in said(cluster, "plot", "mute", code=1).err
    said(cluster, "delete", "mute", "--wait")

"""The generated tables of docs/: the rules of the engine, reasons of events, conditions and messages, edits,
and what clients do on the embedded cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from pliant.engine.rules import RULES, never
from pliant.frontends import FRONTENDS, Frontend
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.messages import MessageReason
from pliant.model.messages import message as make_message
from pliant.model.state import EngineState, JobOutcome, JobPhase
from tests.clients.results import RESULTS, read_results, result_rows
from tests.edits.effects import Effect, documented_effects
from tests.edits.jobs import KINDS, KindKey
from tests.engine.english_examples import EXAMPLES

HERE = Path(__file__).parent
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PHASES = [phase for phase in JobPhase if phase is not JobPhase.TERMINATING]


def with_tables(text: str) -> str:
    """Return a page with its generated tables as the code defines them."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}<!-- end of table -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end of table -->", table, text, flags=re.DOTALL)


def rules_table() -> str:
    rows = (
        [
            str(number),
            f"`{rule.name}`",
            rule.condition,
            rule.while_suspended,
            "–" if rule.requeue_after is never else "yes",
        ]
        for number, rule in enumerate(RULES, 1)
    )
    return _table(["", "rule", "applies when", "while suspended", "timer"], rows)


def messages_table() -> str:
    def parameters(reason: MessageReason) -> str:
        given, _ = EXAMPLES[reason]
        names = [f"`{name}`" for name in given.parameters if name != "more"]
        return ", ".join([*names, *(["details"] if given.details else [])]) or "–"

    return _table(
        ["reason", "parameters", "example"],
        ([f"`{reason}`", parameters(reason), EXAMPLES[reason][1]] for reason in MessageReason),
    )


def conditions_table() -> str:
    """One row for each phase: the type and the reason of the condition, by kind."""
    kinds = {
        "AITrainingJob": ("elasticdeeplearning.ai", "AITrainingJob"),
        "ElasticJob": ("elastic.iml.github.io", "ElasticJob"),
        "kubeflow.org, such as PyTorchJob": ("kubeflow.org", "PyTorchJob"),
        "PaddleJob of batch.paddlepaddle.org": ("batch.paddlepaddle.org", "PaddleJob"),
        "DL kinds, such as MXJob of mpba.fbk.eu": ("mpba.fbk.eu", "MXJob"),
    }
    samples = [(FRONTENDS[key], _sample(FRONTENDS[key])) for key in kinds.values()]
    rows = ([f"`{phase}`", *(_condition(frontend, job, phase) for frontend, job in samples)] for phase in PHASES)
    return _table(["phase of the engine", *kinds], rows)


def _condition(frontend: Frontend, job: Job, phase: JobPhase) -> str:
    ended = make_message(MessageReason.TRAINING_COMPLETED)
    outcome = JobOutcome(phase=phase, message=ended, at=NOON) if phase.is_final else None
    state = EngineState(phase=phase, started_at=NOON, outcome=outcome, ended_at=NOON if outcome else None)
    status = frontend.render_status(JobStatusUpdate(state=state), {}, job)
    current = _conditions(status)[-1]
    return f"`{current['type']}`, `{current['reason']}`"


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = status.get("conditions") or status["status"]["conditions"]
    assert isinstance(found, list)
    return found


def _sample(frontend: Frontend) -> Job:
    for path in sorted(HERE.glob("*/*.in.yaml")):
        raw = yaml.safe_load(path.read_text())
        if (raw["apiVersion"].split("/")[0], raw["kind"]) == (frontend.group, frontend.kind):
            return frontend.parse(raw)
    raise AssertionError(f"no golden file of {frontend.kind} ({frontend.group})")


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def edits_table(group: str) -> str:
    """The fields of the kinds of an API group, by the time when an edit takes effect; common fields first."""
    kinds = [kind for kind in KINDS if kind[0] == group]
    by_effect: dict[Effect, dict[str, list[str]]] = {effect: {} for effect in Effect}
    for kind in kinds:
        for name, effect in documented_effects(kind).items():
            by_effect[effect].setdefault(name, []).append(kind[1])
    rows = (
        [", ".join(_edited_field(name, named, kinds) for name, named in names.items()), str(effect)]
        for effect, names in by_effect.items()
        if names
    )
    return _table(["an edit of", "takes effect"], rows)


def _edited_field(name: str, named: Sequence[str], kinds: Sequence[KindKey]) -> str:
    field, _, note = name.partition(" (")
    if note:  # some kinds have no group to add or to remove
        return f"`{field}` ({note}"
    return f"`{field}`" if len(named) == len(kinds) else f"`{field}` ({', '.join(named)})"


def client_table(name: str) -> str:
    """One row for each check that the tests of `tests/clients/test_NAME.py` make, one column for each client."""
    results = read_results(name)
    return _table(["", *results], result_rows(results))


TABLES = {"rules": rules_table, "messages": messages_table, "conditions": conditions_table}
TABLES |= {f"edits_{re.sub('[.]', '_', group)}": partial(edits_table, group) for group, _ in KINDS}
TABLES |= {f"clients_{path.stem}": partial(client_table, path.stem) for path in sorted(RESULTS.glob("*.json"))}

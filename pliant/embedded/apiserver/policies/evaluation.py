"""Evaluates one policy for one request: conditions, variables, validations and messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.apiserver.policies.compiled_policy import CompiledPolicy, Validation
from pliant.embedded.cel.environment import Program
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import CostLimitError, EvaluationError, ObjectValue

_COST_LIMIT: Final = 10_000_000
_CONDITIONS_COST_LIMIT: Final = 2_500_000
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_NO_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True, slots=True)
class Denial:
    message: str
    reason: str = "Invalid"
    is_unconditional: bool = False
    """The request is denied whatever the validationActions of the binding are."""
    is_of_policy: bool = False
    """The message does not name the binding."""


class _Failure(Exception):
    """An expression without a result."""


class _Budget:
    def __init__(self, limit: int) -> None:
        self.remaining = limit

    def charge(self, cost: int) -> None:
        self.remaining -= cost
        if self.remaining < 0:
            raise _OutOfBudget(_NO_BUDGET)


class _OutOfBudget(Exception):
    """No further expressions are evaluated."""


class _LazyVariables:
    """The variables of a policy, each evaluated when an expression first reads it."""

    def __init__(self, programs: Mapping[str, Program | str], values: Mapping[str, Any], budget: _Budget) -> None:
        self._programs = programs
        self._values = values
        self._budget = budget
        self.json_names = {name: name for name in programs}

    def convert(self, name: str, value: Any) -> Any:
        program = self._programs[name]
        if isinstance(program, str):
            raise EvaluationError(f'composited variable "{name}" fails to compile: {program}')
        result = program.evaluate(self._values)
        self._budget.charge(result.cost)
        if result.error is not None:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {result.error}')
        return result.value


def evaluate_policy(policy: CompiledPolicy, values: Mapping[str, Any], *, fails_open: bool) -> Iterator[Denial]:
    """Yield the denials of a policy; errors deny, unless its failurePolicy is Ignore."""
    try:
        if not _meets_conditions(policy, {**values, "namespaceObject": None}):
            return
        yield from _evaluate_validations(policy, values, fails_open=fails_open)
    except (_Failure, _OutOfBudget) as error:
        if not fails_open:
            yield Denial(str(error))


def _meets_conditions(policy: CompiledPolicy, values: Mapping[str, Any]) -> bool:
    """Return whether all conditions are true; a false one counts more than an error."""
    budget, problems = _Budget(_CONDITIONS_COST_LIMIT), []
    for source, program in policy.conditions:
        try:
            if not _evaluate(source, program, values, budget):
                return False
        except _Failure as error:
            problems.append(str(error))
    if problems:
        raise _Failure(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


def _evaluate_validations(policy: CompiledPolicy, values: Mapping[str, Any], *, fails_open: bool) -> Iterator[Denial]:
    budget, variables = _Budget(_COST_LIMIT), dict(values)
    fields = _LazyVariables(policy.variables, variables, budget)
    variables["variables"] = ObjectValue(fields.json_names, fields, Type("struct", "kubernetes.variables"))
    denials: list[Denial] = []
    for validation in policy.validations:
        try:
            if _evaluate(validation.definition["expression"], validation.program, variables, budget) is not True:
                reason = validation.definition.get("reason") or "Invalid"
                denials.append(Denial(_message(validation, variables, budget), reason))
        except _Failure as error:
            if not fails_open:
                denials.append(Denial(str(error)))
    for source, program in policy.annotations:
        try:
            _evaluate(source, program, variables, _Budget(_COST_LIMIT))
        except _Failure as error:
            if not fails_open:
                denials.append(Denial(str(error), is_unconditional=True))
    yield from denials


def _evaluate(source: str, program: Program | str, values: Mapping[str, Any], budget: _Budget) -> Any:
    if isinstance(program, str):
        raise _Failure(f"compilation error: {program}")
    result = program.evaluate(values)
    budget.charge(result.cost)
    if isinstance(result.error, (EvaluationError, CostLimitError)):
        raise _Failure(f"expression '{source}' resulted in error: {result.error}")
    return result.value


def _message(validation: Validation, values: Mapping[str, Any], budget: _Budget) -> str:
    """Return the result of messageExpression, or else the message, or else the expression."""
    text = ""
    if isinstance(validation.message, Program):
        result = validation.message.evaluate(values)
        budget.charge(result.cost)
        text = result.value.strip() if isinstance(result.value, str) else ""
    if not text or "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES:
        text = str(validation.definition.get("message") or "").strip()
    return text or f"failed expression: {validation.definition['expression'].strip()}"

"""The steps of an evaluation: variables, logical operators, calls and folds; each function counts its cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.costs.runtime_costs import find_call_cost
from pliant.embedded.cel.functions.operators import optional_select
from pliant.embedded.cel.values import CostLimitError, EvaluationError, OptionalValue, no_such_overload

LIST_COST: Final = 10
MAP_COST: Final = 30


class Evaluation:
    """The state of one evaluation: its variables and its cost so far."""

    __slots__ = ("cost", "deadline", "limit", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int, deadline: float) -> None:
        self.variables: dict[str, Any] = dict(variables)
        self.cost = 0
        self.limit = limit
        self.deadline = deadline
        """The CPU time of this thread at which the evaluation is cancelled like one that costs too much."""

    def require_budget(self) -> None:
        if self.cost > self.limit or time.thread_time() > self.deadline:
            raise CostLimitError


Evaluator = Callable[[Evaluation], Any]


class _Failed:
    """An accumulator whose last step failed; reading it raises the error."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def compile_ident(node: ast.Ident) -> Evaluator:
    name, type_value = node.name, node.type_value
    if type_value is not None:

        def read_type(evaluation: Evaluation) -> Any:
            evaluation.cost += 1
            return type_value

        return read_type

    def read(evaluation: Evaluation) -> Any:
        evaluation.cost += 1
        try:
            value = evaluation.variables[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        if type(value) is _Failed:
            raise value.error
        return value() if type(value) is LazyVariable else value

    return read


class LazyVariable:
    """A variable that is computed when it is first read."""

    __slots__ = ("_compute", "_error", "_value")
    _UNSET: Final = object()

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute
        self._value: Any = self._UNSET
        self._error: EvaluationError | None = None

    def __call__(self) -> Any:
        if self._error is not None:
            raise self._error
        if self._value is self._UNSET:
            try:
                self._value = self._compute()
            except EvaluationError as error:
                self._error = error
                raise
        return self._value


def compile_logical(left: Evaluator, right: Evaluator, decisive: bool) -> Evaluator:
    """Return the evaluator of `||` if True is decisive, otherwise of `&&`; an error counts only if nothing decides."""

    def evaluate(evaluation: Evaluation) -> bool:
        error: EvaluationError | None = None
        try:
            value = left(evaluation)
            if value is decisive:
                return bool(decisive)
            if type(value) is not bool:
                error = no_such_overload()
        except EvaluationError as raised:
            error = raised
        value = right(evaluation) if error is None else _try(right, evaluation, decisive, error)
        if type(value) is not bool:
            raise error or no_such_overload()
        if value is not decisive and error is not None:
            raise error
        return bool(value)

    return evaluate


def _try(right: Evaluator, evaluation: Evaluation, decisive: bool, error: EvaluationError) -> Any:
    try:
        return right(evaluation)
    except EvaluationError:
        raise error from None


def compile_conditional(condition: Evaluator, positive: Evaluator, negative: Evaluator) -> Evaluator:
    def evaluate(evaluation: Evaluation) -> Any:
        value = condition(evaluation)
        if type(value) is not bool:
            raise no_such_overload()
        return positive(evaluation) if value else negative(evaluation)

    return evaluate


def compile_not_strictly_false(operand: Evaluator) -> Evaluator:
    def evaluate(evaluation: Evaluation) -> bool:
        try:
            value = operand(evaluation)
        except EvaluationError:
            value = True
        evaluation.cost += 1
        return value is not False

    return evaluate


def compile_optional_select(operand: Evaluator, field: ast.Expression) -> Evaluator:
    assert isinstance(field, ast.Literal)
    name = field.value

    def evaluate(evaluation: Evaluation) -> OptionalValue:
        value = operand(evaluation)
        evaluation.cost += 1
        return optional_select(value, name)

    return evaluate


def compile_or(target: Evaluator, alternative: Evaluator, is_value: bool) -> Evaluator:
    def evaluate(evaluation: Evaluation) -> Any:
        value = require_optional(target(evaluation))
        if value.is_set:
            return value.value if is_value else value
        return alternative(evaluation)

    return evaluate


def compile_index(container: Evaluator, key: Evaluator, implementation: Callable[..., Any]) -> Evaluator:
    def evaluate(evaluation: Evaluation) -> Any:
        value, position = container(evaluation), key(evaluation)
        evaluation.cost += 1
        return implementation(value, position)

    return evaluate


def compile_function(node: ast.Call, operands: list[Evaluator], implementation: Callable[..., Any]) -> Evaluator:
    overload = node.overloads[0] if len(node.overloads) == 1 else ""
    call_cost = find_call_cost(node.function, overload, [operand.type for operand in node.operands])
    if call_cost is None and len(operands) == 2:
        left, right = operands

        def call_two(evaluation: Evaluation) -> Any:
            result = implementation(left(evaluation), right(evaluation))
            evaluation.cost += 1
            return result

        return call_two

    def call(evaluation: Evaluation) -> Any:
        arguments = [operand(evaluation) for operand in operands]
        if call_cost is None:
            evaluation.cost += 1
            return implementation(*arguments)
        result = implementation(*arguments)
        evaluation.cost += call_cost(arguments, result)
        evaluation.require_budget()
        return result

    return call


def compile_bind(name: str, initial: Evaluator, result: Evaluator) -> Evaluator:
    def evaluate(evaluation: Evaluation) -> Any:
        variables = evaluation.variables
        previous = variables.get(name, _ABSENT)
        try:
            variables[name] = initial(evaluation)
            return result(evaluation)
        finally:
            _restore(variables, name, previous)

    return evaluate


_ABSENT: Final = object()


def _restore(variables: dict[str, Any], name: str, previous: Any) -> None:
    if previous is _ABSENT:
        variables.pop(name, None)
    else:
        variables[name] = previous


def compile_fold(
    node: ast.Comprehension,
    elements: Evaluator,
    initial: Evaluator,
    condition: Evaluator,
    step: Evaluator,
    result: Evaluator,
) -> Evaluator:
    accumulator, variable, second = node.accumulator, node.variable, node.second_variable
    is_unconditional = isinstance(node.condition, ast.Literal)

    def fold(evaluation: Evaluation) -> Any:
        values = _iterate(elements(evaluation), has_second=bool(second))
        variables = evaluation.variables
        names = (accumulator, variable, second)
        previous = [variables.get(name, _ABSENT) for name in names]
        variables[accumulator] = initial(evaluation)
        try:
            for value in values:
                if not is_unconditional and not condition(evaluation):
                    break
                evaluation.require_budget()
                if second:
                    variables[variable], variables[second] = value
                else:
                    variables[variable] = value
                try:
                    variables[accumulator] = step(evaluation)
                except EvaluationError as error:
                    if is_unconditional:
                        raise
                    variables[accumulator] = _Failed(error)
            return result(evaluation)
        finally:
            for name, before in zip(names, previous, strict=True):
                _restore(variables, name, before)

    return fold


def _iterate(values: Any, *, has_second: bool) -> Any:
    if isinstance(values, list):
        return enumerate(values) if has_second else values
    if isinstance(values, Mapping):
        return [(key, values[key]) for key in values] if has_second else list(values)
    name = type(values).__name__
    raise EvaluationError(f"got 'types.{_GO_TYPES.get(name, name)}', expected iterable type")


_GO_TYPES: Final = {"int": "Int", "str": "String", "float": "Double", "bool": "Bool", "UInt": "Uint", "bytes": "Bytes"}


def require_optional(value: Any) -> OptionalValue:
    if type(value) is not OptionalValue:
        raise no_such_overload()
    return value

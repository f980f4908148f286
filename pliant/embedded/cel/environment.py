"""Compiles expressions against variables and object types, and evaluates them with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.checker import check
from pliant.embedded.cel.deadline import set_deadline
from pliant.embedded.cel.evaluation_steps import Evaluation, Evaluator
from pliant.embedded.cel.evaluator import compile_evaluator
from pliant.embedded.cel.functions.conversions import declare_conversions
from pliant.embedded.cel.functions.declarations import Function, Library
from pliant.embedded.cel.functions.lists import declare_list_functions, declare_optional_functions
from pliant.embedded.cel.functions.operators import declare_operators
from pliant.embedded.cel.functions.regex_functions import declare_regex_functions
from pliant.embedded.cel.functions.strings import declare_string_functions
from pliant.embedded.cel.functions.time import declare_time_functions
from pliant.embedded.cel.literals import find_literal_errors
from pliant.embedded.cel.parser import parse
from pliant.embedded.cel.source_errors import CompileError, SourceError
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import CostLimitError, EvaluationError

CALL_COST_LIMIT: Final = 1_000_000
"""The cost of one evaluation, as in Kubernetes."""
MAX_EVALUATION_SECONDS: Final = 1.0
"""The CPU time of one evaluation; within it, what costs less than the limit always completes."""


@lru_cache(maxsize=1)
def _standard_library() -> Library:
    """Return the functions that most expressions call."""
    library = Library()
    for declare in (
        declare_operators,
        declare_conversions,
        declare_string_functions,
        declare_regex_functions,
        declare_time_functions,
        declare_list_functions,
        declare_optional_functions,
    ):
        declare(library)
    return library


_KUBERNETES_NAMESPACES: Final = ("format", "ip")


@lru_cache(maxsize=1)
def _add_kubernetes_functions() -> None:
    """Add the functions that few expressions call: importing them takes as long as importing the others."""
    from pliant.embedded.cel.functions.authorizer import declare_authorizer_functions
    from pliant.embedded.cel.functions.named_formats import declare_format_functions
    from pliant.embedded.cel.functions.network import declare_network_functions
    from pliant.embedded.cel.functions.quantity import declare_quantity_functions
    from pliant.embedded.cel.functions.semver import declare_semver_functions

    library = _standard_library()
    for declare in (
        declare_quantity_functions,
        declare_network_functions,
        declare_semver_functions,
        declare_format_functions,
        declare_authorizer_functions,
    ):
        declare(library)


def find_function(name: str) -> Function | None:
    """Return a function that expressions may call."""
    functions = _standard_library().functions
    if name not in functions and name.partition(".")[0] in (name, *_KUBERNETES_NAMESPACES):
        _add_kubernetes_functions()
    return functions.get(name)


@dataclass(frozen=True, slots=True)
class Environment:
    """What expressions may refer to."""

    variables: Mapping[str, Type]
    find_field_type: Callable[[str, str], Type | None] = lambda struct, field: None
    """Returns the type of a field of an object type."""

    def find_function(self, name: str) -> Function | None:
        return find_function(name)

    def find_field(self, struct: Type, name: str) -> tuple[str, Type] | None:
        for known in (name, f"__{name}__"):  # reserved words are escaped, but may be written as they are
            found = self.find_field_type(struct.name, known)
            if found is not None:
                return known, found
        return None


@dataclass(frozen=True, slots=True)
class Result:
    """A value or an error, and what the evaluation has cost."""

    value: Any
    error: EvaluationError | CostLimitError | None
    cost: int


class Program:
    """A checked expression."""

    def __init__(self, expression: ast.Expression, result_type: Type, evaluate: Evaluator) -> None:
        self.expression = expression
        self.result_type = result_type
        self._evaluate = evaluate

    def uses(self, variable: str) -> bool:
        return any(isinstance(node, ast.Ident) and node.name == variable for node in self.expression.walk())

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_COST_LIMIT) -> Result:
        """Return the result of an evaluation; it never raises."""
        deadline = time.thread_time() + MAX_EVALUATION_SECONDS
        evaluation = Evaluation(variables, limit, deadline)
        before = set_deadline(deadline)
        try:
            value = self._evaluate(evaluation)
            evaluation.require_budget()
        except (EvaluationError, CostLimitError) as error:
            return Result(None, error, evaluation.cost)
        except RecursionError:
            return Result(None, EvaluationError("expression nests too deeply"), evaluation.cost)
        finally:
            set_deadline(before)
        return Result(value, None, evaluation.cost)


def compile_expression(source: str, environment: Environment) -> Program:
    """Return a program; raise CompileError if the expression cannot be parsed or has a type error."""
    try:
        expression = parse(source)
        result_type = check(source, expression, environment)
        if errors := list(find_literal_errors(expression)):
            raise CompileError(source, errors)
        return Program(expression, result_type, compile_evaluator(expression, environment.find_function))
    except RecursionError:
        raise CompileError(source, [SourceError(0, "expression nests too deeply")]) from None

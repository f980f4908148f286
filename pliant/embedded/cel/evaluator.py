"""Compiles a checked expression to Python functions that count the cost of what they evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.evaluation_steps import (
    LIST_COST,
    MAP_COST,
    Evaluation,
    Evaluator,
    compile_bind,
    compile_conditional,
    compile_fold,
    compile_function,
    compile_ident,
    compile_index,
    compile_logical,
    compile_not_strictly_false,
    compile_optional_select,
    compile_or,
    require_optional,
)
from pliant.embedded.cel.functions.declarations import Function
from pliant.embedded.cel.functions.operators import has_field, select_field
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import EvaluationError

FindFunction = Callable[[str], Function | None]


def compile_evaluator(node: ast.Expression, find_function: FindFunction) -> Evaluator:
    """Return a function that evaluates a checked expression."""
    return _Compiler(find_function).compile(node)


class _Compiler:
    def __init__(self, find_function: FindFunction) -> None:
        self._find_function = find_function

    def compile(self, node: ast.Expression) -> Evaluator:
        match node:
            case ast.Literal():
                value = node.value
                return lambda evaluation: value
            case ast.Ident():
                return compile_ident(node)
            case ast.Select():
                return self._compile_select(node)
            case ast.Call():
                return self._compile_call(node)
            case ast.CreateList():
                return self._compile_list(node)
            case ast.CreateMap():
                return self._compile_map(node)
            case ast.Comprehension():
                return self._compile_comprehension(node)
        raise AssertionError(node)

    def _compile_select(self, node: ast.Select) -> Evaluator:
        if node.resolved is not None:
            return compile_ident(node.resolved)
        operand, field = self.compile(node.operand), node.field
        if node.is_test:
            return lambda evaluation: has_field(operand(evaluation), field)

        def select(evaluation: Evaluation) -> Any:
            value = operand(evaluation)
            evaluation.cost += 1
            return select_field(value, field)

        return select

    def _compile_call(self, node: ast.Call) -> Evaluator:
        match node.function:
            case "_&&_" | "_||_":
                return compile_logical(self.compile(node.args[0]), self.compile(node.args[1]), node.function == "_||_")
            case "_?_:_":
                return compile_conditional(*(self.compile(argument) for argument in node.args))
            case "@not_strictly_false":
                return compile_not_strictly_false(self.compile(node.args[0]))
            case "_?._":
                return compile_optional_select(self.compile(node.args[0]), node.args[1])
            case "or" | "orValue" if node.target is not None and node.overloads[0].startswith("optional_or"):
                return compile_or(self.compile(node.target), self.compile(node.args[0]), node.function == "orValue")
            case "_[_]":
                container, key = map(self.compile, node.args)
                return compile_index(container, key, self._implementation(node))
        return compile_function(node, [self.compile(each) for each in node.operands], self._implementation(node))

    def _implementation(self, node: ast.Call) -> Callable[..., Any]:
        function = self._find_function(node.function)
        assert function is not None
        if function.common is None and len(node.overloads) == 1 and all(_is_known(each.type) for each in node.operands):
            return next(each.implementation for each in function.overloads if each.id == node.overloads[0])
        return function.select(node.overloads)

    def _compile_list(self, node: ast.CreateList) -> Evaluator:
        elements = [self.compile(element) for element in node.elements]
        optional = node.optional_indices

        def create(evaluation: Evaluation) -> list[Any]:
            values = [element(evaluation) for element in elements]
            evaluation.cost += LIST_COST
            if optional:
                values = [
                    value.value if index in optional else value
                    for index, value in enumerate(values)
                    if index not in optional or require_optional(value).is_set
                ]
            return values

        return create

    def _compile_map(self, node: ast.CreateMap) -> Evaluator:
        entries = [(self.compile(key), self.compile(value), optional) for key, value, optional in node.entries]

        def create(evaluation: Evaluation) -> dict[Any, Any]:
            created: dict[Any, Any] = {}
            for key, value, is_optional in entries:
                name, content = key(evaluation), value(evaluation)
                if is_optional:
                    content = require_optional(content)
                    if not content.is_set:
                        continue
                    content = content.value
                if name in created:
                    raise EvaluationError(f"Failed with repeated key: {name}")
                created[name] = content
            evaluation.cost += MAP_COST
            return created

        return create

    def _compile_comprehension(self, node: ast.Comprehension) -> Evaluator:
        initial, result = self.compile(node.initial), self.compile(node.result)
        if node.is_bind:
            return compile_bind(node.accumulator, initial, result)
        parts = (initial, self.compile(node.condition), self._compile_step(node), result)
        return compile_fold(node, self.compile(node.range), *parts)

    def _compile_step(self, node: ast.Comprehension) -> Evaluator:
        """Append to the list of map and filter in place: a new list for each element would take quadratic time."""
        step = node.step
        if isinstance(step, ast.Call) and step.function == "_?_:_" and _is_append(step.args[1]):
            condition, append = self.compile(step.args[0]), self._compile_append(node, step.args[1])
            keep = self.compile(step.args[2])
            return compile_conditional(condition, append, keep)
        return self._compile_append(node, step) if _is_append(step) else self.compile(step)

    def _compile_append(self, node: ast.Comprehension, step: ast.Expression) -> Evaluator:
        assert isinstance(step, ast.Call)
        created = step.args[1]
        assert isinstance(created, ast.CreateList)
        accumulator, element = node.accumulator, self.compile(created.elements[0])

        def append(evaluation: Evaluation) -> Any:
            value = element(evaluation)
            evaluation.cost += LIST_COST + 2
            elements = evaluation.variables[accumulator]
            elements.append(value)
            return elements

        return append


def _is_known(value: Type) -> bool:
    """Return whether values certainly have this type; null is a value of many types."""
    return not value.is_dyn and value.kind != "null" and all(map(_is_known, value.params))


def _is_append(step: ast.Expression) -> bool:
    if not (isinstance(step, ast.Call) and step.function == "_+_"):
        return False
    left, right = step.args
    return isinstance(left, ast.Ident) and left.name == ast.ACCUMULATOR and isinstance(right, ast.CreateList)

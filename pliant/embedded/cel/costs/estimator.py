"""Estimates what an expression costs at most, from the largest sizes that the schema allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.costs.call_estimates import Argument, estimate_call
from pliant.embedded.cel.costs.estimates import MAX, NOTHING, ONE, UNKNOWN, Range
from pliant.embedded.cel.types import Type

Path = tuple[str, ...]
SizeOfPath = Callable[[Path], Range | None]
"""Returns the size of a field, such as `("self", "spec", "list", "@items")`."""


def estimate_cost(expression: ast.Expression, size_of_path: SizeOfPath) -> int:
    """Return the highest cost of a checked expression."""
    return _Estimator(size_of_path).cost(expression).high


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of the keys and values of a list or map that the expression creates."""

    kind: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Variable:
    path: Path
    size: Range | None
    entries: _Entries | None = None


class _Estimator:
    def __init__(self, size_of_path: SizeOfPath) -> None:
        self._size_of_path = size_of_path
        self._paths: dict[ast.Expression, Path] = {}
        self._sizes: dict[ast.Expression, Range] = {}
        self._entries: dict[ast.Expression, _Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}

    def cost(self, node: ast.Expression) -> Range:
        match node:
            case ast.Ident():
                variable = self._find(node)
                self._paths[node] = variable.path if variable is not None else (node.name,)
                return ONE
            case ast.Select():
                return self._cost_of_select(node)
            case ast.Call():
                return self._cost_of_call(node)
            case ast.CreateList():
                return self._cost_of_list(node)
            case ast.CreateMap():
                return self._cost_of_map(node)
            case ast.Comprehension():
                return self._cost_of_bind(node) if node.is_bind else self._cost_of_fold(node)
        return NOTHING

    def _find(self, node: ast.Expression) -> _Variable | None:
        stack = self._variables.get(node.name) if isinstance(node, ast.Ident) else None
        return stack[-1] if stack else None

    def _path(self, node: ast.Expression) -> Path:
        variable = self._find(node)
        return variable.path if variable is not None else self._paths.get(node, ())

    def _cost_of_select(self, node: ast.Select) -> Range:
        if node.resolved is not None:
            return self.cost(node.resolved)
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        self._paths[node] = (*self._path(node.operand), node.field)
        return cost + ONE if node.operand.type.kind in ("map", "struct", "param") else cost

    def _size(self, node: ast.Expression) -> Range | None:
        if node in self._sizes:
            return self._sizes[node]
        if isinstance(node, ast.Literal):
            length = len(node.value) if isinstance(node.value, (str, bytes)) else 1
            return Range(length, length)
        if isinstance(node, ast.CreateList):
            return Range(len(node.elements), len(node.elements))
        if isinstance(node, ast.CreateMap):
            return Range(len(node.entries), len(node.entries))
        path = self._path(node)
        size = self._size_of_path(path) if path else None
        if size is not None:
            self._sizes[node] = size
            return size
        if _is_scalar(node.type):
            return ONE
        variable = self._find(node)
        return variable.size if variable is not None else None

    def _known_size(self, node: ast.Expression) -> Range:
        size = self._size(node)
        return size if size is not None else UNKNOWN

    def _entries_of(self, node: ast.Expression) -> _Entries | None:
        if node in self._entries:
            return self._entries[node]
        variable = self._find(node)
        return variable.entries if variable is not None else None

    def _argument(self, node: ast.Expression) -> Argument:
        path = self._path(node)
        if path and path[0] == ast.ACCUMULATOR:
            path = ()
        element_size = self._size_of_path((*path, "@items")) if path and node.type.kind == "list" else None
        return Argument(node.type, self._known_size(node), element_size or UNKNOWN, node)

    def _cost_of_call(self, node: ast.Call) -> Range:
        if node.function == "dyn":
            cost = ONE + self.cost(node.args[0])
            self._copy(node, node.args[0])
            return cost
        costs = [self.cost(argument) for argument in node.args]
        target_cost = self.cost(node.target) if node.target is not None else NOTHING
        if node.function in ("_&&_", "_||_"):
            return Range(costs[0].low, (costs[0] + costs[1]).high)
        if node.function == "_?_:_":
            return self._cost_of_conditional(node, costs)
        total = sum(costs, target_cost)
        arguments = [self._argument(operand) for operand in node.operands]
        call_cost, size = Range(MAX, 0), None
        for overload in node.overloads:
            estimate = estimate_call(node.function, overload, arguments)
            call_cost = call_cost.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            size = self._index_size(node, overload) or size
        if node.function == "_+_":
            self._join_entries(node, node.args[0], node.args[1])
        size = size if size is not None else self._size(node)
        if size is not None:
            self._sizes[node] = size
        return total + call_cost if node.overloads else NOTHING

    def _index_size(self, node: ast.Call, overload: str) -> Range | None:
        if overload not in ("index_list", "index_map"):
            return None
        entries = self._entries_of(node.args[0])
        self._paths[node] = (*self._path(node.args[0]), "@items" if overload == "index_list" else "@values")
        return entries.value if entries is not None else None

    def _cost_of_conditional(self, node: ast.Call, costs: list[Range]) -> Range:
        _, positive, negative = node.args
        self._sizes[node] = self._known_size(positive).union(self._known_size(negative))
        self._join_entries(node, positive, negative)
        return costs[0] + costs[1].union(costs[2])

    def _join_entries(self, node: ast.Expression, left: ast.Expression, right: ast.Expression) -> None:
        one, other = self._entries_of(left), self._entries_of(right)
        if one is not None and other is not None:
            self._entries[node] = _Entries(one.kind, one.key.union(other.key), one.value.union(other.value))

    def _copy(self, node: ast.Expression, source: ast.Expression) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[node] = size
        if entries is not None:
            self._entries[node] = entries

    def _cost_of_list(self, node: ast.CreateList) -> Range:
        cost = sum(map(self.cost, node.elements), Range(10, 10))
        size = self._union_of_sizes(node.elements)
        self._entries[node] = _Entries("list", ONE, size)
        return cost

    def _cost_of_map(self, node: ast.CreateMap) -> Range:
        keys, values = [key for key, _, _ in node.entries], [value for _, value, _ in node.entries]
        cost = sum(map(self.cost, [*keys, *values]), Range(30, 30))
        self._entries[node] = _Entries("map", self._union_of_sizes(keys), self._union_of_sizes(values))
        return cost

    def _union_of_sizes(self, nodes: list[ast.Expression]) -> Range:
        size = Range(MAX if nodes else 0, 0)
        for node in nodes:
            size = size.union(self._known_size(node))
        return size

    def _cost_of_fold(self, node: ast.Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        accumulator = _Variable(self._path(node.initial), self._size(node.initial), self._entries_of(node.initial))
        self._push(node.accumulator, accumulator)
        variables = self._loop_variables(node)
        for name, variable in variables:
            self._push(name, variable)
        loop_cost = self.cost(node.condition)
        step_cost = self.cost(node.step)
        for name, _ in variables:
            self._variables[name].pop()
        cost += self.cost(node.result)
        self._variables[node.accumulator].pop()
        count = self._known_size(node.range)
        if isinstance(node.initial, ast.Literal):
            self._sizes[node] = self._known_size(node.initial)
        elif isinstance(node.initial, (ast.CreateList, ast.CreateMap)):
            self._sizes[node] = count
            entries = self._entries_of(node.step)
            if entries is not None:
                self._entries[node] = entries
        return cost + count * (step_cost + loop_cost)

    def _loop_variables(self, node: ast.Comprehension) -> list[tuple[str, _Variable]]:
        entries, path = self._entries_of(node.range), self._path(node.range)
        kind = entries.kind if entries is not None else node.range.type.kind
        key = _Variable((*path, "@indices" if kind == "list" else "@keys"), entries.key if entries else None)
        value = _Variable((*path, "@items" if kind == "list" else "@values"), entries.value if entries else None)
        if node.second_variable:
            return [(node.variable, key), (node.second_variable, value)]
        return [(node.variable, value if kind == "list" else key)]

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _cost_of_bind(self, node: ast.Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        variable = _Variable(self._path(node.initial), self._size(node.initial), self._entries_of(node.initial))
        self._push(node.accumulator, variable)
        cost += self.cost(node.result)
        self._variables[node.accumulator].pop()
        self._copy(node, node.result)
        return cost


def _is_scalar(value: Type) -> bool:
    if value.is_optional:
        return _is_scalar(value.params[0])
    return value.kind in ("bool", "double", "duration", "int", "timestamp", "uint")

"""Macros: calls such as `list.all(x, …)` that stand for a comprehension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.source_errors import CompileError, SourceError

_ACCUMULATORS: Final = (ast.ACCUMULATOR, "__result__")


def expand_macro(source: str, call: ast.Call) -> ast.Expression:
    """Return the expansion of a call that is a macro, or the call itself; raise CompileError."""
    key = (call.function, call.target is not None, len(call.args))
    expand = _MACROS.get(key)
    return _Expander(source, call).expand(expand) if expand is not None else call


class _Expander:
    def __init__(self, source: str, call: ast.Call) -> None:
        self._source = source
        self._call = call
        self.position = call.position
        self.args = call.args

    def expand(self, macro: Callable[[_Expander], ast.Expression]) -> ast.Expression:
        return macro(self)

    @property
    def target(self) -> ast.Expression:
        assert self._call.target is not None
        return self._call.target

    def error(self, expression: ast.Expression, message: str) -> CompileError:
        return CompileError(self._source, [SourceError(expression.position, message)])

    def variable(self, index: int, message: str) -> str:
        argument = self.args[index]
        if not isinstance(argument, ast.Ident):
            raise self.error(argument, message)
        if argument.name in _ACCUMULATORS:
            raise self.error(argument, "iteration variable overwrites accumulator variable")
        return argument.name

    def variables(self) -> tuple[str, str]:
        message = "argument must be a simple name"
        first, second = self.variable(0, message), self.variable(1, message)
        if first == second:
            raise self.error(self.args[1], f"duplicate variable name: {first}")
        return first, second

    def literal(self, value: object) -> ast.Expression:
        return ast.Literal(self.position, value)

    def result(self) -> ast.Expression:
        return ast.Ident(self.position, ast.ACCUMULATOR)

    def call(self, function: str, *args: ast.Expression, target: ast.Expression | None = None) -> ast.Expression:
        return ast.Call(self.position, function, list(args), target)

    def fold(
        self,
        names: tuple[str, str],
        initial: ast.Expression,
        step: ast.Expression,
        *,
        condition: ast.Expression | None = None,
        result: ast.Expression | None = None,
    ) -> ast.Expression:
        return ast.Comprehension(
            self.position,
            self.target,
            *names,
            ast.ACCUMULATOR,
            initial,
            condition or self.literal(True),
            step,
            result or self.result(),
        )


def _names(e: _Expander, count: int) -> tuple[str, str]:
    return e.variables() if count == 2 else (e.variable(0, "argument must be a simple name"), "")


def _all(count: int) -> Callable[[_Expander], ast.Expression]:
    def expand(e: _Expander) -> ast.Expression:
        step = e.call("_&&_", e.result(), e.args[count])
        condition = e.call("@not_strictly_false", e.result())
        return e.fold(_names(e, count), e.literal(True), step, condition=condition)

    return expand


def _exists(count: int) -> Callable[[_Expander], ast.Expression]:
    def expand(e: _Expander) -> ast.Expression:
        step = e.call("_||_", e.result(), e.args[count])
        condition = e.call("@not_strictly_false", e.call("!_", e.result()))
        return e.fold(_names(e, count), e.literal(False), step, condition=condition)

    return expand


def _exists_one(count: int) -> Callable[[_Expander], ast.Expression]:
    def expand(e: _Expander) -> ast.Expression:
        increment = e.call("_+_", e.result(), e.literal(1))
        step = e.call("_?_:_", e.args[count], increment, e.result())
        result = e.call("_==_", e.result(), e.literal(1))
        return e.fold(_names(e, count), e.literal(0), step, result=result)

    return expand


def _append(e: _Expander, element: ast.Expression, condition: ast.Expression | None) -> ast.Expression:
    step = e.call("_+_", e.result(), ast.CreateList(e.position, [element]))
    return step if condition is None else e.call("_?_:_", condition, step, e.result())


def _map(e: _Expander) -> ast.Expression:
    name = e.variable(0, "argument is not an identifier")
    condition = e.args[1] if len(e.args) == 3 else None
    return e.fold((name, ""), ast.CreateList(e.position, []), _append(e, e.args[-1], condition))


def _filter(e: _Expander) -> ast.Expression:
    name = e.variable(0, "argument is not an identifier")
    element = ast.Ident(e.args[0].position, name)
    return e.fold((name, ""), ast.CreateList(e.position, []), _append(e, element, e.args[1]))


def _transform_list(e: _Expander) -> ast.Expression:
    condition = e.args[2] if len(e.args) == 4 else None
    return e.fold(e.variables(), ast.CreateList(e.position, []), _append(e, e.args[-1], condition))


def _transform_map(*, has_key: bool) -> Callable[[_Expander], ast.Expression]:
    def expand(e: _Expander) -> ast.Expression:
        names = e.variables()
        key = [ast.Ident(e.position, names[0])] if has_key else []
        step = e.call("cel.@mapInsert", e.result(), *key, e.args[-1])
        if len(e.args) == 4:
            step = e.call("_?_:_", e.args[2], step, e.result())
        return e.fold(names, ast.CreateMap(e.position, []), step)

    return expand


def _has(e: _Expander) -> ast.Expression:
    argument = e.args[0]
    if not isinstance(argument, ast.Select):
        raise e.error(argument, "invalid argument to has() macro")
    return ast.Select(e.position, argument.operand, argument.field, is_test=True)


def _opt_map(*, flat: bool) -> Callable[[_Expander], ast.Expression]:
    def expand(e: _Expander) -> ast.Expression:
        name = e.variable(0, f"opt{'FlatMap' if flat else 'Map'}() variable name must be a simple identifier")
        value = e.call("value", target=e.target)
        bound = ast.Comprehension(
            e.position,
            ast.CreateList(e.position, []),
            "#unused",
            "",
            name,
            value,
            e.literal(False),
            ast.Ident(e.position, name),
            e.args[1],
        )
        some = bound if flat else e.call("optional.of", bound)
        return e.call("_?_:_", e.call("hasValue", target=e.target), some, e.call("optional.none"))

    return expand


def _sort_by(e: _Expander) -> ast.Expression:
    name, source = e.variable(0, "argument is not an identifier"), "@__sortBy_input__"
    elements = ast.Ident(e.position, source)
    keys = ast.Comprehension(
        e.position,
        elements,
        name,
        "",
        ast.ACCUMULATOR,
        ast.CreateList(e.position, []),
        e.literal(True),
        _append(e, e.args[1], None),
        e.result(),
    )
    sort = e.call("@sortByAssociatedKeys", keys, target=elements)
    nothing = ast.CreateList(e.position, [])
    return ast.Comprehension(e.position, nothing, "#unused", "", source, e.target, e.literal(False), elements, sort)


_MACROS: Final[dict[tuple[str, bool, int], Callable[[_Expander], ast.Expression]]] = {
    ("has", False, 1): _has,
    **{("all", True, count + 1): _all(count) for count in (1, 2)},
    **{("exists", True, count + 1): _exists(count) for count in (1, 2)},
    ("exists_one", True, 2): _exists_one(1),
    **{("existsOne", True, count + 1): _exists_one(count) for count in (1, 2)},
    ("map", True, 2): _map,
    ("map", True, 3): _map,
    ("filter", True, 2): _filter,
    ("sortBy", True, 2): _sort_by,
    ("transformList", True, 3): _transform_list,
    ("transformList", True, 4): _transform_list,
    **{("transformMap", True, count): _transform_map(has_key=True) for count in (3, 4)},
    **{("transformMapEntry", True, count): _transform_map(has_key=False) for count in (3, 4)},
    ("optMap", True, 2): _opt_map(flat=False),
    ("optFlatMap", True, 2): _opt_map(flat=True),
}

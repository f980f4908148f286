"""Checks the types of an expression, and finds the overloads of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Function, Overload
from pliant.embedded.cel.source_errors import CompileError, SourceError
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.unification import Bindings, assign, most_general, substitute
from pliant.embedded.cel.values import type_of_value


class Declarations(Protocol):
    """What an expression may refer to."""

    @property
    def variables(self) -> Mapping[str, Type]:
        """The types of the variables."""

    def find_function(self, name: str) -> Function | None:
        """Return a function."""

    def find_field(self, struct: Type, name: str) -> tuple[str, Type] | None:
        """Return the name of a field of an object, which may be escaped, and its type."""


def check(source: str, expression: ast.Expression, declarations: Declarations) -> Type:
    """Set the types in a syntax tree and return the type of the result; raise CompileError."""
    checker = _Checker(declarations)
    checker.check(expression)
    if checker.errors:
        raise CompileError(source, checker.errors)
    for node in checker.nodes:
        node.type = substitute(checker.bindings, node.type, unbound_to_dyn=True)
    return expression.type


class _Checker:
    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations
        self._scopes: list[dict[str, Type]] = []
        self._parameter_count = 0
        self.bindings: Bindings = {}
        self.errors: list[SourceError] = []
        self.nodes: list[ast.Expression] = []

    def check(self, node: ast.Expression) -> Type:
        match node:
            case ast.Literal():
                node.type = type_of_value(node.value)
            case ast.Ident():
                node.type = self._check_ident(node)
            case ast.Select():
                node.type = self._check_select(node)
            case ast.Call():
                node.type = self._check_call(node)
            case ast.CreateList():
                node.type = self._check_list(node)
            case ast.CreateMap():
                node.type = self._check_map(node)
            case ast.CreateStruct():
                node.type = self._check_struct(node)
            case ast.Comprehension():
                node.type = self._check_comprehension(node)
        self.nodes.append(node)
        return node.type

    def _error(self, node: ast.Expression, message: str) -> Type:
        error = SourceError(node.position, message)
        if error not in self.errors:
            self.errors.append(error)
        return types.ERROR

    def _find_variable(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._declarations.variables.get(name)

    def _check_name(self, node: ast.Ident) -> Type | None:
        found = self._find_variable(node.name)
        if found is None and node.name in types.NAMED_TYPES:
            node.type_value = substitute({}, types.NAMED_TYPES[node.name], unbound_to_dyn=True)
            return types.TYPE if node.type_value is types.TYPE else types.type_of(node.type_value)
        return found

    def _check_ident(self, node: ast.Ident) -> Type:
        found = self._check_name(node)
        return found if found is not None else self._undeclared(node, node.name)

    def _undeclared(self, node: ast.Expression, name: str) -> Type:
        return self._error(node, f"undeclared reference to '{name}' (in container '')")

    def _check_select(self, node: ast.Select) -> Type:
        name = ast.qualified_name(node)
        if name is not None:
            ident = ast.Ident(node.position, name)
            found = self._check_name(ident)
            if found is not None:
                ident.type = found
                node.resolved = ident
                return found
        result = self._check_field(node, node.operand, node.field)
        return types.BOOL if node.is_test else substitute(self.bindings, result)

    def _check_field(
        self, node: ast.Expression, operand: ast.Expression, field: str, *, is_optional: bool = False
    ) -> Type:
        operand_type = substitute(self.bindings, self.check(operand))
        target = operand_type.params[0] if operand_type.is_optional else operand_type
        result = types.ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            found = self._declarations.find_field(target, field)
            if found is None:
                result = self._error(node, f"undefined field '{field}'")
            else:
                _set_field(node, found[0])
                result = found[1]
        elif target.kind == "param":
            self._assign([types.DYN], [target])
            result = types.DYN
        else:
            if not target.is_dyn:
                self._error(node, f"type '{target}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if operand_type.is_optional or is_optional else result

    def _check_call(self, node: ast.Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, ast.Literal)
            result = self._check_field(node, node.args[0], field.value, is_optional=True)
            field.type = types.STRING
            node.overloads = ["select_optional_field"]
            return substitute(self.bindings, result)
        for argument in node.args:
            self.check(argument)
        if node.target is not None:
            prefix = ast.qualified_name(node.target)
            qualified = self._declarations.find_function(f"{prefix}.{node.function}") if prefix else None
            if qualified is not None:
                node.function, node.target = qualified.name, None
                return self._resolve(node, qualified)
            self.check(node.target)
        function = self._declarations.find_function(node.function)
        return self._resolve(node, function) if function is not None else self._undeclared(node, node.function)

    def _resolve(self, node: ast.Call, function: Function) -> Type:
        arguments = [operand.type for operand in node.operands]
        if function.name in ("_&&_", "_||_"):
            node.overloads = [function.overloads[0].id]
            mismatched = [self._require(argument, types.BOOL) for argument in node.args]
            return types.BOOL if all(mismatched) else types.ERROR
        result: Type | None = None
        node.overloads = []
        for overload in function.overloads:
            if overload.is_member != (node.target is not None):
                continue
            params, overload_result = self._instantiate(overload)
            if not self._assign(arguments, params):
                continue
            node.overloads.append(overload.id)
            found = substitute(self.bindings, overload_result)
            if result is None:
                result = found
            elif not result.is_dyn and found != result:
                result = types.DYN
        return result if result is not None else self._no_overload(node, function, arguments)

    def _no_overload(self, node: ast.Call, function: Function, arguments: list[Type]) -> Type:
        texts = [str(substitute(self.bindings, argument, unbound_to_dyn=True)) for argument in arguments]
        receiver = f"{texts.pop(0)}." if node.target is not None else ""
        signature = f"{receiver}({', '.join(texts)})"
        return self._error(node, f"found no matching overload for '{function.name}' applied to '{signature}'")

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        fresh: Bindings = {}
        for name in _parameter_names((*overload.params, overload.result)):
            fresh[types.param(name)] = self._new_parameter()
        if not fresh:
            return overload.params, overload.result
        return tuple(substitute(fresh, each) for each in overload.params), substitute(fresh, overload.result)

    def _new_parameter(self) -> Type:
        self._parameter_count += 1
        return types.param(f"_var{self._parameter_count - 1}")

    def _assign(self, target: list[Type], source: tuple[Type, ...] | list[Type]) -> bool:
        extended = assign(self.bindings, target, source)
        if extended is None:
            return False
        self.bindings = extended
        return True

    def _require(self, node: ast.Expression, expected: Type) -> bool:
        if self._assign([expected], [node.type]):
            return True
        self._mismatch(node, expected, node.type)
        return False

    def _mismatch(self, node: ast.Expression, expected: Type, found: Type) -> Type:
        expected, found = substitute(self.bindings, expected), substitute(self.bindings, found)
        return self._error(node, f"expected type '{expected}' but found '{found}'")

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Return the type of elements of both types; `literals.py` refuses literals with several types."""
        if previous is None:
            return current
        if self._assign([previous], [current]):
            return most_general(previous, current)
        return types.DYN

    def _unwrap_optional(self, node: ast.Expression, *, is_optional: bool) -> Type:
        found = substitute(self.bindings, node.type)
        if not is_optional:
            return node.type
        if found.is_optional:
            return found.params[0]
        if not found.is_dyn:
            self._mismatch(node, types.optional_of(found), found)
        return found

    def _check_list(self, node: ast.CreateList) -> Type:
        element_type: Type | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            found = self._unwrap_optional(element, is_optional=index in node.optional_indices)
            element_type = self._join(element_type, found)
        return types.list_of(element_type if element_type is not None else self._new_parameter())

    def _check_map(self, node: ast.CreateMap) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value, is_optional in node.entries:
            key_type = self._join(key_type, self.check(key))
            self.check(value)
            found = self._unwrap_optional(value, is_optional=is_optional)
            value_type = self._join(value_type, found)
        if key_type is None or value_type is None:
            return types.map_of(self._new_parameter(), self._new_parameter())
        return types.map_of(key_type, value_type)

    def _check_struct(self, node: ast.CreateStruct) -> Type:
        for _, value, _ in node.fields:
            self.check(value)
        return self._undeclared(node, node.name)

    def _check_comprehension(self, node: ast.Comprehension) -> Type:
        self.check(node.range)
        accumulator = self.check(node.initial)
        variables = self._range_types(node)
        self._scopes.append({node.accumulator: accumulator})
        names = (node.variable, node.second_variable) if node.second_variable else (node.variable,)
        self._scopes.append(dict(zip(names, variables, strict=False)))
        self.check(node.condition)
        self._require(node.condition, types.BOOL)
        self.check(node.step)
        if not self._assign([accumulator], [node.step.type]):
            self._mismatch(node.step, accumulator, node.step.type)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return substitute(self.bindings, result)

    def _range_types(self, node: ast.Comprehension) -> tuple[Type, ...]:
        found = substitute(self.bindings, node.range.type)
        if found.kind == "list":
            return (types.INT, found.params[0]) if node.second_variable else found.params
        if found.kind == "map":
            return found.params
        if found.is_dyn or found.kind == "param":
            self._assign([types.DYN], [found])
            return (types.DYN, types.DYN)
        problem = f"expression of type '{found}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._error(node.range, problem)
        return (types.ERROR, types.ERROR)


def _set_field(node: ast.Expression, name: str) -> None:
    if isinstance(node, ast.Select):
        node.field = name
    elif isinstance(node, ast.Call) and isinstance(node.args[1], ast.Literal):
        node.args[1].value = name


def _parameter_names(of: tuple[Type, ...]) -> set[str]:
    names: set[str] = set()
    for each in of:
        if each.kind == "param":
            names.add(each.name)
        names |= _parameter_names(each.params)
    return names

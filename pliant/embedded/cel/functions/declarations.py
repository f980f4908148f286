"""Declares functions by their signature, such as `(string).split(string) -> list<string>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.cel.types import Type, parse_type, split_types
from pliant.embedded.cel.values import EvaluationError, has_type, type_of_value

Implementation = Callable[..., Any]
_SIGNATURE: Final = re.compile(r"(?:\(([^)]*)\)\.)?([^(]+)\((.*)\) -> (.+)")
_UNCHECKED: Final = {
    "size": "no such overload: size",
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), "no such overload"),
}
"""The messages of functions whose arguments kube-apiserver checks in another place than those of others."""


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    params: tuple[Type, ...]
    """With the type of the receiver first, if the overload is a member."""
    result: Type
    is_member: bool
    implementation: Implementation


class Function:
    """A function with its overloads, whose signatures are parsed when an expression calls it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.common: Implementation | None = None
        """Implements all overloads; it checks the types of its arguments itself."""
        self._signatures: list[tuple[str, Implementation, str]] = []
        self._overloads: list[Overload] = []

    def add(self, signature: str, implementation: Implementation, overload_id: str) -> None:
        self._signatures.append((signature, implementation, overload_id))

    @property
    def overloads(self) -> list[Overload]:
        if self._signatures:
            self._overloads += [_parse_overload(*each) for each in self._signatures]
            self._signatures = []
        return self._overloads

    def select(self, ids: list[str]) -> Implementation:
        """Return a function that calls the overload that fits the types of the arguments."""
        if self.common is not None:
            return self.common
        candidates = [overload for overload in self.overloads if overload.id in ids]
        name = self.name

        def call(*arguments: Any) -> Any:
            for overload in candidates:
                if len(arguments) == len(overload.params) and all(map(has_type, arguments, overload.params)):
                    return overload.implementation(*arguments)
            given = ", ".join(type_of_value(argument).name for argument in arguments)
            raise EvaluationError(_UNCHECKED.get(name, f"no such overload: {name}({given})"))

        return call


def _parse_overload(signature: str, implementation: Implementation, overload_id: str) -> Overload:
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    receiver, _, parameters, result = match.groups()
    texts = [*([receiver] if receiver else []), *split_types(parameters)]
    params = tuple(parse_type(text) for text in texts)
    return Overload(overload_id or signature, params, parse_type(result), bool(receiver), implementation)


class Library:
    """Functions by name."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def declare(self, signature: str, implementation: Implementation, overload_id: str = "") -> None:
        """Declare an overload of a function."""
        name = signature.partition(").")[2] if signature[0] == "(" else signature
        name = name.partition("(")[0]
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = Function(name)
        function.add(signature, implementation, overload_id)

    def operator(self, name: str, implementation: Implementation, *overloads: str) -> None:
        """Declare an operator by texts such as `add_int64(int, int) -> int`; one function implements all of them."""
        for text in overloads:
            overload_id, _, rest = text.partition("(")
            self.declare(f"{name}({rest}", implementation, overload_id)
        self.functions[name].common = implementation

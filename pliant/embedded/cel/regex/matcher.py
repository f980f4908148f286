"""Matches regular expressions in time proportional to the text, with an automaton whose states are built on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pliant.embedded.cel.deadline import require_time
from pliant.embedded.cel.regex.syntax import Alternatives, Assertion, Characters, Node, PatternParser, Repeat, Sequence
from pliant.embedded.cel.values import EvaluationError

_MAX_INSTRUCTIONS: Final = 20_000
_MAX_CACHED_STATES: Final = 2_000
_CHECK_INTERVAL: Final = 512


@dataclass(slots=True)
class _Instruction:
    """A step of the automaton: `match`, a test of one character, an assertion, or a choice of next steps."""

    characters: Characters | None = None
    assertion: str = ""
    is_match: bool = False
    next: list[int] = field(default_factory=list)
    """In the order of preference."""


class _Program:
    def __init__(self, root: Node) -> None:
        self.instructions: list[_Instruction] = []
        end = self._add(_Instruction(is_match=True))
        self.start = self._compile(root, end)

    def _add(self, instruction: _Instruction) -> int:
        if len(self.instructions) >= _MAX_INSTRUCTIONS:
            raise EvaluationError("error parsing regexp: expression too large")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _compile(self, node: Node, after: int) -> int:
        match node:
            case Characters():
                return self._add(_Instruction(characters=node, next=[after]))
            case Assertion():
                return self._add(_Instruction(assertion=node.kind, next=[after]))
            case Sequence():
                for part in reversed(node.parts):
                    after = self._compile(part, after)
                return after
            case Alternatives():
                return self._add(_Instruction(next=[self._compile(part, after) for part in node.parts]))
            case Repeat():
                return self._compile_repeat(node, after)

    def _compile_repeat(self, node: Repeat, after: int) -> int:
        if node.high is None:
            loop = self._add(_Instruction())
            body = self._compile(node.part, loop)
            self.instructions[loop].next = [body, after] if node.is_greedy else [after, body]
            after = loop
        else:
            end = after
            for _ in range(node.high - node.low):
                body = self._compile(node.part, after)
                after = self._add(_Instruction(next=[body, end] if node.is_greedy else [end, body]))
        for _ in range(node.low):
            after = self._compile(node.part, after)
        return after


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _holds(kind: str, before: str, after: str) -> bool:
    """Return whether an assertion holds between two characters, which are empty outside of the text."""
    match kind:
        case "begin_text":
            return not before
        case "end_text":
            return not after
        case "begin_line":
            return before in ("", "\n")
        case "end_line":
            return after in ("", "\n")
    return (_is_word(before) != _is_word(after)) is (kind == "word")


def _accepts(characters: Characters, character: str) -> bool:
    variants = {character, character.lower(), character.upper()} if characters.ignores_case else {character}
    codes = [ord(variant) for variant in variants if len(variant) == 1]
    return any(low <= code <= high for low, high in characters.ranges for code in codes)


class _State:
    """A set of instructions, and the states that follow it for each character."""

    __slots__ = ("before", "following", "positions")

    def __init__(self, positions: frozenset[int], before: str) -> None:
        self.positions = positions
        self.before = before
        self.following: dict[str, _State | None] = {}
        """None if the text up to here matches."""


class Pattern:
    """A compiled regular expression."""

    def __init__(self, source: str) -> None:
        self._program = _Program(PatternParser(source).parse())
        self._has_assertions = any(each.assertion for each in self._program.instructions)
        self._states: dict[tuple[frozenset[int], str], _State] = {}

    def is_match(self, text: str) -> bool:
        """Return whether some part of a text matches."""
        state = self._state(frozenset((self._program.start,)), "")
        for index, character in enumerate(text):
            following = state.following.get(character, state)
            if following is state and character not in state.following:
                if index % _CHECK_INTERVAL == 0 or len(self._states) > _MAX_CACHED_STATES // 2:
                    require_time()
                following = state.following[character] = self._follow(state, character)
            if following is None:
                return True
            state = following
        return self._follow(state, "") is None

    def _state(self, positions: frozenset[int], before: str) -> _State:
        if len(self._states) > _MAX_CACHED_STATES:
            self._states = {}
        key = (positions, self._context(before))
        if key not in self._states:
            self._states[key] = _State(positions, before)
        return self._states[key]

    def _context(self, before: str) -> str:
        """Return a character that stands for all that assertions cannot tell from this one."""
        if not self._has_assertions or not before:
            return "" if not before and self._has_assertions else "x"
        return before if before == "\n" else ("w" if _is_word(before) else "-")

    def _follow(self, state: _State, character: str) -> _State | None:
        """Return the state after a character, or after the end of the text; None if a match ends before it."""
        instructions, following = self._program.instructions, {self._program.start}
        for position in self._closure(state.positions, state.before, character):
            instruction = instructions[position]
            if instruction.is_match:
                return None
            if instruction.characters is not None and character and _accepts(instruction.characters, character):
                following.update(instruction.next)
        return self._state(frozenset(following), character)

    def _closure(self, positions: frozenset[int], before: str, after: str) -> list[int]:
        """Return the instructions that are reached without a character, in the order of preference."""
        reached: dict[int, None] = {}
        stack = sorted(positions, reverse=True)
        instructions = self._program.instructions
        while stack:
            position = stack.pop()
            if position in reached:
                continue
            reached[position] = None
            instruction = instructions[position]
            if instruction.characters is None and (
                not instruction.assertion or _holds(instruction.assertion, before, after)
            ):
                stack.extend(reversed(instruction.next))
        return list(reached)

    def find_all(self, text: str) -> Iterator[str]:
        """Yield the parts of a text that match, from left to right, without overlaps."""
        start, last_end = 0, -1
        while start <= len(text):
            span = self._find(text, start)
            if span is None:
                return
            # As in Go, an empty match directly behind a match does not count.
            if span[0] < span[1] or span[0] != last_end:
                yield text[span[0] : span[1]]
            last_end = span[1]
            start = span[1] if span[1] > span[0] else span[1] + 1

    def _find(self, text: str, start: int) -> tuple[int, int] | None:
        """Return the leftmost match from a position on; of several, the one that the pattern prefers."""
        threads: dict[int, int] = {}
        found: tuple[int, int] | None = None
        instructions = self._program.instructions
        for index in range(start, len(text) + 1):
            if index % _CHECK_INTERVAL == 0 or len(threads) > _CHECK_INTERVAL:
                require_time()
            if found is None:
                threads.setdefault(self._program.start, index)
            before, after = text[index - 1 : index] if index else "", text[index : index + 1]
            following: dict[int, int] = {}
            for position, origin in self._ordered_closure(threads, before, after):
                instruction = instructions[position]
                if instruction.is_match:
                    found = (origin, index)
                    break
                if instruction.characters is not None and after and _accepts(instruction.characters, after):
                    following.setdefault(instruction.next[0], origin)
            threads = following
            if not threads and found is not None:
                break
        return found

    def _ordered_closure(self, threads: dict[int, int], before: str, after: str) -> Iterator[tuple[int, int]]:
        reached: set[int] = set()
        for thread, origin in threads.items():
            for position in self._closure(frozenset((thread,)), before, after):
                if position not in reached:
                    reached.add(position)
                    yield position, origin


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Return a compiled regular expression of RE2; raise EvaluationError."""
    return Pattern(pattern)

"""What the master is told when it starts: by the operator, and by annotations of its job."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields
from math import inf, nan
from typing import NoReturn

from pliant.errors import UserError
from pliant.master.brain.tempo import Tempo
from pliant.master.service import Waits

PORT = 50001


class _Parser(ArgumentParser):
    """Speaks of mistakes by raising them."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def parsed(words: list[str]) -> tuple[Namespace, list[str]]:
    """The arguments, and the words that mean nothing to this master: others may understand them."""
    parser = _Parser(
        prog="python -m pliant.master",
        description="The master of one ElasticJob.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("--namespace", default="default", help="where its job is")
    parser.add_argument("--job_name", required=True, help="the name of its job")
    parser.add_argument("--port", type=whole, default=PORT, help="where members reach it")
    for tempo in fields(Tempo):
        kind = whole if isinstance(tempo.default, int) else number
        parser.add_argument(f"--{tempo.name}", type=kind, metavar="NUMBER", help="see docs/master.md")
    for wait in fields(Waits):
        name = f"--measure_{wait.name}"
        parser.add_argument(name, type=number, metavar="SECONDS", help="see docs/training-client.md")
    return parser.parse_known_args(words)


def number(text: str) -> float:
    """A number, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 <= value < inf:
        raise ArgumentTypeError(f"must be a number from 0 on, got {text!r}")
    return value


def whole(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def tempo_of(args: Namespace) -> Tempo:
    """The times that were asked for."""
    said = {field.name: getattr(args, field.name) for field in fields(Tempo)}
    return Tempo(**{name: value for name, value in said.items() if value is not None})


def waits_of(args: Namespace) -> Waits:
    """The service's own times that were asked for."""
    said = {field.name: getattr(args, f"measure_{field.name}") for field in fields(Waits)}
    return Waits(**{name: value for name, value in said.items() if value is not None})

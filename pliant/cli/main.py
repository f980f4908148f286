"""The `pliant` command: finds the sub-command, and loads that one alone so that it starts at once."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, Protocol, cast

from pliant import __version__
from pliant.cli.streams import mend_streams, nowhere, silence
from pliant.errors import NotPossibleHere, PliantError, UserError

SECTIONS = {
    "on this machine": {
        "new": "write a job and its program to start from",
        "run": "run training jobs on this machine and watch them to their end",
        "up": "start a cluster on this machine that stays up, for kubectl and friends",
        "down": "stop that cluster",
        "status": "tell whether it is up, since when, and what is on it",
        "node": "let a node of it fail, and have it back",
        "simulate": "tell what would become of jobs on a cluster of any size",
    },
    "about jobs, on any cluster": {
        "submit": "give jobs to a cluster that is up",
        "get": "list jobs and where they stand",
        "why": "tell what happened to a job and why, and what to try",
        "logs": "show what all members of a job write",
        "describe": "tell all there is to know about a job",
        "events": "tell what was told about a job and its pods",
        "top": "tell what the members of jobs use of CPU and memory",
        "scale": "give a job another size",
        "suspend": "let jobs rest: their members go, what they learned stays",
        "resume": "let jobs that rest go on",
        "delete": "delete jobs and all that belongs to them",
    },
    "for whoever runs a cluster": {
        "install": "print all that puts an operator on a cluster, for kubectl",
        "uninstall": "print the same, to take it away again",
        "operator": "run the operator against any Kubernetes cluster",
        "doctor": "tell whether a cluster and this machine have what Pliant needs",
        "crds": "print the resource definitions to install on a cluster",
        "completion": "print what makes a shell complete all of this",
        "version": "print the version",
    },
}
"""What each command does, under the headings of the overview."""
COMMANDS = {name: summary for commands in SECTIONS.values() for name, summary in commands.items()}

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_NOBODY_LISTENS = 141
"""What shells tell of a program whose output was closed, as `head` does."""


class Command(Protocol):
    """What each command's module offers."""

    def configure(self, parser: ArgumentParser) -> None:
        """Declare the options, and a text worth reading."""

    def execute(self, args: Namespace) -> int:
        """Do it; the answer is the exit code."""


class Parser(ArgumentParser):
    """Complains in one line that says where to read on."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code of wrong usage."""
        self.exit(EXIT_USAGE, f"error: {message}\nSee `{self.prog} --help`.\n")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line given, or the one of this process, and exit."""
    mend_streams()
    try:
        code = _outcome(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        sys.stderr.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = nowhere()  # what is left in it could only fail again
        sys.exit(EXIT_NOBODY_LISTENS)
    except OSError as error:
        sys.exit(_explain_output(error))


def _outcome(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        words[0] = "version"
    if words[0] not in COMMANDS:
        sys.stderr.write(_unknown(words))
        return EXIT_USAGE
    return _execute(words[0], words[1:])


def _execute(name: str, words: list[str]) -> int:
    command = cast(Command, import_module(f"pliant.cli.{name}"))
    summary = COMMANDS[name]
    parser = Parser(
        prog=f"pliant {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    try:
        args = parser.parse_args(words)
    except SystemExit as end:  # help, or wrong usage
        return int(end.code or 0)
    try:
        return command.execute(args)
    except PliantError as error:
        return _explain(error)
    except BaseExceptionGroup as group:
        return _explain(_first_purpose(group))
    except OSError as error:
        return _explain(_shortfall(error))


def _first_purpose(group: BaseExceptionGroup[BaseException]) -> PliantError:
    """What tasks that worked together stumbled over; raises what is not for people to read."""
    from pliant.cli.problems import first_error

    if group.subgroup(BrokenPipeError):
        raise BrokenPipeError from group
    error = first_error(group)
    if isinstance(error, PliantError):
        return error
    return _shortfall(group)


def _shortfall(error: BaseException) -> PliantError:
    """What this machine lacks; raises what is something else, and so a bug."""
    from pliant.cli.shortfalls import shortfall

    if isinstance(error, BrokenPipeError):
        raise error
    found = shortfall(error)
    if found is None:
        raise error
    return found


def _explain_output(error: OSError) -> int:
    """Say that the answer could not be written, where that can still be said; raises what is something else."""
    problem = _shortfall(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            silence(stream)
    return _explain(problem)


def _explain(error: PliantError) -> int:
    """Say what a person must do about an error raised on purpose; any other is a bug and stays loud."""
    from pliant.cli.problems import InvalidInput, problem_text
    from pliant.cli.style import Style

    style = Style.of(sys.stderr)
    if isinstance(error, InvalidInput):
        sys.stderr.write("\n\n".join(problem_text(problem, style) for problem in error.problems) + "\n")
    else:
        sys.stderr.write(f"{style.red('error')}: {error}\n")
    return exit_code(error)


def exit_code(error: PliantError) -> int:
    """2 when what was typed must be mended, 1 when something else must."""
    is_theirs_to_mend = isinstance(error, UserError) and not isinstance(error, NotPossibleHere)
    return EXIT_USAGE if is_theirs_to_mend else 1


def _overview() -> str:
    lines = "\n".join(
        f"{title}:\n" + "".join(f"  {name:<11} {summary}\n" for name, summary in commands.items())
        for title, commands in SECTIONS.items()
    )
    return (
        f"Pliant {__version__}: elastic deep-learning jobs on a laptop or on any Kubernetes.\n\n"
        f"Usage: pliant COMMAND [OPTIONS]\n\n{lines}\n"
        "Start here:\n"
        "  pliant run examples/quickstart/job.yaml\n\n"
        "`pliant COMMAND --help` tells more.\n"
    )


def _unknown(words: list[str]) -> str:
    from difflib import get_close_matches

    word = words[0]
    if word.endswith((".yaml", ".yml")):
        hint = f"Did you mean `pliant run {' '.join(words)}`?"
    elif close := get_close_matches(word, COMMANDS, n=1):
        hint = f"Did you mean `pliant {close[0]}`?"
    else:
        hint = "See `pliant --help`."
    return f"error: no command is named `{word}`. {hint}\n"

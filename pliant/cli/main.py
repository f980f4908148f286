"""The `pliant` command: selects a subcommand and imports only its module, so that commands start fast."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from pliant import __version__
from pliant.cli.linux_only import LINUX_COMMANDS, require_linux
from pliant.cli.output.streams import open_devnull, redirect_to_devnull, repair_standard_streams
from pliant.errors import PliantError, UnsupportedEnvironment, UserError
from pliant.runtime.garbage_collection import collect_no_garbage


class CommandSection(NamedTuple):
    """Commands under one heading of the overview, and the package that holds their modules."""

    title: str
    package: str
    summaries: Mapping[str, str]


COMMAND_SECTIONS = (
    CommandSection(
        "On this machine",
        "local",
        {
            "new": "Create a starter job and its training program",
            "run": "Run jobs on this machine until they finish",
            "up": "Start a local cluster that keeps running, for kubectl and other clients",
            "down": "Stop the local cluster",
            "status": "Show whether the local cluster is running and what runs on it",
            "node": "Simulate a failure of a local node, or recover from it",
            "simulate": "Simulate jobs under an autoscaling policy on a cluster of any size",
        },
    ),
    CommandSection(
        "Jobs, on any cluster",
        "jobs",
        {
            "submit": "Create or update jobs on a running cluster",
            "get": "List jobs and their status",
            "why": "Explain what happened to a job, why, and what to try",
            "logs": "Print the logs of all replicas of a job",
            "plot": "Draw the loss, throughput, size and restarts of a job over time",
            "describe": "Show the details of a job",
            "events": "List the events of a job and its pods",
            "top": "Show the CPU and memory usage of the replicas of jobs",
            "scale": "Change the number of replicas of a job",
            "suspend": "Suspend jobs: delete their pods, keep their state",
            "resume": "Resume suspended jobs",
            "delete": "Delete jobs and everything they own",
        },
    ),
    CommandSection(
        "Administration",
        "admin",
        {
            "install": "Print the manifests that install the operator, for `kubectl apply`",
            "uninstall": "Print the same manifests for `kubectl delete`",
            "operator": "Run the operator against a Kubernetes cluster",
            "doctor": "Check that a cluster and this machine meet the requirements of Pliant",
            "crds": "Print the CustomResourceDefinitions",
            "completion": "Print the completion script for a shell",
            "version": "Print the version",
        },
    ),
)
COMMAND_SUMMARIES = {name: summary for section in COMMAND_SECTIONS for name, summary in section.summaries.items()}

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # the code that shells report when a reader such as `head` has closed the pipe


class CommandModule(Protocol):
    """The interface of a command's module."""

    DESCRIPTION: str
    EPILOG: str

    def configure(self, parser: ArgumentParser) -> None: ...

    def execute(self, args: Namespace) -> int | Coroutine[Any, Any, int]: ...


class CommandParser(ArgumentParser):
    """An argument parser that reports errors in one line and refers to --help."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"error: {message}\nSee `{self.prog} --help`.\n")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default that of this process, and exit."""
    repair_standard_streams()
    try:
        code = _run_command_line(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        sys.stderr.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = open_devnull()  # flushing the rest would fail again
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        sys.exit(_report_output_error(error))


def _run_command_line(argv: list[str]) -> int:
    if argv[:1] == ["help"] and len(argv) > 1:
        argv = [argv[1], "--help"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview_text())
        return 0
    if argv[0] in ("-V", "--version"):
        argv[0] = "version"
    if argv[0] not in COMMAND_SUMMARIES:
        sys.stderr.write(_unknown_command_text(argv))
        return EXIT_USAGE
    return _run_command(argv[0], argv[1:])


def load_command(name: str) -> CommandModule:
    """Import the module of one command."""
    package = next(section.package for section in COMMAND_SECTIONS if name in section.summaries)
    return cast(CommandModule, import_module(f"pliant.cli.commands.{package}.{name}"))


def _run_command(command_name: str, arguments: list[str]) -> int:
    try:
        if command_name in LINUX_COMMANDS:
            require_linux(command_name)
    except PliantError as error:
        return _report_error(error)
    with collect_no_garbage():
        command = load_command(command_name)
    parser = CommandParser(
        prog=f"pliant {command_name}",
        description=command.DESCRIPTION,
        epilog=command.EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    namespace = Namespace()
    if getattr(command, "TAKES_PROGRAM_ARGUMENTS", False):
        arguments, namespace.program_arguments = _split_program_arguments(arguments)
    try:
        args, unknown = parser.parse_known_args(arguments, namespace)
        if unknown:
            parser.error(_unknown_arguments_text(parser, args, unknown))
    except SystemExit as exit_request:  # --help, or a usage error
        return int(exit_request.code or 0)
    try:
        code = command.execute(args)
        if isinstance(code, int):
            return code
        import asyncio

        return asyncio.run(code)
    except PliantError as error:
        return _report_error(error)
    except BaseExceptionGroup as group:
        return _report_error(_first_expected_error(group))
    except OSError as error:
        return _report_error(_as_machine_error(error))


def _split_program_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separate what follows `--`, which is for the program that a command runs."""
    if "--" not in arguments:
        return arguments, []
    position = arguments.index("--")
    return arguments[:position], arguments[position + 1 :]


def _unknown_arguments_text(parser: ArgumentParser, args: Namespace, unknown: list[str]) -> str:
    import shlex
    from difflib import get_close_matches

    text = f"unrecognized arguments: {' '.join(unknown)}"
    options = [option for option in parser.format_usage().replace("[", " ").split() if option.startswith("--")]
    if close := get_close_matches(unknown[0].partition("=")[0], options, n=1, cutoff=0.8):
        return f"{text}; did you mean `{close[0].rstrip(']')}`?"
    files = getattr(args, "files", [])
    if hasattr(args, "program_arguments") and len(files) == 1 and files[0].endswith(".py"):
        words = [*unknown, *args.program_arguments]
        return f"{text}; arguments of the script follow `--`: pliant run {shlex.join([files[0], '--', *words])}"
    return text


def _first_expected_error(group: BaseExceptionGroup[BaseException]) -> PliantError:
    """Return the error to report from a task group; raise the group if it is a bug."""
    from pliant.cli.input.problems import first_pliant_error

    if group.subgroup(BrokenPipeError):
        raise BrokenPipeError from group
    error = first_pliant_error(group)
    if isinstance(error, PliantError):
        return error
    return _as_machine_error(group)


def _as_machine_error(error: BaseException) -> PliantError:
    """Return the error as a problem of this machine; raise it if it is a bug."""
    from pliant.cli.explain.os_errors import explain_os_error

    if isinstance(error, BrokenPipeError):
        raise error
    machine_error = explain_os_error(error)
    if machine_error is None:
        raise error
    return machine_error


def _report_output_error(error: OSError) -> int:
    """Report that the output could not be written; raise the error if it is a bug."""
    problem = _as_machine_error(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            redirect_to_devnull(stream)
    return _report_error(problem)


def _report_error(error: PliantError) -> int:
    from pliant.cli.input.problems import InvalidInput, format_problem
    from pliant.cli.output.style import TerminalStyle

    style = TerminalStyle.for_stream(sys.stderr)
    if isinstance(error, InvalidInput):
        sys.stderr.write("\n\n".join(format_problem(problem, style) for problem in error.problems) + "\n")
    else:
        sys.stderr.write(f"{style.red('error')}: {error}\n")
    return exit_code(error)


def exit_code(error: PliantError) -> int:
    """Return 2 if the user must correct the input, 1 for every other error."""
    is_input_error = isinstance(error, UserError) and not isinstance(error, UnsupportedEnvironment)
    return EXIT_USAGE if is_input_error else 1


def _overview_text() -> str:
    lines = "\n".join(
        f"{section.title}:\n" + "".join(f"  {name:<11} {summary}\n" for name, summary in section.summaries.items())
        for section in COMMAND_SECTIONS
    )
    return (
        f"Pliant {__version__}: elastic deep-learning jobs on a laptop or on any Kubernetes cluster.\n\n"
        f"Usage: pliant COMMAND [OPTIONS]\n\n{lines}\n"
        "Start here:\n"
        "  pliant run train.py --workers 2                         run your own script\n"
        "  pliant new generic hello && pliant run hello/job.yaml   or a small example\n\n"
        "Run `pliant COMMAND --help` for the options of a command.\n"
    )


def _unknown_command_text(argv: list[str]) -> str:
    from difflib import get_close_matches

    word = argv[0]
    if word.endswith((".yaml", ".yml", ".py", ".ipynb")):
        hint = f"Did you mean `pliant run {' '.join(argv)}`?"
    elif close := get_close_matches(word, COMMAND_SUMMARIES, n=1):
        hint = f"Did you mean `pliant {close[0]}`?"
    else:
        hint = "See `pliant --help`."
    return f"error: unknown command `{word}`. {hint}\n"

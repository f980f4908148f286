"""`pliant completion`: prints a shell completion script."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

DESCRIPTION = "Print a script that completes commands, options and names of jobs in a shell."
EPILOG = """\
examples:
  source <(pliant completion bash)                                    for the current shell
  pliant completion bash > ~/.local/share/bash-completion/completions/pliant
  pliant completion zsh > "${fpath[1]}/_pliant"
  pliant completion fish > ~/.config/fish/completions/pliant.fish
"""
# commands whose arguments are names of jobs
COMMANDS_TAKING_JOB_NAMES = (
    "get", "describe", "why", "logs", "plot", "scale", "suspend", "resume", "delete", "top", "events",
)  # fmt: skip
_LIST_JOBS_COMMAND = "pliant get -o name 2>/dev/null"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="Shell: bash, zsh or fish")


def execute(args: Namespace) -> int:
    from pliant.cli.main import COMMAND_SUMMARIES

    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[args.shell]
    sys.stdout.write(write(COMMAND_SUMMARIES, {name: list_options(name) for name in COMMAND_SUMMARIES}))
    return 0


def list_options(command: str) -> list[tuple[str, str]]:
    from pliant.cli.main import load_command

    parser = ArgumentParser(prog="pliant", add_help=True)
    load_command(command).configure(parser)
    return [
        (option, (action.help or "").replace("'", "’"))
        for action in parser._actions  # noqa: SLF001 — argparse has no public way to list options
        for option in action.option_strings
        if option.startswith("--")
    ]


CommandOptions = Mapping[str, Sequence[tuple[str, str]]]


def bash_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    cases = "\n".join(f'    {name}) opts="{" ".join(option for option, _ in options[name])}" ;;' for name in commands)
    return f"""\
# bash completion of pliant
_pliant() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} opts=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$cur"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$opts" -- "$cur"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
    {"|".join(COMMANDS_TAKING_JOB_NAMES)})
      COMPREPLY=($(compgen -W "$({_LIST_JOBS_COMMAND} | sed 's|.*/||')" -- "$cur")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o default -F _pliant pliant
"""


def zsh_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    described = "\n".join(f"    '{name}:{summary}'" for name, summary in commands.items())
    cases = ""
    for name in commands:
        words = " ".join(f"'{option}:{_escape_zsh(help_text)}'" for option, help_text in options[name])
        cases += f"    {name}) opts=({words}) ;;\n"
    return f"""\
#compdef pliant
_pliant() {{
  local -a commands opts jobs
  commands=(
{described}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
{cases}  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe option opts
    return
  fi
  case $words[2] in
    {"|".join(COMMANDS_TAKING_JOB_NAMES)})
      jobs=(${{${{(f)"$({_LIST_JOBS_COMMAND})"}}##*/}})
      _describe job jobs ;;
    *) _files ;;
  esac
}}
_pliant "$@"
"""


def fish_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    lines = ["# fish completion of pliant"]
    for name, summary in commands.items():
        lines.append(f"complete -c pliant -f -n __fish_use_subcommand -a {name} -d '{summary}'")
    for name in commands:
        for option, text in options[name]:
            lines.append(f"complete -c pliant -n '__fish_seen_subcommand_from {name}' -l {option[2:]} -d '{text}'")
    names = f'({_LIST_JOBS_COMMAND} | string replace -r ".*/" "")'
    lines.append(
        f"complete -c pliant -f -n '__fish_seen_subcommand_from {' '.join(COMMANDS_TAKING_JOB_NAMES)}' -a '{names}'"
    )
    return "\n".join(lines) + "\n"


def _escape_zsh(text: str) -> str:
    return text.replace(":", " ").replace("[", "(").replace("]", ")")

"""`pliant completion`: what makes a shell complete commands, options and the names of jobs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

EPILOG = """\
examples:
  source <(pliant completion bash)                                    for this bash
  pliant completion bash > ~/.local/share/bash-completion/completions/pliant
  pliant completion zsh > "${fpath[1]}/_pliant"
  pliant completion fish > ~/.config/fish/completions/pliant.fish
"""
JOB_COMMANDS = ("get", "describe", "why", "logs", "scale", "suspend", "resume", "delete", "top", "events")
"""Commands whose arguments are names of jobs."""
_LIST_JOBS_COMMAND = "pliant get -o name 2>/dev/null"


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def execute(args: Namespace) -> int:
    """Print the script."""
    from pliant.cli.main import COMMAND_SUMMARIES

    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[args.shell]
    sys.stdout.write(write(COMMAND_SUMMARIES, {name: list_options(name) for name in COMMAND_SUMMARIES}))
    return 0


def list_options(command: str) -> list[tuple[str, str]]:
    """The long options of a command, each with its help."""
    from pliant.cli.main import load_command

    parser = ArgumentParser(prog="pliant", add_help=True)
    load_command(command).configure(parser)
    return [
        (option, (action.help or "").replace("'", "’"))
        for action in parser._actions  # noqa: SLF001 — argparse has no other way to list them
        for option in action.option_strings
        if option.startswith("--")
    ]


CommandOptions = Mapping[str, Sequence[tuple[str, str]]]


def bash_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    """For bash 4 and later."""
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
    {"|".join(JOB_COMMANDS)})
      COMPREPLY=($(compgen -W "$({_LIST_JOBS_COMMAND} | sed 's|.*/||')" -- "$cur")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o default -F _pliant pliant
"""


def zsh_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    """For zsh, as a function that its completion system loads."""
    described = "\n".join(f"    '{name}:{summary}'" for name, summary in commands.items())
    quoted = {
        name: " ".join(f"'{option}:{_escape_zsh(about)}'" for option, about in options[name]) for name in commands
    }
    cases = "\n".join(f"    {name}) opts=({words}) ;;" for name, words in quoted.items())
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
{cases}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe option opts
    return
  fi
  case $words[2] in
    {"|".join(JOB_COMMANDS)})
      jobs=(${{${{(f)"$({_LIST_JOBS_COMMAND})"}}##*/}})
      _describe job jobs ;;
    *) _files ;;
  esac
}}
_pliant "$@"
"""


def fish_script(commands: Mapping[str, str], options: CommandOptions) -> str:
    """For fish."""
    lines = ["# fish completion of pliant"]
    lines += [
        f"complete -c pliant -f -n __fish_use_subcommand -a {name} -d '{about}'" for name, about in commands.items()
    ]
    lines += [
        f"complete -c pliant -n '__fish_seen_subcommand_from {name}' -l {option[2:]} -d '{about}'"
        for name in commands
        for option, about in options[name]
    ]
    names = f'({_LIST_JOBS_COMMAND} | string replace -r ".*/" "")'
    lines.append(f"complete -c pliant -f -n '__fish_seen_subcommand_from {' '.join(JOB_COMMANDS)}' -a '{names}'")
    return "\n".join(lines) + "\n"


def _escape_zsh(text: str) -> str:
    return text.replace(":", " ").replace("[", "(").replace("]", ")")

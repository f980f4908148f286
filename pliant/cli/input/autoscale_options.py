"""Options of the autoscaler, for the commands that run an operator."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from pliant.cli.input.operator_options import add_duration_option, boolean_option_arguments

if TYPE_CHECKING:
    from pliant.controllers.autoscale.options import AutoscaleOptions

AUTOSCALE_OPTION_WORDS = ("fair", "edl", "goodput", "recommend", "on", "off")


class AutoscaleChoice(NamedTuple):
    policy: str = "fair"  # empty: no autoscaling
    recommend_only: bool = False


def add_autoscale_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("autoscaler")
    group.add_argument(
        "--autoscale",
        type=_parse_autoscale,
        default=AutoscaleChoice(),
        metavar="POLICY",
        help="Policy: fair (equal sizes), edl (equal fractions of each request), goodput (highest goodput) or off; "
        "append `,recommend` to only recommend sizes (fair)",
    )
    group.add_argument(
        "--autoscale-recommend", **boolean_option_arguments(), help="Recommend sizes without setting them (false)"
    )
    period_help = "Time between two rounds, unless a job is waiting"
    add_duration_option(group, "--autoscale-period", "5s", period_help, allow_zero=False)
    load: dict[str, Any] = {"type": _parse_load_fraction, "default": 0.97, "dest": "max_load", "metavar": "FRACTION"}
    load_help = "Fraction of CPU and memory that jobs may use (0.97)"
    group.add_argument("--max-load", "--max_load_desired", "-max_load_desired", **load, help=load_help)
    cooldown_help = "Time between two resizes of a group, unless other jobs need capacity"
    add_duration_option(group, "--autoscale-cooldown", "30s", cooldown_help)
    restart_help = "The same for groups that restart on resize; doubled up to five times"
    add_duration_option(group, "--autoscale-restart-cooldown", "2m", restart_help)
    add_duration_option(group, "--autoscale-freeze", "5m", "Time during which a manually set size is not changed")


def autoscale_options(args: Namespace) -> AutoscaleOptions:
    from pliant.autoscale.cooldowns import ResizeCooldowns
    from pliant.controllers.autoscale.options import AutoscaleOptions

    choice: AutoscaleChoice = args.autoscale
    return AutoscaleOptions(
        policy=choice.policy,
        is_advice_only=choice.recommend_only or args.autoscale_recommend,
        period=args.autoscale_period,
        max_load=args.max_load,
        cooldowns=ResizeCooldowns(
            opposite_direction_cooldown=args.autoscale_cooldown.total_seconds(),
            restart_cooldown=args.autoscale_restart_cooldown.total_seconds(),
            manual_edit_freeze=args.autoscale_freeze.total_seconds(),
        ),
    )


def _parse_autoscale(text: str) -> AutoscaleChoice:
    choice = AutoscaleChoice()
    for word in (part.strip().lower() for part in text.split(",")):
        match word:
            case "recommend":
                choice = choice._replace(recommend_only=True)
            case "on":
                continue
            case "off":
                choice = choice._replace(policy="")
            case _ if word in AUTOSCALE_OPTION_WORDS:
                choice = choice._replace(policy=word)
            case _:
                raise ArgumentTypeError(f"`{word}` is not one of {', '.join(AUTOSCALE_OPTION_WORDS)}")
    return choice


def _parse_load_fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise ArgumentTypeError(f"`{text}` is not a fraction; write a number above 0 and at most 1, such as 0.97")
    return value

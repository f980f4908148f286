"""Options of the autoscaler, for every command that runs an operator."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from pliant.cli.input.local_cluster_options import parse_duration_option
from pliant.cli.input.operator_options import boolean_flag, parse_duration_or_zero

if TYPE_CHECKING:
    from pliant.controllers.autoscale.options import AutoscaleOptions

AUTOSCALE_VALUES = ("fair", "edl", "goodput", "recommend", "on", "off")


class AutoscaleChoice(NamedTuple):
    """What `--autoscale` says."""

    policy: str = "fair"
    """Empty for none: nobody is resized."""
    only_advice: bool = False


def add_autoscale_options(parser: ArgumentParser) -> None:
    """Let people choose who sets the sizes of elastic jobs, and how."""
    group = parser.add_argument_group("autoscaler")
    spans: dict[str, Any] = {"metavar": "TIME"}
    group.add_argument(
        "--autoscale",
        type=_parse_autoscale,
        default=AutoscaleChoice(),
        metavar="POLICY",
        help="who gets how much: fair (equal sizes), edl (equal parts of what each asks for), goodput (where it "
        "helps most), off; with `,recommend` sizes are told and not set (fair)",
    )
    group.add_argument("--autoscale-recommend", **boolean_flag(), help="tell sizes, and set none (false)")
    group.add_argument(
        "--autoscale-period",
        type=parse_duration_option,
        default=parse_duration_option("5s"),
        **spans,
        help="between two plans at least, unless somebody waits (5s)",
    )
    group.add_argument(
        "--max-load",
        "--max_load_desired",
        "-max_load_desired",
        type=_parse_load_fraction,
        default=0.97,
        dest="max_load",
        metavar="PART",
        help="how much of all CPU and memory may be given away (0.97)",
    )
    group.add_argument(
        "--autoscale-cooldown",
        type=parse_duration_or_zero,
        default=parse_duration_option("30s"),
        **spans,
        help="between two sizes of a group, unless others need its room (30s)",
    )
    group.add_argument(
        "--autoscale-restart-cooldown",
        type=parse_duration_or_zero,
        default=parse_duration_option("2m"),
        **spans,
        help="the same where all members start again at each size, doubled each time, up to five times (2m)",
    )
    group.add_argument(
        "--autoscale-freeze",
        type=parse_duration_or_zero,
        default=parse_duration_option("5m"),
        **spans,
        help="how long a size that somebody set by hand is left alone (5m)",
    )


def autoscale_options(args: Namespace) -> AutoscaleOptions:
    """How sizes are to be planned."""
    from pliant.autoscale.cooldowns import ResizeCooldowns
    from pliant.controllers.autoscale.options import AutoscaleOptions

    choice: AutoscaleChoice = args.autoscale
    return AutoscaleOptions(
        policy=choice.policy,
        is_advice_only=choice.only_advice or args.autoscale_recommend,
        period=args.autoscale_period,
        max_load=args.max_load,
        cooldowns=ResizeCooldowns(
            cooldown=args.autoscale_cooldown.total_seconds(),
            restart_cooldown=args.autoscale_restart_cooldown.total_seconds(),
            manual_edit_freeze=args.autoscale_freeze.total_seconds(),
        ),
    )


def _parse_autoscale(text: str) -> AutoscaleChoice:
    found = AutoscaleChoice()
    for word in (each.strip().lower() for each in text.split(",")):
        match word:
            case "recommend":
                found = found._replace(only_advice=True)
            case "on":
                continue
            case "off":
                found = found._replace(policy="")
            case _ if word in AUTOSCALE_VALUES:
                found = found._replace(policy=word)
            case _:
                raise ArgumentTypeError(f"`{word}` is none of {', '.join(AUTOSCALE_VALUES)}")
    return found


def _parse_load_fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise ArgumentTypeError(f"`{text}` is not a part of the whole; write a number above 0 and up to 1, as 0.97")
    return value

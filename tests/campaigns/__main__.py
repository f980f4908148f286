"""Run a campaign any number of times, for example `python -m tests.campaigns kills --count 200`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from tests.campaigns.kills import run_kill_campaign
from tests.campaigns.pauses import run_pause_campaign
from tests.depth import SEED


def main() -> int:
    args = _parse()
    if args.campaign == "kills":
        kills = run_kill_campaign(args.count, args.seed)
        print(kills)
        return 0 if kills.is_clean else 1
    pauses = run_pause_campaign(args.ground, args.count, args.lease, args.seed)
    print(pauses)
    return 0 if pauses.is_clean else 1


def _parse() -> Namespace:
    parser = ArgumentParser("python -m tests.campaigns", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    campaigns = parser.add_subparsers(dest="campaign", required=True)
    kills = campaigns.add_parser("kills", help="kill `pliant up` under four writing clients")
    kills.add_argument("--count", type=int, default=10)
    pauses = campaigns.add_parser("pauses", help="pause the leader of two operators past its lease, under load")
    pauses.add_argument("--count", type=int, default=5)
    pauses.add_argument("--lease", type=float, default=9.0, help="lease duration in seconds")
    pauses.add_argument("--ground", choices=("embedded", "real"), default="embedded")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

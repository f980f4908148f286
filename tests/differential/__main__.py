"""Compare the embedded API server with kube-apiserver: `python -m tests.differential --requests 20000`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from tests.controlplane.cluster import started
from tests.depth import SEED
from tests.differential.campaign import Summary, run_campaign, shrink_finding
from tests.differential.objects.examples import select_examples
from tests.differential.servers import APISERVER_FLAGS, ServerPair, server_pair
from tests.differential.steps import Step


def main() -> int:
    """Run a campaign, print its summary, and return 1 if a difference is unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--kinds", default="", help="only the kinds with these plurals, separated by commas")
    parser.add_argument("--shrink", type=int, default=10, help="how many kinds of differences to shrink")
    parser.add_argument(
        "--kubeconfig", type=Path, help="a running cluster without controllers; by default one is started"
    )
    parser.add_argument("--self-check", action="store_true", help="compare two embedded servers")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with ExitStack() as stack:
        kubeconfig = args.kubeconfig
        if kubeconfig is None and not args.self_check:
            kubeconfig = stack.enter_context(started(controllers=False, flags=APISERVER_FLAGS)).kubeconfig
        return asyncio.run(_compare(kubeconfig, args))


async def _compare(kubeconfig: Path | None, args: argparse.Namespace) -> int:
    started_at = time.monotonic()
    async with server_pair(kubeconfig) as pair:
        examples = select_examples(args.kinds)
        summary = await run_campaign(pair, args.seed, args.requests, examples=examples)
        print_summary(summary, time.monotonic() - started_at)
        await print_findings(pair, summary, args.shrink)
    return 1 if summary.findings else 0


def print_summary(summary: Summary, seconds: float) -> None:
    """Print counts by verb and kind, by code, and of explained differences."""
    methods = sorted({method for method, _ in summary.requests})
    print("".join(f"{title:>10}" for title in ("", *methods))[:200])
    for plural in sorted({plural for _, plural in summary.requests}):
        counts = "".join(f"{summary.requests[method, plural] or '':>10}" for method in methods)
        print(f"{counts}  {plural}")
    print("codes:", ", ".join(f"{code}: {count:,}" for code, count in sorted(summary.codes.items())))
    for request, count in summary.explained.most_common():
        print(f"explained {count:5,}  {request}")
    print(f"{summary.total:,} requests in {seconds:.0f} s, {len(summary.findings)} unexplained differences")


async def print_findings(pair: ServerPair, summary: Summary, most_shrunk: int) -> None:
    """Print each kind of difference with a small sequence for the table."""
    for index, (signature, findings) in enumerate(summary.groups().items()):
        print(f"\n{len(findings)} × {' '.join(signature)}\n    {findings[0].difference}")
        steps = await shrink_finding(pair, findings[0]) if index < most_shrunk else [findings[0].result.step]
        for step in steps:
            print(f"        {_shorten(step)},")
        sys.stdout.flush()


def _shorten(step: Step) -> str:
    text = str(step)
    return text if len(text) < 4000 else f"{text[:4000]}…"


if __name__ == "__main__":
    sys.exit(main())

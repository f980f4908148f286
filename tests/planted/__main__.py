"""`scripts/planted-bugs`: plants bugs one at a time and tells which of them the tests find."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from difflib import get_close_matches

from tests.planted.bug import Bug
from tests.planted.bugs import BUGS
from tests.planted.report import DEFAULT, write_table
from tests.planted.results import Result, append_result, read_results, write_results
from tests.planted.runner import Options, examine
from tests.planted.tree import copied_tree

EPILOG = """\
examples:
  scripts/planted-bugs                        every bug, against the default choice of scripts/test
  scripts/planted-bugs --resume               only those without a result
  scripts/planted-bugs --group deep           against all tests, only those that the default choice misses
  scripts/planted-bugs restart-limit-off-by-one --likely-only
"""


def main(words: list[str]) -> int:
    """Examine the bugs that are asked for; the exit code is 1 if some are not found."""
    args = _parse(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends, and the copy is removed
    if not args.table:
        _examine_all(_chosen(args), args)
    write_table(BUGS, write_results(BUGS))
    missed = [each.bug for each in read_results(BUGS).values() if each.group == args.group and not each.is_found]
    print(f"not found: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def _parse(words: list[str]) -> Namespace:
    parser = ArgumentParser(
        "scripts/planted-bugs", description=__doc__, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bugs or areas (all)")
    parser.add_argument("--group", default=DEFAULT, help="a group of scripts/test (its default choice)")
    parser.add_argument("--likely-only", action="store_true", help="run only the likely tests of each bug")
    parser.add_argument("--resume", action="store_true", help="pass over bugs that have a result")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table from known results")
    parser.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS", help="for all tests (3600)")
    args = parser.parse_args(words)
    known = {bug.name for bug in BUGS} | {bug.area for bug in BUGS}
    for name in args.names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            parser.error(f"no bug `{name}`" + (f"; did you mean `{close[0]}`?" if close else ""))
    return args


def _chosen(args: Namespace) -> list[Bug]:
    results = read_results(BUGS)
    bugs = [bug for bug in BUGS if not args.names or {bug.name, bug.area} & set(args.names)]
    if args.group != DEFAULT and not args.names:
        found = {name for (name, group), each in results.items() if group == DEFAULT and each.is_found}
        bugs = [bug for bug in bugs if bug.name not in found]
    if args.resume:
        bugs = [bug for bug in bugs if (bug.name, args.group) not in results]
    return bugs


def _examine_all(bugs: list[Bug], args: Namespace) -> None:
    options = Options(group=args.group, likely_only=args.likely_only, whole_seconds=args.limit)
    with copied_tree() as tree:
        for number, bug in enumerate(bugs, 1):
            print(f"{number}/{len(bugs)} {bug.name} …", end=" ", flush=True)
            result = examine(tree, bug, options)
            append_result(result)
            print(_told(result), flush=True)


def _told(result: Result) -> str:
    said = f"found by {result.test or 'the time limit'}" if result.is_found else "NOT FOUND"
    unreliable = f"; fails without it, too: {', '.join(result.unreliable)}" if result.unreliable else ""
    return f"{said}, {result.seconds:.0f} s{unreliable}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Time this project and its peers: ``python -m benchmarks [--only moments ...] [--full]``."""

import argparse
from pathlib import Path

from .cases.everything import CASES
from .harness import environment, measure
from .harness_report import page, write

DOCS, RESULTS = Path("docs/benchmarks"), Path("benchmarks/results")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_const", const="full", dest="size", help="the largest sizes: hours")
    sizes.add_argument("--tiny", action="store_const", const="tiny", dest="size", help="the sizes of the tests")
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of cases, such as moments")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=RESULTS / "data", help="where the files of the cases are kept")
    parser.add_argument("--output", type=Path, help=f"by default {DOCS}, with --only, --full or --tiny {RESULTS}")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    output = options.output or (DOCS if options.only == [""] and not options.size else RESULTS)
    results = {**environment(), "rounds": options.rounds, "cases": []}
    for case in (case for name, case in CASES.items() if name.startswith(tuple(options.only))):
        print(case.name, flush=True)
        results["cases"].append(measure(case, options.size or "usual", options.data, options.rounds))
        write(results, output)
    print(page(results))


if __name__ == "__main__":
    main()

"""The command ``mmpca compare``."""

from __future__ import annotations

from dataclasses import asdict

import click

from .console import console, print_differences, print_json
from .options import json_option


@click.command(short_help="Compare the settings and results of runs, or of evaluations.")
@click.argument("outputs", nargs=-1, metavar="RUN RUN ...")
@json_option
def compare(outputs: tuple[str, ...], as_json: bool) -> None:
    """Compare the other runs with the first: what differs in settings and data, and results next to one another.

    Of runs: components, shares, eigenvalues, and angles between the subspaces of methods of the same name. Of
    evaluations: errors, their differences and, where the splits are the same, tests.

    \b
    Example:
      mmpca compare runs/a runs/b
    """
    from mmpca_dist.runs.compare_runs import compare_runs

    comparisons = compare_runs(outputs)
    if as_json:
        print_json([asdict(each) for each in comparisons])
        return
    for each in comparisons:
        print_differences(console, each)

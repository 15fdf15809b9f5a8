"""The command ``mmpca check``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from mmpca_dist.errors import OutputError

from .console import console, print_check, print_json, print_text
from .options import checked, chosen_yaml, json_option


@click.command(short_help="Look at a table, and write a configuration for it.")
@click.argument("table", type=click.Path())
@click.option("--label", metavar="NAME", help="The column or array of the labels; by default it is guessed.")
@click.option("-o", "--output", metavar="FILE", help="Write a configuration, with a reason for each setting.")
@click.option("--overwrite", is_flag=True, help="Replace FILE.")
@json_option
def check(table: str, label: str | None, output: str | None, overwrite: bool, as_json: bool) -> None:
    """Read TABLE once: types, gaps, identifiers, categories, scales, classes, and all that a run would refuse.

    TABLE is whatever `mmpca run` or `mmpca ingest` reads, such as CSV, Parquet, Zarr or LIBSVM text.

    \b
    Examples:
      mmpca check table.csv
      mmpca check table.csv --label species -o my.yaml
    """
    if output is not None and Path(output).exists() and not overwrite:
        raise OutputError(f"{output} is there already: name another file, or --overwrite.")
    found = checked(table, label)
    print_check(console, found)
    if as_json:
        print_json(found.to_json())
    chosen = chosen_yaml(found)
    if output is not None:
        Path(output).write_text(chosen, encoding="utf-8")
        print_text(console, f"Wrote {output}. Next: mmpca run {shlex.quote(output)}")

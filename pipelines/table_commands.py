"""The commands that take a table: ``mmpca check`` and ``mmpca ingest``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mmpca_dist.errors import OutputError

from .console import console, open_page, print_check, print_json, print_text
from .options import (
    RequestCommand,
    checked,
    chosen_yaml,
    image_shape_of,
    json_option,
    label_options,
    missing_value_option,
    quick_prefect_option,
    verbosity,
)
from .session import STARTS_AGAIN, session

if TYPE_CHECKING:
    from mmpca_dist.ingest.options import IngestConfig


@click.command(short_help="Look at a table, and write a configuration for it.")
@click.argument("table", type=click.Path())
@label_options("The column or array of the labels; by default it is guessed.")
@click.option("-o", "--output", metavar="FILE", help="Write a configuration, with a reason for each setting.")
@click.option("--overwrite", is_flag=True, help="Replace FILE.")
@missing_value_option
@click.option("--open", "opens", is_flag=True, help="Open a page on the columns: FILE.html, or a temporary file.")
@json_option
def check(
    table: str, label: str | None, output: str | None, overwrite: bool, missing_values: tuple[str, ...], opens: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Read TABLE once: types, gaps, identifiers, categories, scales, classes, and all that a run would refuse.

    TABLE is whatever `mmpca run` or `mmpca ingest` reads, such as CSV, Parquet, Zarr or LIBSVM text.

    \b
    Examples:
      mmpca check table.csv
      mmpca check table.csv --label species -o my.yaml
      mmpca check table.csv --open
    """
    for file in [] if output is None or overwrite else [output, f"{output}.html"][: 1 + opens]:
        if Path(file).exists():
            raise OutputError(f"{file} is there already: name another file, or --overwrite.")
    found = checked(table, label, missing_values)
    print_check(found)
    if as_json:
        print_json(found.to_json())
    if opens:
        from mmpca_dist.runs.check_page import check_page

        open_page(check_page(found, output), "check", output and f"{output}.html")
    chosen = chosen_yaml(found)
    if output is not None:
        Path(output).write_text(chosen, encoding="utf-8")
        print_text(console, f"Wrote {output}. Next: mmpca run {shlex.quote(output)}")


@click.command(
    cls=RequestCommand, model="mmpca_dist.ingest.options:IngestConfig",
    short_help="Turn a table into Zarr, or CSV with text into Parquet.",
)  # fmt: skip
@click.option("--image-shape", metavar="HxW", callback=image_shape_of)
@click.option("--sparse/--dense", default=None)
@missing_value_option
@quick_prefect_option
@verbosity
def ingest(config: IngestConfig, prefect: bool) -> None:
    """Turn SOURCE (CSV, LIBSVM text, NumPy, Parquet) into a Zarr data set at DESTINATION.

    CSV with text, dates or gaps becomes Parquet, with a type for each column, where DESTINATION ends with .parquet;
    labels and columns that are no features are then named in the configuration of a run.

    An error names all columns of CSV that hold text or gaps, with the options that leave them out.

    \b
    Examples:
      mmpca ingest table.csv table.zarr --label species --drop id --keep patient
      mmpca ingest messy.csv messy.parquet
      mmpca ingest images.npz images.zarr --image-shape 28x28
      mmpca ingest news.libsvm news.zarr --sparse
    """
    from mmpca_dist.ingest.job import check_ingest
    from mmpca_dist.jobs.inputs import ingest_table, ingested

    check_ingest(config, lambda message: print_text(console, message))
    with session(STARTS_AGAIN, prefect) as work:
        summary = work.done("ingest", config, lambda: ingested(config, ingest_table(config, work.callback)))
    uri = shlex.quote(config.destination)
    next_command = f"transform RUN {uri} DEST" if config.unlabelled else f"run my.yaml --set dataset.uri={uri}"
    print_text(console, f"{summary}\nNext: mmpca {next_command}")

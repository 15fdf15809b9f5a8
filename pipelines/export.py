"""The command ``mmpca export``."""

from __future__ import annotations

from typing import Any

import click

from .console import console, print_text


@click.command(short_help="Write a model for another program.")
@click.argument("output")
@click.argument("method")
@click.option("--format", "format_", required=True, help="npy, onnx, sql, faiss or sklearn.")
@click.option("-o", "--file", help="Where to; by default a file here that is named after METHOD. It is replaced.")
@click.option("--components", "n_components", type=int, help="The first so many; by default all.")
def export(format_: str, **options: Any) -> None:
    """Write the model of METHOD in the run in OUTPUT for another program.

    The export gives rows the components that `transform` of the model gives them. What the format cannot express is
    refused.

    \b
    Examples:
      mmpca export runs/mine m-pca0 --format onnx
      mmpca export runs/mine m-pca0 --format sql -o reduce.sql --components 4
    """
    from mmpca_dist.runs.export.model import export as write

    files, usage = write(format=format_, **options)
    print_text(console, f"Wrote {', '.join(files)}\nUse: {usage}")

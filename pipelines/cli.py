"""The command ``mmpca``."""

from __future__ import annotations

import os

# Telemetry of Prefect's server and of its dependencies is off unless the user turns it on. Prefect reads these
# when it is imported.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

import sys
from collections.abc import Callable
from typing import Any

import click
import yaml
from rich.console import Console

import mmpca_dist
from mmpca_dist.errors import ConfigError, InputError, MmpcaError
from mmpca_dist.runs.config import load_config
from pipelines.session import INTERRUPTED, flow_session

EXIT_REFUSED = 2
GOES_ON = "The same command goes on from the stages that are done."
STARTS_AGAIN = "The same command starts again."
console = Console()
errors = Console(stderr=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(mmpca_dist.__version__, prog_name="mmpca")
def cli() -> None:
    """Supervised linear dimensionality reduction for labelled tables larger than memory."""


def _changes(settings: tuple[str, ...], output: str | None) -> dict[str, Any]:
    """Parse ``key=value`` words; values are YAML."""
    changes: dict[str, Any] = {}
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {word}: write it as key=value, such as --set n_components=4.")
        try:
            changes[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {word}: the value is not readable as YAML.") from error
    if output is not None:
        changes["output"] = output
    return changes


def _config_options(command: Callable) -> Callable:
    command = click.option("--output", metavar="DIR", help="Where results go; a path or fsspec URL.")(command)
    command = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Replace a setting, such as compute.workers=4.",
    )(command)
    return click.argument("config")(command)


@cli.command()
@_config_options
def run(config: str, settings: tuple[str, ...], output: str | None) -> None:
    """Fit every method of CONFIG, store models and projected rows, write the report."""
    loaded = load_config(config, _changes(settings, output))
    from mmpca_dist.runs.job import check_run

    check_run(loaded)
    console.print(f"Reading {loaded.dataset.uri} into {loaded.output}", highlight=False, markup=False)
    from pipelines.fit import fit_flow

    with flow_session(console, errors, GOES_ON):
        state = fit_flow(loaded, return_state=True)
    _finished(state)
    _summary(loaded.output)


@cli.command()
@_config_options
def plan(config: str, settings: tuple[str, ...], output: str | None) -> None:
    """Print what a run of CONFIG would cost; only metadata and labels are read."""
    loaded = load_config(config, _changes(settings, output))
    from mmpca_dist.runs.job import preview
    from pipelines.console import plan_table

    found = preview(loaded)
    console.print(plan_table(found.rows()))
    found.refuse_if_too_large()


@cli.command()
@click.argument("output")
def show(output: str) -> None:
    """Print the summary of the run in OUTPUT."""
    _summary(output)


@cli.command()
@click.argument("output")
@click.argument("dataset")
@click.argument("destination")
@click.option("--method", "methods", multiple=True, help="Only this method; may be repeated.")
@click.option("--features", help="Array or column of the rows.")
@click.option("--label", help="Array, column or .npy file of the labels, which are carried along; there need be none.")
def transform(**options: Any) -> None:
    """Project the rows of DATASET into DESTINATION with the model in OUTPUT."""
    from mmpca_dist.runs.transforming import TransformConfig
    from pipelines.transform import transform_flow

    with flow_session(console, errors, STARTS_AGAIN):
        state = transform_flow(TransformConfig(**options), return_state=True)
    _finished(state)
    console.print(state.message, highlight=False, markup=False, soft_wrap=True)


@cli.command()
@click.argument("source")
@click.argument("destination")
@click.option("--features", help="Array or list column of the rows.")
@click.option("--label", help="Array or column of the labels; for CSV also its number; for .npy the labels' file.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Convert the rows.")
@click.option("--image-shape", metavar="HxW", help="Where rows are images: height and width, such as 28x28.")
@click.option("--overwrite", is_flag=True, help="Replace the Zarr group at DESTINATION.")
def ingest(
    source: str,
    destination: str,
    features: str | None,
    label: str | None,
    dtype: str | None,
    image_shape: str | None,
    overwrite: bool,
) -> None:
    """Turn SOURCE (CSV, LIBSVM text, NumPy, Parquet) into a Zarr data set at DESTINATION."""
    numbered = int(label) if label is not None and label.lstrip("-").isdigit() else label
    shape = _image_shape(image_shape)
    from pipelines.ingest import ingest_flow

    with flow_session(console, errors, STARTS_AGAIN):
        state = ingest_flow(source, destination, features, numbered, dtype, shape, overwrite, return_state=True)
    _finished(state)
    console.print(state.message, highlight=False, markup=False, soft_wrap=True)


def _image_shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not cross or not height.isdigit() or not width.isdigit():
        raise ConfigError(f"--image-shape {text}: write it as HEIGHTxWIDTH, such as 28x28.")
    return int(height), int(width)


def _finished(state: Any) -> None:
    """End the command where a flow was refused or failed."""
    from pipelines.fit import REFUSED

    if state.name == REFUSED:
        raise InputError(state.message)
    if not state.is_completed():
        raise click.ClickException(state.message or f"the flow ended as {state.name}")


def _summary(output: str) -> None:
    from mmpca_dist.runs.summary import components, headline, report_of
    from pipelines.console import components_table

    console.print(headline(output), highlight=False, markup=False)
    console.print(components_table(components(output)))
    report = report_of(output)
    if report is not None:
        console.print(f"\nReport: {report}", highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2."""
    try:
        cli(standalone_mode=False)
    except MmpcaError as error:
        errors.print(f"mmpca: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(EXIT_REFUSED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        errors.print("mmpca: stopped.")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

"""The commands of ``mmpca``."""

from __future__ import annotations

import os

# Telemetry of Prefect's server and of its dependencies is off unless the user turns it on. Prefect reads these
# when it is imported.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_UI_V2_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
# Heartbeats come every minute rather than every three: conf/automations.yaml takes their absence for a crash.
os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "60")
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

from collections.abc import Callable
from typing import Any

import click
import yaml
from rich.console import Console

import mmpca_dist
from mmpca_dist.datasets import storage
from mmpca_dist.datasets.credentials import refuse_secrets
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.runs.config import RunConfig, load_config
from pipelines.session import flow_session

GOES_ON = "The same command goes on from the stages that are done."
STARTS_AGAIN = "The same command starts again."
console = Console()
errors = Console(stderr=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True})
@click.version_option(mmpca_dist.__version__, prog_name="mmpca")
def cli() -> None:
    """Supervised linear dimensionality reduction for labelled tables larger than memory.

    \b
    Start with:
      mmpca config > my.yaml                  write a configuration, and edit it
      mmpca plan my.yaml                      see what a run would cost
      mmpca run my.yaml                       run it
      mmpca evaluate my.yaml                  see which method and how many components serve best
      mmpca transform runs/mine new.parquet runs/mine-new
      mmpca refresh runs/mine inbox runs/live
    """


def _config_options(command: Callable) -> Callable:
    command = click.option(
        "--output", metavar="DIR", help="Replace the folder of the run: a path or fsspec URL, such as s3://bucket/run."
    )(command)
    command = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Replace a setting, such as compute.workers=4, 'n_components=[4,8]' or dataset.drop=id; may be repeated. "
        "For all of them: mmpca config.",
    )(command)
    return click.argument("config")(command)


def _shown(key: str, text: str) -> str:
    """Return an option as it was given, or its key alone where the value carries credentials."""
    try:
        refuse_secrets(text)
    except InputError:
        return key
    return f"{key}={text}" if key else text


def _load(
    config: str, settings: tuple[str, ...], output: str | None, defaults: dict[str, Any] | None = None
) -> RunConfig:
    """Read a configuration with the options of the command line; values are YAML."""
    changes: dict[str, Any] = {}
    places: dict[str, str] = {}
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {word}: write it as key=value, such as --set n_components=4.")
        try:
            changes[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {word}: the value is not readable as YAML.") from error
        places[key] = f"--set {_shown(key, text)}"
    if output is not None:
        changes["output"], places["output"] = output, f"--output {_shown('', output)}".rstrip()
    return load_config(config, changes, places=places, defaults=defaults)


@cli.command(short_help="Fit the methods of a configuration.")
@_config_options
def run(config: str, settings: tuple[str, ...], output: str | None) -> None:
    """Fit every method of CONFIG, a YAML file; store models and projected rows, write the report.

    The same command again goes on from the stages that are done.

    \b
    Examples:
      mmpca run conf/quickstart.yaml
      mmpca run my.yaml --output runs/second --set 'n_components=[4,8]'
    """
    loaded = _load(config, settings, output)
    from mmpca_dist.runs.job import check_run

    check_run(loaded)
    console.print(f"Reading {loaded.dataset.uri} into {loaded.output}", highlight=False, markup=False)
    from pipelines.fit import fit_flow

    with flow_session(console, errors, GOES_ON):
        state = fit_flow(loaded, return_state=True)
    _finished(state)
    _summary(loaded.output)


@cli.command(short_help="Print what a run or an evaluation would cost.")
@click.option("--evaluation", is_flag=True, help="What `mmpca evaluate` would cost, in place of `mmpca run`.")
@_config_options
def plan(config: str, settings: tuple[str, ...], output: str | None, evaluation: bool) -> None:
    """Print what a run of CONFIG would cost: only metadata and labels are read, nothing is written.

    \b
    Examples:
      mmpca plan my.yaml --set compute.memory_limit=8GiB
      mmpca plan my.yaml --evaluation
    """
    loaded = _load(config, settings, output, {"output": "."})
    from mmpca_dist.runs.evaluating import preview_evaluation
    from mmpca_dist.runs.stages import preview
    from pipelines.console import plan_table

    found = preview_evaluation(loaded) if evaluation else preview(loaded)
    console.print(plan_table(found.rows()))
    found.refuse_if_too_large()


@cli.command(short_help="Compare methods and numbers of components on rows held out.")
@_config_options
def evaluate(config: str, settings: tuple[str, ...], output: str | None) -> None:
    """Fit every method of CONFIG to some of the rows and judge it on the others, again and again.

    The same configuration serves `mmpca run`; its section `evaluation` says which rows are held out and which
    classifiers judge. The same command again goes on from the splits that are done.

    \b
    Examples:
      mmpca evaluate conf/evaluate.yaml
      mmpca evaluate my.yaml --output runs/compared --set evaluation.folds=10
    """
    loaded = _load(config, settings, output)
    from mmpca_dist.runs.job import check_run

    check_run(loaded, "evaluation")
    console.print(f"Reading {loaded.dataset.uri} into {loaded.output}", highlight=False, markup=False)
    from pipelines.evaluate import evaluate_flow

    with flow_session(console, errors, GOES_ON):
        state = evaluate_flow(loaded, return_state=True)
    _finished(state)
    _comparison(loaded.output)


@cli.command(short_help="List the classifiers of evaluations.")
def classifiers() -> None:
    """List the classifiers that judge reduced rows in evaluations."""
    from mmpca_dist.predictors.classifiers import CLASSIFIERS

    for name, what in CLASSIFIERS.items():
        click.echo(f"{name:<15}{what}")
    click.echo(
        "\nAny other goes by its import name, such as sklearn.neighbors.KNeighborsClassifier. Settings are given like\n"
        "{name: svm, C: 10, bias: true, label: SVM} or {name: naive-bayes, options: {ddof: 1}}; options of svm,\n"
        "logistic and imported classes are those of scikit-learn."
    )


@cli.command(name="config", short_help="Print a configuration with all settings explained.")
@click.option("--markdown", is_flag=True, help="Print the page of all settings instead.")
def config_(markdown: bool) -> None:
    """Print a configuration that holds every setting at its default, with explanations.

    \b
    Example:
      mmpca config > my.yaml
    """
    from mmpca_dist.runs.settings import commented_yaml, page

    click.echo(page() if markdown else commented_yaml(), nl=False)


@cli.command(short_help="List the methods.")
def methods() -> None:
    """List the methods, what their components keep, and how many there are of n rows with d features."""
    from mmpca_dist.runs.settings import methods_rows

    for name, keeps, limit in methods_rows():
        click.echo(f"{name:<19}{keeps}; at most {limit}")


@cli.command(short_help="Print the summary of a run.")
@click.argument("output")
def show(output: str) -> None:
    """Print the summary of the run or evaluation in OUTPUT: a table of its methods, and where its report is."""
    from mmpca_dist.runs.directory import RunDirectory

    is_evaluation = RunDirectory(storage.normalize(output)).purpose == "evaluation"
    (_comparison if is_evaluation else _summary)(output)


@cli.command(short_help="List runs and how far they are.")
@click.argument("folder")
def runs(folder: str) -> None:
    """List the runs in FOLDER and below it: what is finished, what is running, what has stopped and where."""
    from mmpca_dist.runs.listing import find_runs
    from pipelines.console import runs_table

    found = list(find_runs(folder))
    if not found:
        raise InputError(f"There is no run in {folder}, nor in the folders below it.")
    console.print(runs_table(found, folder))


@cli.command(short_help="Remove the scratch of runs.")
@click.argument("folder")
def clean(folder: str) -> None:
    """Remove what the runs in FOLDER and below it keep of unfinished stages; runs that are in use are left alone.

    Results stay. A run that has stopped then begins its unfinished stage anew.
    """
    from mmpca_dist.runs.listing import clean as clear

    for cleaned in clear(folder):
        console.print(str(cleaned), highlight=False, markup=False, soft_wrap=True)


@cli.command(short_help="Project new rows with the model of a run.")
@click.argument("output")
@click.argument("dataset")
@click.argument("destination")
@click.option("--method", "methods", multiple=True, help="Only this method; may be repeated.")
@click.option("--features", help="Array or column of the rows.")
@click.option("--label", help="Array, column or .npy file of the labels, which are carried along; there need be none.")
def transform(**options: Any) -> None:
    """Project the rows of DATASET into DESTINATION with the model in OUTPUT."""
    from mmpca_dist.runs.transforming import TransformConfig, check_transform

    given = TransformConfig(**options)
    check_transform(given)
    from pipelines.transform import transform_flow

    with flow_session(console, errors, STARTS_AGAIN):
        state = transform_flow(given, return_state=True)
    _finished(state)
    console.print(state.message, highlight=False, markup=False, soft_wrap=True)


@cli.command(short_help="Extend a finished run by new rows.")
@click.argument("run")
@click.argument("new")
@click.argument("output")
@click.option("--features", help="Array or column of the new rows; by default as for the run.")
@click.option("--label", help="Array, column or .npy file of their labels; by default as for the run.")
def refresh(**options: Any) -> None:
    """Extend the class moments of RUN by the rows of NEW, solve its methods again, and write a run to OUTPUT.

    NEW is a data set, or a folder of *.zarr, *.parquet and *.npz. What OUTPUT has taken up before is left out, so that
    the same command goes on as new data sets arrive.

    \b
    Example:
      mmpca refresh runs/mine inbox runs/live
    """
    from mmpca_dist.runs.refreshing import RefreshConfig, check_refresh

    given = RefreshConfig(**options)
    check_refresh(given)
    from pipelines.refresh import refresh_flow

    with flow_session(console, errors, GOES_ON):
        state = refresh_flow(given, return_state=True)
    _finished(state)
    console.print(state.message, highlight=False, markup=False, soft_wrap=True)


@cli.command(name="ingest", short_help="Turn a table of any format into Zarr.")
@click.argument("source")
@click.argument("destination")
@click.option("--features", help="Array or list column of the rows; by default X, or all columns beside the label.")
@click.option(
    "--label",
    help="Array or column of the labels, by default y or label; for CSV also its number (by default the last column); "
    "for .npy the labels' file.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="NAME",
    help="Leave out this column of CSV or Parquet, such as an identifier; for CSV also its number. May be repeated.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="NAME",
    help="Keep this column of names or whole numbers, such as the patient of a row, as an array beside the labels, for "
    "evaluation.column. May be repeated.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Convert the rows; by default text becomes float32, and numbers stay as they are.",
)
@click.option("--image-shape", metavar="HxW", help="Where rows are images: height and width, such as 28x28.")
@click.option(
    "--sparse/--dense",
    default=None,
    help="Write CSR rows, or dense ones; by default CSR sources stay sparse, and LIBSVM text becomes so where that "
    "takes at most a quarter of the space.",
)
@click.option("--unlabelled", is_flag=True, help="Take no column of CSV for the labels: its rows are to be projected.")
@click.option("--overwrite", is_flag=True, help="Replace the Zarr group at DESTINATION.")
def ingest(
    image_shape: str | None, sparse: bool | None, drop: tuple[str, ...], keep: tuple[str, ...], **options: Any
) -> None:
    """Turn SOURCE (CSV, LIBSVM text, NumPy, Parquet) into a Zarr data set at DESTINATION.

    \b
    Examples:
      mmpca ingest table.csv table.zarr --label species --drop id --keep patient
      mmpca ingest images.npz images.zarr --image-shape 28x28
      mmpca ingest news.libsvm news.zarr --sparse
    """
    from mmpca_dist.datasets.ingest import check_ingest

    check_ingest(options["source"], options["destination"], overwrite=options["overwrite"])
    from pipelines.ingest import IngestConfig, ingest_flow

    config = IngestConfig(
        image_shape=_image_shape(image_shape),
        layout="auto" if sparse is None else "sparse" if sparse else "dense",
        drop=list(drop),
        keep=list(keep),
        **options,
    )
    with flow_session(console, errors, STARTS_AGAIN):
        state = ingest_flow(config, return_state=True)
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
    from pipelines.flows import REFUSED

    if state.name == REFUSED:
        raise InputError(state.message)
    if not state.is_completed():
        raise click.ClickException(state.message or f"the flow ended as {state.name}")


def _summary(output: str) -> None:
    from mmpca_dist.runs.summary import LEGEND, choice, components, headline, report_of, search
    from pipelines.console import components_table

    console.print(headline(output), highlight=False, markup=False)
    console.print(components_table(components(output)))
    console.print(LEGEND, style="dim", highlight=False, markup=False)
    for line in (choice(output), search(output)):
        if line is not None:
            console.print(line, highlight=False, markup=False)
    report = report_of(output)
    if report is not None:
        console.print(f"\nReport: {report}", highlight=False, markup=False, soft_wrap=True)


def _comparison(output: str) -> None:
    from mmpca_dist.runs.tabulating import error_rows, headline_of, report_of
    from pipelines.console import rows_table

    console.print(headline_of(output), highlight=False, markup=False, soft_wrap=True)
    console.print(rows_table("Errors in percent: mean (standard deviation) over splits", error_rows(output)))
    console.print(f"\nReport: {report_of(output)}", highlight=False, markup=False, soft_wrap=True)

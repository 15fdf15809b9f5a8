"""The commands of ``mmpca``."""

from __future__ import annotations

import os
from dataclasses import asdict

# Telemetry of Prefect's server and of its dependencies is off unless the user turns it on. Prefect reads these
# when it is imported.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_UI_V2_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
# Heartbeats come every minute rather than every three: conf/automations.yaml takes their absence for a crash.
os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "60")
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

from typing import Any

import click

import mmpca_dist
from mmpca_dist.errors import ConfigError, InputError, did_you_mean

from .console import (
    ConsoleCallback,
    Terminal,
    console,
    errors,
    plan_table,
    print_comparison,
    print_json,
    print_summary,
    print_text,
    runs_table,
)
from .options import (
    config_options,
    json_option,
    load,
    prefect_option,
    quick_prefect_option,
    verbosity,
)
from .session import session
from .table_commands import check, ingest

GOES_ON = "The same command goes on from the stages that are done."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True})
@click.version_option(mmpca_dist.__version__, prog_name="mmpca")
def cli() -> None:
    """Supervised linear dimensionality reduction for labelled tables larger than memory.

    \b
    Start with:
      mmpca check table.csv -o my.yaml        look at a table, and write a configuration for it
      mmpca run my.yaml                       run it
      mmpca evaluate my.yaml                  see which method and how many components serve best
      mmpca transform runs/mine new.parquet runs/mine-new
      mmpca refresh runs/mine inbox runs/live

    Exit codes: 0 done, 1 an unforeseen error, 2 a mistake in options, settings or data, 130 stopped by Ctrl-C.
    """


cli.add_command(check)
cli.add_command(ingest)


@cli.command(short_help="Fit the methods of a configuration.")
@prefect_option
@config_options
@verbosity(console)
def run(config: str, settings: tuple[str, ...], output: str | None, label: str | None, prefect: bool) -> None:
    """Fit every method of CONFIG; store models and projected rows, write the report.

    CONFIG is a YAML file, the name of a bundled configuration (see `mmpca config --list`), or a table: then settings
    are chosen as by `mmpca check`, and printed.

    The same command again goes on from the stages that are done.

    \b
    Examples:
      mmpca run quickstart
      mmpca run table.csv --label species
      mmpca run my.yaml --output runs/second --set 'n_components=[4,8]'
    """
    with session(console, errors, GOES_ON, prefect) as work:
        loaded = load(config, settings, output, label, console)
        work.callback.heading = f"Reading {loaded.dataset.uri} into {loaded.output}"
        work.fit(loaded)
    print_summary(console, loaded.output, work.callback.notes)


@cli.command(short_help="Print what a run or an evaluation would cost.")
@click.option("--evaluation", is_flag=True, help="What `mmpca evaluate` would cost, in place of `mmpca run`.")
@config_options
@json_option
def plan(
    config: str, settings: tuple[str, ...], output: str | None, label: str | None, evaluation: bool, as_json: bool
) -> None:
    """Print what a run of CONFIG would cost: only metadata and labels are read, and nothing is run.

    \b
    Examples:
      mmpca plan my.yaml --set compute.memory_limit=8GiB
      mmpca plan my.yaml --evaluation
    """
    shown = Terminal(quiet=True) if as_json else console
    loaded = load(config, settings, output, label, shown, {"output": "."})
    from mmpca_dist.runs.evaluation_stages import preview_evaluation
    from mmpca_dist.runs.stages import preview

    costs = (preview_evaluation if evaluation else preview)(loaded, ConsoleCallback(shown))
    if as_json:
        print_json(costs.to_json())
    shown.print(plan_table(costs.rows()))
    costs.refuse_if_too_large()


@cli.command(short_help="Compare methods and numbers of components on rows held out.")
@prefect_option
@config_options
@verbosity(console)
def evaluate(config: str, settings: tuple[str, ...], output: str | None, label: str | None, prefect: bool) -> None:
    """Fit every method of CONFIG to some of the rows and score it on the others, again and again.

    The same configuration serves `mmpca run`; its section `evaluation` says which rows are held out and which
    classifiers are fitted. Results go to the folder `evaluation` below the output, next to those of a run. The same
    command again goes on from the splits that are done.

    \b
    Examples:
      mmpca evaluate conf/evaluate.yaml
      mmpca evaluate my.yaml --output runs/compared --set evaluation.folds=10
    """
    with session(console, errors, GOES_ON, prefect) as work:
        loaded = load(config, settings, output, label, console)
        from mmpca_dist.jobs.directory import folder_of

        folder = folder_of(loaded, "evaluation").uri
        work.callback.heading = f"Reading {loaded.dataset.uri} into {folder}"
        work.evaluate(loaded)
    print_comparison(console, folder, work.callback.notes)


@cli.command(short_help="List the classifiers of evaluations.")
def classifiers() -> None:
    """List the classifiers that evaluations fit to reduced rows."""
    from mmpca_dist.predictors.specification import CLASSIFIERS

    for name, classifier in CLASSIFIERS.items():
        click.echo(f"{name:<15}{classifier.description}")
    click.echo(
        "\nAny other goes by its import name, such as sklearn.neighbors.KNeighborsClassifier. Settings are given like\n"
        "{name: svm, C: 10, bias: true, label: SVM} or {name: naive-bayes, options: {ddof: 1}}; options of svm,\n"
        "logistic and imported classes are those of scikit-learn."
    )


@cli.command(name="config", short_help="Print a configuration with all settings explained.")
@click.argument("name", required=False)
@click.option("--list", "lists", is_flag=True, help="List the names of the bundled files instead.")
@click.option("--path", "shows_path", is_flag=True, help="Print the path of the bundled file NAME instead.")
@click.option("--markdown", is_flag=True, help="Print the page of all settings instead.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of configurations instead, for editors.")
def config_(name: str | None, lists: bool, shows_path: bool, markdown: bool, schema: bool) -> None:
    """Print a configuration that holds every setting at its default, with explanations.

    With NAME, print this bundled file: a configuration that `mmpca run NAME` takes, or a file for Prefect.

    \b
    Examples:
      mmpca config > my.yaml
      mmpca config quickstart > my.yaml
      prefect --no-prompt deploy --prefect-file "$(mmpca config prefect --path)" --all
    """
    from mmpca_dist.configuration import bundled
    from mmpca_dist.configuration.reference import commented_yaml, page, schema_text

    if lists:
        click.echo("\n".join(bundled.names()))
    elif name is not None:
        path = bundled.path_of(name)
        if path is None:
            hint = did_you_mean(name, bundled.names())
            raise ConfigError(f"There is no bundled file {name!r}; 'mmpca config --list' lists them.{hint}")
        click.echo(str(path) if shows_path else path.read_text(encoding="utf-8"), nl=shows_path)
    elif shows_path:
        raise ConfigError("--path needs the name of a bundled file; 'mmpca config --list' lists them.")
    else:
        click.echo(schema_text() if schema else page() if markdown else commented_yaml(), nl=False)


@cli.command(short_help="List the methods.")
@json_option
def methods(as_json: bool) -> None:
    """List the methods, what their components keep, and how many there are of n rows with d features."""
    from mmpca_dist.configuration.reference import methods_rows

    if as_json:
        print_json([dict(zip(("name", "keeps", "limit"), row, strict=True)) for row in methods_rows()])
        return
    for name, keeps, limit in methods_rows():
        click.echo(f"{name:<23}{keeps}; at most {limit}")


@cli.command(short_help="Print the summary of a run.")
@click.argument("output", type=click.Path())
@json_option
def show(output: str, as_json: bool) -> None:
    """Print the summary of the run or evaluation in OUTPUT: a table of its methods, and where its report is."""
    from mmpca_dist.jobs.directory import EVALUATION, RunDirectory
    from mmpca_dist.runs import evaluation_summary, summary
    from mmpca_dist.stores import storage

    run = RunDirectory(storage.normalize(output))
    below = RunDirectory(run.path(EVALUATION))
    if not run.exists and below.exists:
        run = below
    is_evaluation = run.purpose == "evaluation"
    if as_json:
        print_json((evaluation_summary if is_evaluation else summary).facts(run.uri))
        return
    if is_evaluation:
        print_comparison(console, run.uri)
        return
    print_summary(console, run.uri)
    if below.exists:
        print_text(console, f"Evaluation: mmpca show {below.uri}")


@cli.command(short_help="List runs and how far they are.")
@click.argument("folder", type=click.Path())
@json_option
def runs(folder: str, as_json: bool) -> None:
    """List the runs in FOLDER and below it: what is finished, what is running, what has stopped and where."""
    from mmpca_dist.runs.listing import find_runs

    states = list(find_runs(folder))
    if not states:
        raise InputError(f"There is no run in {folder}, nor in the folders below it.")
    if as_json:
        print_json([asdict(state) for state in states])
        return
    console.print(runs_table(states, folder))


@cli.command(short_help="Remove the scratch of runs, and what killed ingests have left.")
@click.argument("folder")
def clean(folder: str) -> None:
    """Remove what the runs in FOLDER and below it keep of unfinished stages; runs that are in use are left alone.

    Results stay. A stopped run then repeats its unfinished stage from the beginning. Files of killed ingests are
    removed too; a group that one of them was replacing is put back.
    """
    from mmpca_dist.runs.listing import clean as clear

    for cleaned in clear(folder):
        print_text(console, str(cleaned))


@cli.command(short_help="Project new rows with the model of a run.")
@click.argument("output")
@click.argument("dataset")
@click.argument("destination")
@click.option("--method", "methods", multiple=True, help="Only this method; may be repeated.")
@click.option("--features", help="Array or column of the rows; by default as for the run.")
@click.option("--label", help="Array, column or .npy file of the labels, which are carried along; there need be none.")
@quick_prefect_option
@verbosity(console)
def transform(prefect: bool, **options: Any) -> None:
    """Project the rows of DATASET into DESTINATION with the model in OUTPUT."""
    from mmpca_dist.runs.transform_rows import TransformConfig, check_transform

    config = TransformConfig(**options)
    with session(console, errors, GOES_ON, prefect) as work:
        check_transform(config, work.callback)
        summary = work.transform(config)
    print_text(console, summary)


@cli.command(short_help="Extend a finished run by new rows.")
@click.argument("run")
@click.argument("new")
@click.argument("output")
@click.option("--features", help="Array or column of the new rows; by default as for the run.")
@click.option("--label", help="Array, column or .npy file of their labels; by default as for the run.")
@prefect_option
@verbosity(console)
def refresh(prefect: bool, **options: Any) -> None:
    """Extend the class moments of RUN by the rows of NEW, solve its methods again, and write a run to OUTPUT.

    NEW is a data set, or a folder of *.zarr, *.parquet, *.arrow, *.lance, *.h5ad and *.npz. Data sets that
    OUTPUT already has are skipped, so that you can repeat the command as new ones arrive.

    \b
    Example:
      mmpca refresh runs/mine inbox runs/live
    """
    from mmpca_dist.runs.refresh import RefreshConfig, check_refresh

    config = RefreshConfig(**options)
    check_refresh(config)
    with session(console, errors, GOES_ON, prefect) as work:
        summary = work.refresh(config)
    print_text(console, summary)

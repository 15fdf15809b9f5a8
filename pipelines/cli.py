"""The commands of ``mmpca``."""

from __future__ import annotations

import os
import sys

# Telemetry of Prefect's server and of its dependencies is off unless the user turns it on. Prefect reads these
# when it is imported.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_UI_V2_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
# Heartbeats come every minute rather than every three: conf/automations.yaml takes their absence for a crash.
os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "60")
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

from dataclasses import asdict
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

import mmpca_dist
from mmpca_dist.errors import ConfigError, InputError, did_you_mean

from . import ALARM
from . import console as shown
from .console import console, print_json, print_text
from .options import (
    RequestCommand,
    config_options,
    json_option,
    label_options,
    load,
    prefect_option,
    quick_prefect_option,
    verbosity,
)
from .session import GOES_ON, STARTS_AGAIN, session
from .table_commands import check, ingest

if TYPE_CHECKING:
    from mmpca_dist.configuration.requests import MonitorConfig, RefreshConfig, TransformConfig
    from mmpca_dist.configuration.schema import Purpose

REQUESTS = "mmpca_dist.configuration.requests"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True})
@click.version_option(mmpca_dist.__version__, prog_name="mmpca")
def cli() -> None:
    """Supervised linear dimensionality reduction for labelled tables larger than memory.

    \b
    Start with:
      mmpca check table.csv -o my.yaml        look at a table, and write a configuration for it
      mmpca run my.yaml                       run it
      mmpca evaluate my.yaml                  see which method and how many components serve best
      mmpca transform runs/mine new.parquet projected.csv
      mmpca refresh runs/mine inbox runs/live

    Exit codes: 0 done, 1 an unforeseen error, 2 a mistake in options, settings or data,
    3 mmpca monitor raises an alarm, 75 a network, store or cluster failed, 130 stopped by Ctrl-C.
    """


for command in (check, ingest):
    cli.add_command(command)


@cli.command(short_help="Fit the methods of a configuration.")
@prefect_option
@verbosity
@config_options
def run(prefect: bool, **options: Any) -> None:
    """Fit every method of CONFIG; store models and projected rows, write the report.

    CONFIG is a YAML file, the name of a bundled configuration (see `mmpca config --list`), or a table, for which
    settings are chosen as by `mmpca check`, and printed.

    The same command again goes on from the stages that are done.

    \b
    Examples:
      mmpca run quickstart
      mmpca run table.csv --label species
      mmpca run my.yaml --output runs/second --set 'n_components=[4,8]'
    """
    _carry_out("run", "fit", "mmpca_dist.runs.fit:run", prefect, options)


def _carry_out(purpose: Purpose, flow: str, function: str, prefect: bool, options: dict[str, Any]) -> None:
    """Do the work of a configuration, by a flow or a function, and print what came out."""
    with session(GOES_ON, prefect) as work:
        loaded = load(**options)
        from mmpca_dist.results.evaluation_result import result_in

        folder = work.opened(loaded, purpose)
        work.done(flow, loaded, lambda: resolve_name(function)(loaded, [work.callback]), folder)
    shown.print_result(result_in(folder), work.callback.notes)


@cli.command(short_help="Print what a run or an evaluation would cost.")
@click.option("--evaluation", is_flag=True, help="What `mmpca evaluate` would cost, in place of `mmpca run`.")
@json_option
@config_options
def plan(evaluation: bool, as_json: bool, **options: Any) -> None:
    """Print what a run of CONFIG would cost: only metadata and labels are read, and nothing is run.

    \b
    Examples:
      mmpca plan my.yaml --set compute.memory_limit=8GiB
      mmpca plan my.yaml --evaluation
    """
    from mmpca_dist.runs.evaluate import preview_evaluation
    from mmpca_dist.runs.fit import preview

    with session(STARTS_AGAIN, prefect=False) as work:
        loaded = load(**options, defaults={"output": "runs/plan"})
        costs = (preview_evaluation if evaluation else preview)(loaded, work.callback)
    console.print(shown.plan_table(costs.rows()))
    if as_json:
        print_json(costs.to_json())
    costs.refuse_if_too_large()


@cli.command(short_help="Compare methods and numbers of components on rows held out.")
@prefect_option
@verbosity
@config_options
def evaluate(prefect: bool, **options: Any) -> None:
    """Fit every method of CONFIG to some of the rows and score it on the others, again and again.

    The same configuration serves `mmpca run`; its section `evaluation` says which rows are held out and which
    classifiers are fitted. Results go to the folder `evaluation` below the output, next to those of a run. The same
    command again goes on from the splits that are done.

    \b
    Examples:
      mmpca evaluate conf/evaluate.yaml
      mmpca evaluate my.yaml --output runs/compared --set evaluation.folds=10
    """
    _carry_out("evaluation", "evaluate", "mmpca_dist.runs.evaluate:evaluate", prefect, options)


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
@click.option("--schema", is_flag=True, help="Print the JSON Schema of configurations instead.")
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
        print_json([{"name": name, "keeps": keeps, "limit": limit} for name, keeps, limit in methods_rows()])
        return
    for name, keeps, limit in methods_rows():
        click.echo(f"{name:<23}{keeps}; at most {limit}")


@cli.command(short_help="Print the summary of a run.")
@click.argument("output")
@click.option("--open", "opens", is_flag=True, help="Open the report too; one in a bucket is downloaded first.")
@json_option
def show(output: str, opens: bool, as_json: bool) -> None:
    """Print the summary of the run or evaluation in OUTPUT: a table of its methods, and where its report is."""
    from mmpca_dist.jobs.directory import EVALUATION, RunDirectory
    from mmpca_dist.results.evaluation_result import result_in
    from mmpca_dist.runs.listing import state_of
    from mmpca_dist.stores import storage

    run = RunDirectory(storage.normalize(output))
    below = RunDirectory(run.path(EVALUATION))
    if not run.exists and below.exists:
        run = below
    purpose, found = run.purpose, state_of(run)
    if as_json:
        has_result = found.state == "finished" and purpose != "transform"
        result = result_in(run.uri).to_json() if has_result else None
        state = {"output": run.uri, "state": found.state, "purpose": purpose, "result": result}
        print_json({**state, "records": run.records()})
        return
    if found.next is not None:
        raise InputError(f"The run in {run.uri} is not finished: {found.words}.")
    told = result_in(run.uri)
    shown.print_result(told)
    if purpose == "run" and below.exists:
        print_text(console, f"Evaluation: mmpca show {below.uri}")
    if opens and told.report is not None:
        shown.open_report(told.report["html"])


@cli.command(short_help="Compare the settings and results of runs, or of evaluations.")
@click.argument("outputs", nargs=-1, metavar="RUN RUN ...")
@click.option("--open", "opens", is_flag=True, help="Open a page that draws them over one another.")
@json_option
def compare(outputs: tuple[str, ...], opens: bool, as_json: bool) -> None:
    """Compare the other runs with the first: what differs in settings and data, and results next to one another.

    Of runs: components, shares, eigenvalues, and angles between the subspaces of methods of the same name. Of
    evaluations: errors, their differences and, where the splits are the same, tests.

    \b
    Example:
      mmpca compare runs/a runs/b --open
    """
    from mmpca_dist.runs.compare_runs import compare_runs

    comparisons = compare_runs(outputs)
    if opens:
        from mmpca_dist.runs.compare_page import compare_page

        shown.open_page(compare_page(comparisons), "compare")
    if as_json:
        print_json([asdict(each) for each in comparisons])
        return
    for each in comparisons:
        shown.print_differences(each)


@cli.command(short_help="List runs and how far they are.")
@click.argument("folder")
@json_option
def runs(folder: str, as_json: bool) -> None:
    """List the runs in FOLDER and below it: what is finished, what is running, what has stopped and where."""
    from mmpca_dist.runs.listing import find_runs

    states = list(find_runs(folder))
    if not states:
        raise InputError(f"There is no run in {folder}, nor in the folders below it.")
    if as_json:
        print_json(states)
        return
    console.print(shown.runs_table(states, folder))


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


@cli.command(cls=RequestCommand, model=f"{REQUESTS}:TransformConfig", short_help="Project new rows with a run's model.")
@click.argument("destination", required=False)
@label_options()
@quick_prefect_option
@verbosity
def transform(config: TransformConfig, prefect: bool) -> None:
    """Project the rows of DATASET into DESTINATION with the model in OUTPUT.

    DESTINATION is a new file that ends with .parquet, .csv, .arrow or .zarr, for all methods side by side, or a new
    folder, for a table of each method. Columns beside the features go with the rows.

    \b
    Examples:
      mmpca transform runs/mine new.parquet projected.csv
      mmpca transform runs/mine cells.h5ad --into obsm/X_mpca --method m-pca0
    """
    from mmpca_dist.runs import transform as rows

    with session(GOES_ON, prefect) as work:
        rows.check_transform(config, work.callback)
        to = config.destination or config.dataset
        said = work.done("transform", config, lambda: rows.transformed(rows.transform(config, [work.callback])), to)
    print_text(console, said)


@cli.command(
    cls=RequestCommand, model=f"{REQUESTS}:MonitorConfig",
    short_help="Tell of new rows which do not belong to those of a run, and which classes moved.",
)  # fmt: skip
@label_options()
@quick_prefect_option
@verbosity
def monitor(config: MonitorConfig, prefect: bool) -> None:
    """Compare the rows of DATASET with those of RUN, which keeps belonging.

    The exit code is 3 where a class moved or is new, or where more rows do not belong than alpha says.

    \b
    Example:
      mmpca monitor runs/mine tonight.parquet
    """
    from mmpca_dist.runs import monitor as rows

    with session(GOES_ON, prefect) as work:
        said = work.done("monitor", config, lambda: rows.in_words(rows.monitor(config, [work.callback])))
    print_text(console, said)
    if work.callback.alarmed:
        sys.exit(ALARM)


@cli.command(cls=RequestCommand, model=f"{REQUESTS}:RefreshConfig", short_help="Extend a finished run by new rows.")
@label_options()
@prefect_option
@verbosity
def refresh(config: RefreshConfig, prefect: bool) -> None:
    """Extend the class moments of RUN by the rows of NEW, solve its methods again, and write a run to OUTPUT.

    NEW is a data set, or a folder of *.zarr, *.parquet, *.arrow, *.lance, *.h5ad and *.npz. Data sets that
    OUTPUT already has are skipped, so that you can repeat the command as new ones arrive.

    \b
    Example:
      mmpca refresh runs/mine inbox runs/live
    """
    from mmpca_dist.runs.refresh import check_refresh, in_words
    from mmpca_dist.runs.refresh import refresh as extend

    check_refresh(config)
    with session(GOES_ON, prefect) as work:
        words = work.done("refresh", config, lambda: in_words(config, extend(config, [work.callback])), config.output)
    print_text(console, words)


@cli.command(short_help="Write a model for another program.")
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

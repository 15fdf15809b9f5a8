"""The flows of commands, which deployments name as their entrypoints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.records import COMPARE, PROJECT, REPORT, SCORE, SOLVE

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, listed, publish, publish_result, short

if TYPE_CHECKING:
    from prefect.assets import Asset

    from mmpca_dist.configuration.requests import MonitorConfig, RefreshConfig, TransformConfig
    from mmpca_dist.configuration.schema import RunConfig
    from mmpca_dist.ingest.options import IngestConfig

REQUESTS = "mmpca_dist.configuration.requests"
RUN_CONFIG = "mmpca_dist.configuration.schema:RunConfig"


def title(config: RunConfig) -> str:
    """Return the rows and the methods of a run or an evaluation, in few words."""
    labels = config.labels
    return f"{short(config.dataset.uri)}: {labels[0] if len(labels) == 1 else f'{len(labels)} methods'}"


@flow_of(RUN_CONFIG, title)
def fit_flow(config: RunConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Class moments in one pass, components by every method, projected rows, a report."""
    from mmpca_dist.jobs.job import open_job
    from mmpca_dist.results.run_result import result_of
    from mmpca_dist.runs.fit import stages_of

    with open_job(config, callbacks) as job:
        rows, model = asset(config.dataset.uri), asset(job.run.uri, "model")
        made: dict[str, tuple[list[Asset], list[Asset]]] = {SOLVE: ([model], [rows])}
        if config.projected:
            made[PROJECT] = ([asset(job.run.uri, "projected")], [rows, model])
        chain, methods = TaskChain(), {SOLVE: config.labels, PROJECT: config.projected}
        for stage in stages_of(config):
            words = f"{stage.title}: {listed(methods[stage.name])}" if methods.get(stage.name) else stage.title
            chain.stage(job, stage, words, *made.get(stage.name, ()))
        report, uri = job.results.of(REPORT), job.run.uri
        publish(artifacts, result_of(job.run, job.config, job.results))
        return f"Report: {report['html']}", {"folder": uri, "report": report["html"], "models": config.labels}


@flow_of(RUN_CONFIG, title)
def evaluate_flow(config: RunConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Errors of every method and number of components on rows held out, by several classifiers."""
    from mmpca_dist.jobs.job import open_job
    from mmpca_dist.results.evaluation_result import evaluation_in
    from mmpca_dist.runs.evaluate import evaluation_stages

    with open_job(config, callbacks, "evaluation") as job:
        chain = TaskChain()
        for stage in evaluation_stages(config):
            methods = f": {listed(config.labels)}" if stage.name == SCORE else ""
            chain.stage(job, stage, f"{stage.title}{methods}")
        comparison = job.results.of(COMPARE)
        publish(artifacts, evaluation_in(job.run, comparison))
        answer = " ".join(comparison["answer"])
        facts = {"report": comparison["html"], "answer": answer, "verdict": comparison["verdict"]}
        return f"{answer} Report: {comparison['html']}", {"folder": job.run.uri, **facts}


@flow_of(
    "mmpca_dist.ingest.options:IngestConfig",
    lambda config: f"{short(config.source)} into {short(config.destination)}",
)
def ingest_flow(config: IngestConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Turn a labelled table of any format into chunked, checksummed Zarr."""
    from mmpca_dist.jobs.inputs import ingest_table, ingested

    makes, of = [asset(config.destination)], [asset(config.source)]
    words = f"Ingest {short(config.source)}"
    manifest = TaskChain().run("ingest", words, lambda: ingest_table(config, callbacks), makes, of)
    said = ingested(config, manifest)
    shown = ("rows", "columns", "dtype", "sparse", "classes", "bytes", "source", "destination")
    artifacts.show("ingested", "What was written", table=[{name: str(manifest[name]) for name in shown}])
    publish_result(artifacts, "Ingested", said, [f"mmpca run my.yaml --set dataset.uri={config.destination}"])
    facts = {name: manifest[name] for name in ("rows", "columns", "classes")}
    return said, {"folder": config.destination, **facts}


@flow_of(f"{REQUESTS}:TransformConfig", lambda config: f"{short(config.dataset)} with {short(config.output)}")
def transform_flow(config: TransformConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Project new rows with the methods of a finished run, out of core."""
    from mmpca_dist.runs.transform import transform, transformed

    makes = [asset(config.destination or config.dataset, "projected")]
    of = [asset(config.dataset), asset(config.output, "model")]
    words = f"Project {short(config.dataset)}" + (f": {listed(config.methods)}" if config.methods else "")
    work = partial(transform, config, [callbacks])
    manifest = TaskChain().run("project", words, work, makes, of, lambda manifest: manifest["reused"])
    said = transformed(manifest)
    publish_result(artifacts, "Projected rows", said, manifest["outputs"])
    return said, {"folder": manifest["destination"], "projected": manifest["outputs"], "rows": manifest["rows"]}


@flow_of(
    f"{REQUESTS}:RefreshConfig", lambda config: f"{short(config.output)}: {short(config.run)} and {short(config.new)}"
)
def refresh_flow(config: RefreshConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Extend the class moments of a finished run by new rows, exactly, and solve its methods again."""
    from mmpca_dist.results.run_result import run_result
    from mmpca_dist.runs.refresh import in_words, refresh

    makes = [asset(config.output, "model")]
    of = [asset(config.new), asset(config.run, "model")]
    words = f"Take up {short(config.new)} and solve again"
    work = partial(refresh, config, [callbacks])
    manifest = TaskChain().run("refresh", words, work, makes, of, lambda manifest: not manifest["solved"])
    folder, taken = manifest["folder"], manifest["taken"]
    if manifest["solved"]:
        rows = [{"data set": entry["name"], "rows": entry["rows"], "address": entry["uri"]} for entry in taken]
        if rows:
            artifacts.show("taken-up", "Data sets that were taken up, in order", table=rows)
        publish(artifacts, run_result(folder))
    kept = [method for method in manifest["methods"] if method not in manifest["left_out"]]
    names = [entry["name"] for entry in taken]
    result = {"folder": folder, "report": manifest["report"], "models": kept, "taken": names}
    return in_words(config, manifest), result


@flow_of(f"{REQUESTS}:MonitorConfig", lambda one: f"{short(one.dataset)} with {short(one.run)}")
def monitor_flow(config: MonitorConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Tell of new rows which do not belong to those of a finished run, and which classes moved."""
    from mmpca_dist.runs.monitor import in_words, monitor

    record = TaskChain().run("monitor", f"Monitor {short(config.dataset)}", lambda: monitor(config, [callbacks]))
    said = in_words(record)
    publish_result(artifacts, "Rows that were monitored", said, [record["rows_at"]])
    return said, {name: record[name] for name in ("alarm", "rows", "outside", "moved", "new", "rows_at")}

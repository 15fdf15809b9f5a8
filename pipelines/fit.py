"""The flow of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect.assets import Asset

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.records import PROJECT, REPORT, SOLVE

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, listed, publish, short

if TYPE_CHECKING:
    from mmpca_dist.configuration.schema import RunConfig


def title(config: RunConfig) -> str:
    """Return the rows and the methods of a run or an evaluation, in few words."""
    labels = config.labels
    return f"{short(config.dataset.uri)}: {labels[0] if len(labels) == 1 else f'{len(labels)} methods'}"


@flow_of("mmpca_dist.configuration.schema:RunConfig", title)
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

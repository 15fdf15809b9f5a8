"""The flow of an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.records import COMPARE, SCORE

from .artifacts import Artifacts
from .fit import title
from .flows import Done, TaskChain, flow_of
from .results import listed, publish

if TYPE_CHECKING:
    from mmpca_dist.configuration.schema import RunConfig


@flow_of("mmpca_dist.configuration.schema:RunConfig", title)
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

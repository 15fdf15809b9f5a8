"""The flow of a refresh."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, publish, short

if TYPE_CHECKING:
    from mmpca_dist.configuration.requests import RefreshConfig


@flow_of(
    "mmpca_dist.configuration.requests:RefreshConfig",
    lambda config: f"{short(config.output)}: {short(config.run)} and {short(config.new)}",
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

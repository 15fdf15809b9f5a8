"""What starts quickly stays so: libraries that commands, flows and their hooks do not use are not loaded."""

import subprocess
import sys

HEAVY = {"dask.array", "sklearn", "scipy", "bokeh", "matplotlib", "numba", "pandas", "distributed"}
FLOWS = """
from inspect import get_annotations
from uuid import UUID
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed
from mmpca_dist.errors import ConfigError
from mmpca_pipelines.entrypoints import (
    evaluate_flow, fit_flow, ingest_flow, monitor_flow, refresh_flow, transform_flow
)
from mmpca_pipelines.flows import as_model
"""
HOOKS = """
for flow in (evaluate_flow, fit_flow, ingest_flow, monitor_flow, refresh_flow, transform_flow):
    parameters = {"config": {"output": OUTPUT, "destination": OUTPUT}}
    flow.on_crashed_hooks[0](flow, FlowRun(flow_id=UUID(int=0), parameters=parameters), Crashed())
"""
REFUSALS = """
for flow in REFUSING:
    try:
        as_model(get_annotations(flow.fn, eval_str=True)["config"], {"outptu": "x"})
    except ConfigError:
        print("refused")
"""


def run_alone(code, modules):
    """Run code in a process of its own; return what it prints, and at last which of the modules it loads."""
    code += f"\nimport sys\nprint(sorted(sys.modules.keys() & {modules!r}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_flows_and_their_hooks_load_nothing_that_only_the_work_needs(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    assert run_alone(f"{FLOWS}\nOUTPUT = {str(tmp_path)!r}{HOOKS}", HEAVY) == ["[]"]


def test_a_refusal_of_parameters_loads_nothing_that_only_the_work_needs():
    refused = run_alone(f"{FLOWS}\nREFUSING = ingest_flow, monitor_flow, refresh_flow, transform_flow{REFUSALS}", HEAVY)
    assert refused == [*["refused"] * 4, "[]"]


def test_a_refusal_of_a_configuration_draws_nothing():
    """The methods, which it names, are estimators of scikit-learn."""
    refused = run_alone(
        f"{FLOWS}\nREFUSING = evaluate_flow, fit_flow{REFUSALS}", {"bokeh", "matplotlib", "distributed"}
    )
    assert refused == [*["refused"] * 2, "[]"]


def test_the_stages_before_the_report_draw_nothing():
    assert run_alone("import mmpca_dist.runs.fit", {"bokeh", "matplotlib", "distributed", "dask.array"}) == ["[]"]


def test_reports_import_no_bokeh():
    """The page makes its plots: importing Bokeh, and models in Python, took half of a report's time."""
    assert run_alone("import mmpca_dist.report.run_page, mmpca_dist.report.evaluation_page", {"bokeh"}) == ["[]"]

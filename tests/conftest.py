"""Fixtures: real data where it is at hand, and reproducible property tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

# Prefect's console handler would write to streams that pytest has closed. Read when Prefect is imported.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def real_path():
    """Return a function that finds a file of the published data sets, or skips the test."""
    folder = Path(os.environ.get("MMPCA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

    def find(file):
        if not (folder / file).exists():
            pytest.skip(f"{file} is not in {folder}; set MMPCA_DATA to the folder of the published data sets")
        return folder / file

    return find


@pytest.fixture(scope="session")
def real_data(real_path):
    """Return a function that loads a published data set (X, y) by name, or skips the test."""

    def load(name):
        tables = ("ionosphere", "ionosphere_raw", "mushrooms", "colon", "sonar")
        if name in tables:
            found = pq.read_table(real_path(f"{name}.parquet"))
            y = found.column("label").to_numpy()
            return np.column_stack([c.to_numpy() for c in found.drop_columns(["label"]).columns]), y
        with np.load(real_path(f"{name}.npz")) as arrays:
            return arrays["X"], arrays["y"]

    return load


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """A temporary Prefect server for all tests of flows; starting one takes seconds."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory):
    from test_runs import Recorder, make_config

    from mmpca_dist import run

    output = tmp_path_factory.mktemp("runs") / "digits"
    recorder = Recorder()
    results = run(make_config(output, project={"format": ["zarr", "parquet"]}), [recorder])
    return str(output), results, recorder

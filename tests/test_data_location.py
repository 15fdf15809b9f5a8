"""Data sets in a folder that an environment variable names, and plans, which write nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.evaluating import store
from helpers.operations import ROOT

from mmpca_dist.configuration.data_location import located
from mmpca_dist.configuration.sections import DatasetConfig
from mmpca_dist.errors import InputError
from mmpca_dist.ingest.job import ingest

NAME = "rows.npz"


def section(folder, uri=NAME):
    return DatasetConfig(uri=uri, data_dir=str(folder))


@pytest.fixture
def data(tmp_path):
    """Return the bytes of a data set."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    return store(tmp_path / "source.npz", X, np.arange(40) % 2).read_bytes()


@pytest.mark.parametrize("folder", ["$MMPCA_DATA_A", "${MMPCA_DATA_A}", "$MMPCA_DATA_A/inner", "${MMPCA_DATA_A}/inner"])
def test_folders_that_a_variable_names(folder, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MMPCA_DATA_A", str(tmp_path / "data"))
    place = tmp_path / "data" / folder.partition("/")[2] / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    assert located(section(folder)) == str(place)


@pytest.mark.parametrize("uri", ["../rows.npz", "a/../../rows.npz", "..", "%2e%2e/rows.npz", "a\\..\\..\\rows.npz"])
def test_a_data_set_stays_in_its_folder(uri, data, tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "rows.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"leaves the folder of dataset.data_dir"):
        located(section(tmp_path / "data", uri))


@pytest.mark.parametrize("variable", ["SECRET", "PATH", "AWS_SECRET_ACCESS_KEY", "XMMPCA_DATA", "HOMES", "MMPCA_KEY"])
def test_other_variables_stand_for_nothing(variable, monkeypatch):
    monkeypatch.setenv(variable, "hunter2")
    with pytest.raises(InputError, match=r"only HOME and those that begin with MMPCA_DATA") as caught:
        located(section(f"${variable}"))
    assert variable in str(caught.value) and "hunter2" not in str(caught.value)


PLANNING = """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
seen = []
def watch(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING and args[0] != os.devnull
    changes = event in {"os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "os.rmdir"}
    connects = event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen"}
    if (writes or changes or connects) and "__pycache__" not in str(args):  # numba's, for kernels that it compiles
        seen.append(f"{event} {args}")
sys.path.insert(0, sys.argv[1])
from mmpca_dist.errors import InputError
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.runs.evaluation_stages import preview_evaluation
from mmpca_dist.runs.stages import preview
sys.addaudithook(watch)
for path in sys.argv[2:]:
    for function in (preview, preview_evaluation):
        try:
            function(load_config(path)).rows()
        except InputError as error:
            print(error)
print("SEEN", seen)
"""


@pytest.mark.e2e
def test_a_plan_connects_to_nothing_and_writes_nothing(data, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    ingest(tmp_path / "source.npz", tmp_path / "rows.zarr")
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    texts = {
        "zarr": "dataset: {uri: rows.zarr}",
        "parquet": "dataset: {uri: rows.parquet}",
        "npz": "dataset: {uri: source.npz}",
        "absent": "dataset: {uri: rows.npz, data_dir: data}",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(f"{text}\nmethods: [pca, m-pca2]\nn_components: 2\noutput: out\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-B", "-c", PLANNING, str(ROOT), *[f"{name}.yaml" for name in texts]],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    absent = f"There is no {tmp_path}/data/rows.npz, in the folder of dataset.data_dir."
    *refusals, seen = done.stdout.splitlines()
    assert len(refusals) == 2 and all(line.startswith(absent) for line in refusals) and seen == "SEEN []"
    assert sorted(path.name for path in tmp_path.rglob("*")) == before

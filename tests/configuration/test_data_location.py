"""Data sets in a folder that an environment variable names."""

from pathlib import Path

import numpy as np
import pytest
from helpers.tables import write_npz

from mmpca_dist.configuration.dataset_section import DatasetConfig, located
from mmpca_dist.errors import InputError

NAME = "rows.npz"


def section(folder, uri=NAME):
    return DatasetConfig(uri=uri, data_dir=str(folder))


@pytest.fixture
def data(tmp_path):
    """Return the bytes of a data set."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    return Path(write_npz(tmp_path / "source.npz", X, np.arange(40) % 2)).read_bytes()


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

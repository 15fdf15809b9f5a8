"""Objects that are whole, and lie where others belong: of another array, split or run, or of an earlier time."""

import shutil

import numpy as np
import pytest
from helpers.runs import Recorder
from helpers.stored_objects import settings
from helpers.tables import config_of

from mmpca_dist import load_model, load_moments, run
from mmpca_dist.errors import DamageError
from mmpca_dist.runs.evaluate import evaluate

METHODS = {"methods": ["pca", "m-pca0"]}
SHARES = {"evaluation": {"splits": "shares", "count": 4, "margins": False, "classifiers": ["naive-bayes"]}}
pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def two_runs(tmp_path):
    """Return the folders of two runs over rows of one shape."""
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(1).normal(size=(150, 4)), y=np.arange(150) % 3)
    for name, uri in (("mine", "bundled:iris"), ("other", str(tmp_path / "rows.npz"))):
        run(settings(str(tmp_path / name), dataset={"uri": uri}, **METHODS))
    return tmp_path / "mine", tmp_path / "other"


CHUNKS = [
    ("solve", "mine/model/m-pca0.zarr/components_/c/0/0", "model/pca.zarr/components_/c/0/0"),
    ("solve", "other/model/pca.zarr/eigenvalues_/c/0", "model/pca.zarr/eigenvalues_/c/0"),
    ("solve", "other/model/pca.zarr", "model/pca.zarr"),
    ("reduce", "mine/statistics.zarr/scatters/c/1/0/0", "statistics.zarr/scatters/c/0/0/0"),
    ("reduce", "other/statistics.zarr/means/c/0/0", "statistics.zarr/means/c/0/0"),
]


def test_chunks_of_other_arrays_are_found_and_made_again(two_runs):
    mine, _ = two_runs
    components, means = load_model(str(mine), "pca").components_, load_moments(str(mine)).means
    for stage, source, target in CHUNKS:
        if (mine.parent / source).is_dir():
            shutil.rmtree(mine / target)
            shutil.copytree(mine.parent / source, mine / target)
        else:
            shutil.copy(mine.parent / source, mine / target)
        with pytest.raises(
            DamageError, match=r"its values are not those|its checksum does not match|where [0-9]+ were written"
        ):
            load_model(str(mine), "pca") if stage == "solve" else load_moments(str(mine))
        redone = Recorder()
        run(settings(str(mine), **METHODS), [redone])
        assert {stage for stage, reused in redone.ended.items() if not reused} == {"plan", stage}
        np.testing.assert_array_equal(load_model(str(mine), "pca").components_, components)
        np.testing.assert_array_equal(load_moments(str(mine)).means, means)


def test_records_of_another_run_are_not_taken_for_those_of_this(two_runs):
    mine, other = two_runs
    for name in ("model", "statistics.zarr", "records"):
        shutil.rmtree(mine / name)
        shutil.copytree(other / name, mine / name)
    for load in (lambda place: load_model(place, "pca"), load_moments):
        with pytest.raises(DamageError, match=r"records/\w+\.json is of another run than"):
            load(str(mine))
    run(settings(str(mine), **METHODS))
    assert len(load_moments(str(mine)).counts) == 3


def test_splits_that_were_exchanged_are_evaluated_again(tmp_path):
    """Each split counts once, be the evaluation at its end or on its way."""
    settings = config_of(tmp_path / "run", "bundled:iris", **SHARES)
    expected = evaluate(settings)["compare"]["verdict"]
    folder = tmp_path / "run/evaluation"
    for left in ({"compare"}, {"compare", "score"}):
        shutil.copy(folder / "splits/00001.json", folder / "splits/00002.json")
        for stage in left:
            (folder / f"records/{stage}.json").unlink()
        redone = Recorder()
        assert evaluate(settings, [redone])["compare"]["verdict"] == expected
        assert {stage for stage, reused in redone.ended.items() if not reused} == {"plan", "compare", "score"}
        assert '"split": 2' in (folder / "splits/00002.json").read_text()

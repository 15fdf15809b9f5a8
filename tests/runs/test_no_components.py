"""Methods without components: in a run they have none and say why, and the others go on; estimators refuse."""

import numpy as np
import pytest
from helpers.runs import through
from helpers.tables import config_of, write_parquet

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    FisherScore,
    MarginPCA,
    SupervisedPCA,
    load_model,
    open_dataset,
    run,
)
from mmpca_dist.errors import InputError
from mmpca_dist.results.evaluation_result import result_in

CORNERS = np.asarray([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
XOR = np.tile(CORNERS, (50, 1)), np.tile([0, 0, 1, 1], 50)
GRID = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), -1).reshape(-1, 2)
BOARD = GRID, (GRID.sum(axis=1) % 2).astype(int)
RNG = np.random.default_rng(0)
HALF = RNG.normal(size=(40, 3))
MIRRORED = np.concatenate([HALF, -HALF, 2 * HALF, -2 * HALF]), np.repeat([0, 1], 80)
THREE = np.tile([[1.0, 0], [-1, 0], [0, 2], [0, -2], [3, 3], [-3, -3]], (20, 1)), np.tile([0, 0, 1, 1, 2, 2], 20)
BY_WEIGHT = np.asarray([[0.0, 1], [4, 1], [1, 1], [1, 1], [0, 3], [4, 3]] * 10), np.asarray([0, 0, 1, 1, 2, 2] * 10)
WIDE = np.kron(np.asarray([[1.0, 1], [-1, -1], [1, -1], [-1, 1]]), np.ones((1, 20))), np.asarray([0, 0, 1, 1])
TABLES = {"xor": XOR, "checkerboard": BOARD, "mirrored": MIRRORED, "three": THREE, "wide": WIDE}
WITHOUT = ["fisher", "hsic", "pls", "fisher-score"]
ESTIMATORS = [FisherDiscriminant, SupervisedPCA, PLS, FisherScore]


@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("count", [None, 1])
def test_estimators_refuse_in_a_sentence(table, kind, count):
    X, y = TABLES[table]
    with pytest.raises(
        InputError, match=f"{kind.__name__}.* finds no component in {len(X)} rows of {X.shape[1]} features"
    ):
        kind(count).fit(X, y)
    assert MarginPCA(1).fit(X, y).components_.shape == (1, X.shape[1])
    assert LOL(1).fit(X, y).components_.shape == (1, X.shape[1])


def test_weights_that_make_means_equal_are_no_crash():
    X, y = np.asarray([[0.0], [3.0], [1.0], [1.0]]), [0, 0, 1, 1]
    with pytest.raises(InputError, match="FisherDiscriminant finds no component in 4 rows of 1 features"):
        FisherDiscriminant().fit(X, y, sample_weight=[2, 1, 1, 1])


@pytest.mark.parametrize("table", list(TABLES))
def test_the_others_of_a_run_go_on(table, tmp_path):
    X, y = TABLES[table]
    uri = write_parquet(tmp_path / "t.parquet", X, y)
    size = min(2, X.shape[1])
    results = run(
        config_of(tmp_path / "out", uri, methods=["pca", *WITHOUT, "m-pca0"], n_components=size, standardize=False)
    )
    models = results["solve"]["models"]
    assert [models[name]["n_components"] for name in WITHOUT] == [0] * 4
    assert models["pca"]["n_components"] == models["m-pca0"]["n_components"] == 2
    for title in ("Fisher discriminant", "PLS"):
        assert any(note.startswith(f"{title} has no components: ") for note in results["solve"]["notes"])
    page = (tmp_path / "out/report/index.html").read_text()
    assert "Fisher discriminant has no components" in page
    shown = {row["method"]: row["components"] for row in result_in(str(tmp_path / "out")).rows}
    assert shown == {"pca": "2", "m-pca0": "2"} | dict.fromkeys(WITHOUT, "0")
    assert results.methods["components"].to_dict()["fisher"] == 0
    with pytest.raises(InputError, match=r"fisher in .* has no components"):
        load_model(str(tmp_path / "out"), "fisher")
    Z = open_dataset(str(tmp_path / "out/projected/pca.zarr")).read_rows(0, len(X))
    np.testing.assert_allclose(Z, load_model(str(tmp_path / "out"), "pca").transform(X), atol=1e-6)
    assert not (tmp_path / "out/projected/fisher.zarr").exists()
    through(tmp_path / "out", uri, tmp_path / "all.csv")
    with pytest.raises(InputError, match=r"No method .* has components"):
        through(tmp_path / "out", uri, tmp_path / "none.csv", methods=["fisher"])


def test_a_run_of_none_but_such_methods_says_so_and_ends(tmp_path):
    uri = write_parquet(tmp_path / "t.parquet", *XOR)
    results = run(config_of(tmp_path / "out", uri, methods=["fisher"], n_components=1))
    assert results["solve"]["models"]["fisher"]["n_components"] == 0
    assert "Fisher discriminant has no components" in (tmp_path / "out/report/index.html").read_text()


CONSTANT = np.full((60, 3), 7.0), np.arange(60) % 2
APART = np.repeat([[0.0, 1.0], [5.0, 2.0]], 30, axis=0), np.repeat([0, 1], 30)


def test_rows_that_determine_no_fit_of_one_method_leave_the_others(tmp_path):
    methods = ["m-pca0", "fisher", {"name": "ridge", "alpha": 0}, "lol", "pca"]
    uri = write_parquet(tmp_path / "t.parquet", *APART)
    results = run(config_of(tmp_path / "out", uri, methods=methods, n_components=1))
    found = {name: model["n_components"] for name, model in results["solve"]["models"].items()}
    assert found == {"m-pca0": 1, "fisher": 0, "ridge": 0, "lol": 1, "pca": 1}
    with pytest.raises(InputError, match="raise alpha"):
        run(config_of(tmp_path / "alone", uri, methods=[methods[2]], n_components=1))
    constant = write_parquet(tmp_path / "c.parquet", *CONSTANT)
    results = run(config_of(tmp_path / "c", constant, methods=["pca", "fisher-score"], n_components=1))
    assert [model["n_components"] for model in results["solve"]["models"].values()] == [0, 0]

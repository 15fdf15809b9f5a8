"""The rows that stand out on the page of a run: the numbers are those of its Belonging, limits of theory the naive."""

import naive_belonging
import numpy as np
import pytest
from helpers.pictures import Read, check_picture
from helpers.reports import check_page
from helpers.tables import labelled, write_npz, write_zarr
from scipy.sparse import csr_array, issparse
from scipy.stats import f, norm

from mmpca_dist import load_model, run
from mmpca_dist.belonging.theory import theory_limits
from mmpca_dist.jobs.finished_runs import open_run
from mmpca_dist.jobs.records import Results
from mmpca_dist.jobs.stored_belonging import load_belonging
from mmpca_dist.report.sections.outlying import OUTLYING, outlying_figures, outlying_part
from mmpca_dist.results.outlying_rows import kept_statistics
from mmpca_dist.results.run_result import SolvedRun, run_result
from mmpca_dist.tables.compose import open_dataset

FAR = [60, 170]


def rows_of(n, d):
    """Return rows of three classes, of which two are far out by one column."""
    X, y = labelled(n, d, 3, 5)
    X = X.copy()
    X[FAR, 2] += 40
    return X, y


def solved(folder, X, y, **settings):
    """Return a run as the sections of its report see it."""
    sparse = issparse(X)
    uri = write_npz(folder / "rows.npz", X, y, sparse=True) if sparse else write_zarr(folder / "rows.zarr", X, y, 50)
    settings = {"methods": ["pca", "fisher"], "n_components": 2, "precision": "double"} | settings
    output = str(folder / "run")
    run({"dataset": {"uri": uri}, "output": output, "belonging": {"alpha": 0.05}, **settings})
    opened = open_run(output)
    return SolvedRun(opened, opened.config, open_dataset(uri), Results(opened.records()))


def equal_up_to_a_pixel(found, expected):
    """Marks are rounded to half a pixel, of panels of some 200 pixels over a few powers of ten."""
    distance = np.abs(np.log10(found)[:, None] - np.log10(expected)[None]).max(axis=2)
    assert found.shape == expected.shape
    assert distance.min(axis=0).max() < 0.03 and distance.min(axis=1).max() < 0.03


def test_marks_and_limits_are_those_of_the_belonging(tmp_path):
    X, y = rows_of(300, 8)
    finished = solved(tmp_path, X, y)
    methods = run_result(str(tmp_path / "run")).methods
    data = OUTLYING.data(finished, methods)
    pairs, order = outlying_figures(methods, data)
    for number, method in enumerate(methods):
        found, panel = load_model(str(tmp_path / "run"), method.name).belongs(X), Read(pairs.panels[number], "xy")
        belonging = load_belonging(finished.run, method.name)
        scores, own = found[["t2", "q"]].to_numpy(), data[0][number]
        for belongs, colour in ((True, "faint"), (False, "c1")):
            equal_up_to_a_pixel(panel.points(colour), scores[found["belongs"] == belongs])
        assert own.limits == {name: belonging.counts[name].limit(0.05 / 3) for name in ("t2", "q", "distance")}
        over = np.stack([found[name] / limit for name, limit in own.limits.items()], axis=1).max(axis=1)
        assert (found["belongs"] == (over <= 1)).all(), "rows above a line are those that do not belong"
        drawn = Read(order.panels[number], "y").points("faint")
        np.testing.assert_allclose(drawn[:, 0], np.flatnonzero(over <= 1), atol=1)
        assert f"{method.title} {int((~found['belongs']).sum())}" in pairs.alt
    for figure in (pairs, order):
        check_picture(figure)
    page = check_page((tmp_path / "run" / "report" / "index.html").read_text())
    assert {"outlying"} <= {*page.ids}
    assert pairs.alt in page.text


def test_columns_of_the_farthest_rows_are_the_contributions(tmp_path):
    X, y = rows_of(300, 8)
    finished = solved(tmp_path, X, y, standardize=True)
    methods = run_result(str(tmp_path / "run")).methods
    data = OUTLYING.data(finished, methods)
    tables = outlying_part(data, ()).tables
    assert [{line["row"] for line in table.records()} for table in tables] == [
        {str(one["row"]) for one in told} for told in data[1]
    ]
    for method, told in zip(methods, data[1], strict=True):
        model = load_model(str(tmp_path / "run"), method.name)
        p = model.belongs(X)["p"].to_numpy()
        assert sorted(p[[one["row"] for one in told]]) == sorted(p)[: len(told)]
        for one in told:
            (parts,) = model.contributions(X[[one["row"]]], one["score"])
            (total,) = model.belongs(X[[one["row"]]])[one["score"]]
            assert one["columns"][0] == [f"column {np.argmax(parts)}", pytest.approx(parts.max() / total, rel=1e-8)]


@pytest.mark.parametrize("shape", [(300, 8), (70, 90)], ids=["tall", "wide"])
@pytest.mark.parametrize("standardize", [False, True])
def test_limits_of_theory(shape, standardize, tmp_path):
    X, y = labelled(*shape, 3, 5)
    finished = solved(tmp_path, X, y, methods=["pca"], standardize=standardize)
    belonging = load_belonging(finished.run, "pca")
    found = theory_limits(belonging, 0.05, kept_statistics(finished.run))
    n, size = len(X), 2
    assert found["t2"] == pytest.approx(size * (n**2 - 1) / (n * (n - size)) * f.ppf(0.95, size, n - size), rel=1e-9)
    rows = X / X.std(axis=0) if standardize else X
    assert found["q"] == pytest.approx(naive_belonging.q_limit(rows, size, norm.ppf(0.95)), rel=1e-6)


def test_rows_of_a_normal_distribution_exceed_the_limits_of_theory_as_often_as_they_say(tmp_path):
    """3,000 new rows: 0.05 +- 0.02 is five standard errors."""
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((10, 10))
    X = rng.standard_normal((2000, 10)) @ mix
    finished = solved(tmp_path, X, rng.integers(2, size=2000), methods=["pca"], n_components=4)
    belonging = load_belonging(finished.run, "pca")
    scores = belonging.columns(rng.standard_normal((3000, 10)) @ mix)
    for name, limit in theory_limits(belonging, 0.05, kept_statistics(finished.run)).items():
        assert np.mean(scores[name] > limit) == pytest.approx(0.05, abs=0.02), name


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"belonging": {"alpha": 0.05, "scores": ["t2"]}}, ["outlying-order"]),
        ({"belonging": {"alpha": 0.05, "scores": ["class-distance"]}}, ["outlying-order"]),
        ({"n_components": 8, "methods": ["pca"]}, ["outlying-order"]),
        ({"belonging": {"alpha": 0.05, "scores": ["q"]}, "n_components": 8, "methods": ["pca"]}, ["outlying-order"]),
        ({"methods": ["pca", "all-columns"]}, ["outlying", "outlying-order"]),
        ({"solver": {"kind": "krylov"}, "methods": ["pca"]}, ["outlying", "outlying-order"]),
        ({"belonging": None}, []),
    ],
    ids=["T2 alone", "distance alone", "no Q is left", "Q that is rounding", "all columns", "passes", "none"],
)
def test_pictures_of_other_scores_and_methods(settings, names, tmp_path):
    X, y = rows_of(300, 8)
    solved(tmp_path, X, y, **settings)
    folder = tmp_path / "run" / "report"
    assert sorted(path.stem for path in folder.glob("outlying*.svg")) == names
    assert ("outlying" in check_page((folder / "index.html").read_text()).ids) == bool(names)


def test_sparse_rows_have_the_pictures_of_dense_ones(tmp_path):
    X, y = rows_of(300, 8)
    found = []
    for name, rows in (("dense", X), ("sparse", csr_array(X))):
        (tmp_path / name).mkdir()
        finished = solved(tmp_path / name, rows, y, methods=["pca"])
        ((one,), (told,), _) = OUTLYING.data(finished, run_result(finished.run.uri).methods)
        found.append((one.columns["q"], [row["row"] for row in told]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8, atol=1e-8)
    assert found[0][1] == found[1][1]

"""Questions to moments of cells, against the rows that they are about."""

import dask.array as da
import naive_cells
import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled
from scipy.sparse import csr_array

from mmpca_dist import MarginPCA, cell_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS

QUESTIONS = {
    "all": {},
    "one site": {"where": {"site": ["a"]}},
    "two sites of one batch": {"where": {"site": ["a", "c"], "batch": [1]}},
    "two classes": {"where": {"label": ["A", "C"]}},
    "classes merged": {"merge": {"T": ["A", "B"]}},
    "balanced": {"balance": "batch"},
    "without batches": {"remove": ["batch"]},
    "without the batches of one": {"where": {"batch": [1]}, "remove": ["batch"]},
    "without batches and sites": {"remove": ["batch", "site"]},
    "without a column": {"drop": [2]},
    "everything": {
        "where": {"site": ["a", "b"]}, "merge": {"T": ["A", "C"]}, "balance": "batch", "remove": ["site"], "drop": [0],
    },
}  # fmt: skip
FORMS = {"dense": np.asarray, "CSR": csr_array, "Dask": lambda X: da.from_array(X, (37, X.shape[1]))}


def rows(n=240, d=6):
    X, y = labelled(n, d, 3, 0)
    rng = np.random.default_rng(1)
    groups = {"site": np.array(["a", "b", "c"])[rng.integers(3, size=n)], "batch": rng.integers(2, size=n)}
    X = X + 3 * groups["batch"][:, None] * rng.standard_normal(d) + (groups["site"] == "b")[:, None]
    return X, np.array(["A", "B", "C"])[y], groups


def asked(cells, where=None, merge=None, balance=None, remove=(), drop=()):
    cells = cells.where(**(where or {})).merge(merge or {})
    cells = cells if balance is None else cells.balance(balance)
    return cells.remove(*remove).drop(drop).by_class()


def agrees(found, expected, pooled=False):
    labels, counts, means, scatters = expected
    assert found.classes.tolist() == labels
    np.testing.assert_allclose(found.counts, counts, rtol=1e-12)
    np.testing.assert_allclose(found.means, means, rtol=1e-10, atol=1e-10)
    scatters = scatters.sum(axis=0)[None] if pooled else scatters
    np.testing.assert_allclose(found.scatters, scatters, rtol=1e-9, atol=1e-9 * np.abs(scatters).max())


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("shape", [(240, 6), (60, 90)])
@pytest.mark.parametrize("weighted", [False, True])
def test_answers_are_those_of_the_rows(question, shape, weighted):
    X, y, groups = rows(*shape)
    weights = np.arange(len(y)) % 4 if weighted else None
    cells = cell_moments(X, y, groups, precision="double", sample_weight=weights)
    agrees(asked(cells, **question), naive_cells.moments(*naive_cells.answered(X, y, groups, weights, **question)))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rows_of_any_form(form):
    X, y, groups = rows()
    cells = cell_moments(form(X), y, pd.DataFrame(groups), precision="double")
    question = QUESTIONS["everything"]
    agrees(asked(cells, **question), naive_cells.moments(*naive_cells.answered(X, y, groups, None, **question)))


def test_columns_of_a_table_that_is_read_by_chunks(tmp_path):
    X, y, groups = rows()
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(6)]).assign(label=y, **groups)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    data = open_dataset(str(tmp_path / "rows.parquet"), label="label", drop=["site", "batch"])
    cells, question = cell_moments(data, groups=["site", "batch"], precision="double"), QUESTIONS["everything"]
    agrees(asked(cells, **question), naive_cells.moments(*naive_cells.answered(X, y, groups, None, **question)))
    with pytest.raises(InputError, match="sites"):
        cell_moments(data, groups=["sites"])


def test_sums_by_level_answer_what_they_determine(monkeypatch):
    """Of cells whose scatters are large, sums by each level of each axis are kept."""
    X, y, groups = rows()
    monkeypatch.setattr(LIMITS, "pooled_bytes", 17 * 6 * 6 * 8)
    cells = cell_moments(X, y, groups, precision="double")
    assert cells.cells.scatters.shape == (3 + 3 + 2, 6, 6)
    for name in ("all", "two classes", "classes merged", "without batches", "without a column"):
        expected = naive_cells.moments(*naive_cells.answered(X, y, groups, None, **QUESTIONS[name]))
        agrees(asked(cells, **QUESTIONS[name]), expected)
    expected = naive_cells.moments(*naive_cells.answered(X, y, groups, None, **QUESTIONS["one site"]))
    agrees(asked(cells, **QUESTIONS["one site"]), expected, pooled=True)
    with pytest.raises(InputError, match="sums of scatters by label, by site, by batch, and the question needs those"):
        asked(cells, **QUESTIONS["two sites of one batch"])


def test_effects_are_removed_as_covariates_of_a_fit_are():
    X, y, groups = rows()
    found = MarginPCA.from_moments(cell_moments(X, y, groups, precision="double").remove("batch"), "m-pca0", 3)
    fitted = MarginPCA(3, "m-pca0", precision="double").fit(X, y, covariates=pd.DataFrame({"batch": groups["batch"]}))
    np.testing.assert_allclose(found.components_, fitted.components_, atol=1e-10)
    np.testing.assert_allclose(found.eigenvalues_, fitted.eigenvalues_, rtol=1e-10)


def test_twenty_thousand_cells():
    X, y, _ = rows(60_000, 4)
    groups = {"patient": np.arange(60_000) % 8_000}
    cells = cell_moments(X, y, groups, precision="double")
    assert len(cells.codes) > 20_000
    left_out = {"patient": list(range(1, 8_000))}
    agrees(
        cells.where(**left_out).by_class(),
        naive_cells.moments(*naive_cells.answered(X, y, groups, None, where=left_out)),
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda cells: cells.where(sit="a"),
            "There is no axis 'sit'; there are label, site, batch. Did you mean 'site'",
        ),
        (lambda cells: cells.where(site="d"), "No row has site 'd'"),
        (lambda cells: cells.where(site="a").where(site="b"), "No row has all of these levels"),
        (lambda cells: cells.merge({"T": ["A"], "U": ["A"]}), "The class 'A' is merged twice"),
        (lambda cells: cells.merge({"C": ["A", "B"]}), "The classes merged cannot be called 'C': another class is"),
        (lambda cells: cells.remove("label"), "The effects of the classes cannot be removed"),
        (lambda cells: cells.where(label="A").merge({"T": ["D"]}), "No row has label 'D'"),
    ],
)
def test_questions_that_have_no_answer(ask, message):
    with pytest.raises(InputError, match=message):
        ask(cell_moments(*rows(), precision="double"))


def test_groups_are_refused_where_they_do_not_fit_the_rows():
    X, y, groups = rows()
    with pytest.raises(InputError, match="they have: label 240, site 239"):
        cell_moments(X, y, {"site": groups["site"][1:]})
    with pytest.raises(InputError, match="names of their own, other than 'label'"):
        cell_moments(X, y, {"label": groups["site"]})


def test_classes_are_merged_under_the_name_of_one_of_them():
    X, y, groups = rows()
    found = cell_moments(X, y, groups, precision="double").merge({"A": ["A", "B"]}).by_class()
    assert dict(zip(found.classes, found.sizes, strict=True)) == {"A": np.sum(y != "C"), "C": np.sum(y == "C")}
    with pytest.raises(InputError, match="'A' is merged twice"):
        cell_moments(X, y, groups).merge({"A": ["A"], "U": ["A"]})


@pytest.mark.parametrize(("y", "groups"), [(None, {"site": ["a"] * 6}), ([0, 1] * 3, ["site"])])
def test_rows_without_labels_or_groups_of_their_own_are_refused(y, groups):
    with pytest.raises(InputError, match="need y, and groups by name"):
        cell_moments(np.eye(6), y, groups)


def test_columns_are_dropped_by_positions_that_are_there():
    X, y = labelled(60, 4, 3, 0)
    cells = cell_moments(X, y, {"site": np.arange(60) % 2})
    assert cells.drop(np.asarray([0, 2])).by_class().n_features == 2
    for columns in (["f1"], [4], [-1]):
        with pytest.raises(InputError, match="drop takes positions of columns, from 0 to 3, and found"):
            cells.drop(columns)


def test_more_crossed_levels_than_there_are_numbers():
    X, y = labelled(200, 2, 3, 0)
    groups = {name: np.arange(200) for name in "abcdefghi"}
    with pytest.raises(InputError, match="too many crossed levels to number: 3 of label, 200 of a"):
        cell_moments(X, y, groups)

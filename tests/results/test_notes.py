"""What a reader must know stands in the report, in the terminal and in `mmpca show`; footnotes are of what is shown."""

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.reports import method_result
from helpers.runs import Recorder
from helpers.tables import config_of, labelled, write_npz
from helpers.watching import watched

from mmpca_dist import run
from mmpca_dist.jobs.records import Results
from mmpca_dist.results import run_result
from mmpca_dist.results.certificates import SearchSummary
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.results.notes import arbitrary
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.tables.column_scatter import dominance_note, dominant_columns
from mmpca_pipelines.cli import cli


def shown(output):
    found = CliRunner().invoke(cli, ["show", str(output)], catch_exceptions=False)
    assert found.exit_code == 0
    return " ".join(found.output.split())


@pytest.mark.parametrize(("squares", "expected"), [
    ([95, 1, 1, 1, 1, 1], [0]),
    ([1, 50, 1, 45, 1, 1, 1, 0], [1, 3]),
    ([1, 50, 1, 45, 1, 1, 1], []),  # two of seven are not few
    ([10] * 20, []),
    ([89, 11, 0, 0], []),
    ([91, 9], [0]),
    ([5], []),
    ([0, 0, 0, 0], []),
    ([100] * 6 + [0.01] * 100, []),  # six are not few
    ([100] * 5 + [0.01] * 100, [0, 1, 2, 3, 4]),
    ([np.inf, 1, 1, 1], []),
])  # fmt: skip
def test_few_columns_that_hold_nearly_all(squares, expected):
    found = dominant_columns(np.asarray(squares, float))
    assert sorted(column for column, _ in found) == expected
    assert all(share == pytest.approx(squares[column] / sum(squares)) for column, share in found)
    assert (dominance_note(found, None, len(squares)) is None) == (not expected)


def rows_with_a_heavy_column(folder, n, d):
    X, y = labelled(n, d, 2, seed=3)
    X[:, 2] = 1000 * np.random.default_rng(0).standard_normal(n)
    return write_npz(folder / "rows.npz", X, y)


CASES = {
    "scatter": ((200, 8), {}),
    "fewer rows than columns": ((30, 50), {}),
    "passes": ((200, 40), {"solver": {"kind": "krylov"}}),
    "passes, M-PCA0 beside others": ((200, 40), {"solver": {"kind": "krylov"}, "methods": ["m-pca0", "pca"]}),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.e2e if case == "passes" else ()) for case in CASES]
)
def test_the_column_that_components_follow_is_named_everywhere(case, tmp_path):
    (n, d), changes = CASES[case]
    config = config_of(tmp_path / "out", rows_with_a_heavy_column(tmp_path, n, d), **changes)
    watcher = Recorder()
    results = run(config, [watcher])
    note = f"Column 2 holds over 99% of the scatter of the {d} columns, so that components mostly follow it. Set "
    (found,) = (told for told in results["report"]["notes"] if told.startswith(note))
    assert f"Set standardize: true to give every column the same weight ({100 / d:.2g}% of the scatter);" in found
    assert set(results["report"]["notes"]) <= set(watcher.notes)
    assert found in (tmp_path / "out" / "report" / "index.html").read_text()
    assert f"note: {found}" in shown(tmp_path / "out")


@pytest.mark.parametrize("changes", [{"standardize": True}, {"methods": ["fisher", "fisher-score"], "n_components": 1}])
def test_where_units_do_not_count_no_column_is_named(changes, tmp_path):
    results = run(config_of(tmp_path / "out", rows_with_a_heavy_column(tmp_path, 200, 8), **changes))
    assert not any("of the scatter of the" in note for note in results["report"]["notes"])


@pytest.mark.parametrize(("changes", "named"), [({}, 1), ({"standardize": True}, 0)])
def test_an_evaluation_names_the_column_that_reductions_follow(changes, named, tmp_path):
    """Filled gaps, which have columns of indicators in passes, change nothing."""
    uri = rows_with_a_heavy_column(tmp_path, 200, 8)
    with np.load(uri) as stored:
        X, y = stored["X"], stored["y"]
    X[:50, 1] = np.nan
    dataset = {"uri": str(write_npz(tmp_path / "gaps.npz", X, y)), "missing": "mean"}
    notes = evaluate(config_of(tmp_path / "out", dataset["uri"], dataset=dataset, **changes))["compare"]["notes"]
    assert sum(note.startswith("Column 2 holds over 99% of the scatter of the 8 columns") for note in notes) == named


def test_names_of_columns():
    note = dominance_note([(12, 0.97), (4, 0.02)], [f"f{i}" for i in range(13)], 13)
    assert note.startswith("'f12' (97%) and 'f4' (2%) hold 99% of the scatter of the 13 columns, so that components")
    assert dominance_note([(12, 0.998)], ["p"] * 13, 13).startswith(
        "'p' holds over 99% of the scatter of the 13 columns"
    )


def test_notes_of_components_are_told_once_and_shown_again(tmp_path):
    config = config_of(tmp_path / "out", "bundled:wine", methods=["pca", "fisher"], n_components=[4])
    watcher = Recorder()
    notes = run(config, [watcher])["report"]["notes"]
    assert notes[0].partition(" where")[0] == "Fisher discriminant has 2 components"
    assert watcher.notes == notes  # each once, in the same words
    page = shown(tmp_path / "out")
    assert all(f"note: {note}" in page for note in notes) and len(notes) >= 2


def test_notes_of_an_evaluation_stand_in_the_terminal(tmp_path):
    """Classes of which a part has no row to train on, say."""
    X, y = labelled(60, 4, 2, seed=1, separation=0.5)
    y[:2] = 7
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), evaluation={"folds": 3, "margins": False}
    )
    watcher = Recorder()
    notes = evaluate(config, [watcher])["compare"]["notes"]
    assert notes and set(notes) <= set(watcher.notes)
    page = shown(tmp_path / "out")
    assert all(f"note: {note}" in page for note in notes)


@pytest.mark.parametrize(("methods", "there", "absent"), [
    (["pca", "m-pca0"], [], ["lol", "fisher", "lasso", "pls", "none where"]),
    (["pca", "fisher"], ["fisher: in units"], ["lol", "lasso", "fisher-score", "none where"]),
    (["lol", "pls"], ["lol: scatter within classes", "pls: variance", "none where"], ["ridge", "fisher", "lasso"]),
    (["lasso", "ridge"], ["lasso: penalties", "ridge: variance"], ["pls", "lol", "fisher"]),
])  # fmt: skip
@pytest.mark.e2e
def test_footnotes_are_of_methods_in_the_table(methods, there, absent, tmp_path, monkeypatch):
    run(config_of(tmp_path / "out", "bundled:iris", methods=methods))
    text = result_in(str(tmp_path / "out")).legend
    loaded = watched(monkeypatch, run_result, "load_model")
    assert text in shown(tmp_path / "out") and len(loaded) == len(methods)
    assert all(words in text for words in there) and not any(words in text for words in absent)


@pytest.mark.parametrize("standardize", [pytest.param(False, marks=pytest.mark.e2e), True])
def test_a_column_that_gives_the_label_away_is_named(standardize, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = rng.standard_normal((200, 6)) + y[:, None] * np.r_[0, 0, 1.5, 0, 0, 0]
    X[:, 4] = 1e3 * y + 20 * rng.standard_normal(200)
    (note,) = telling(tmp_path, X, y, standardize)
    total = ((X[:, 4] - X[:, 4].mean()) ** 2).sum()
    within = sum(((X[y == c, 4] - X[y == c, 4].mean()) ** 2).sum() for c in range(3))
    assert note.startswith("Column 4 nearly tells") and 0.99 < 1 - within / total < 1
    X[:, 4] = 0
    assert not telling(tmp_path, X, y, standardize)


def telling(folder, X, y, standardize):
    """Return the notes of a run on columns that tell the classes apart."""
    config = config_of(folder / f"{X[0, 4]}", write_npz(folder / f"{X[0, 4]}.npz", X, y), standardize=standardize)
    return [note for note in run(config)["solve"]["notes"] if "apart alone" in note]


def test_what_is_not_told_apart():
    """Eigenvalues nearer than residuals of orthonormal components; of others than rounding; of unsorted ones none."""
    near = {
        "eigenvalues": np.r_[1, 0.9, 0.5],
        "residuals": np.r_[0.06, 0.05, 0.01],
        "relative_errors": np.full(3, 1e-9),
    }
    assert arbitrary(**near, ordered=True, orthonormal=True).tolist() == [True, True, False]
    assert not arbitrary(**near, ordered=True, orthonormal=False).any()
    assert not arbitrary(**near, ordered=False, orthonormal=True).any()
    tied = {**near, "eigenvalues": np.r_[1, 0.5, 0.5], "residuals": np.full(3, np.nan)}
    for orthonormal in (True, False):
        assert arbitrary(**tied, ordered=True, orthonormal=orthonormal).tolist() == [False, True, True]


def test_figures_count_components_that_are_switched_off_and_divide_by_the_largest_eigenvalue():
    made = method_result(active=np.array([True, True, False]), residuals=np.array([1e-3, 2e-3, 4e-3]))
    assert made.numbers["switched off"] == 1
    assert made.residual == pytest.approx(4e-3 / made.eigenvalues.max())


@pytest.mark.parametrize(("proved", "said"), [(1.0, "100%"), (0.5, "not measured")])
def test_recall_follows_from_a_proof_of_all_rows_alone(proved, said):
    certificate = {"queries": 10, "recall": None, "proved_exact": proved}
    search = SimpleNamespace(stage="search", method=SimpleNamespace(label="m-pca2", title="M-PCA2"))
    results = Results({"search": {"certificate": certificate}, "count": {"n_rows": 10}})
    assert SearchSummary(search, results, None)._recall_cells()[0] == said

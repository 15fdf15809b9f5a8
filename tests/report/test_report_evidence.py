"""What reports show of fits by the evidence lower bound, of models for each class, and of rows as they are."""

import re

import numpy as np
import pytest
from helpers.pictures import check_picture, panels_of
from helpers.reports import by_class, check_page, evidence_of, method_result, report_contents
from helpers.tables import make_config

from mmpca_dist import BayesianMarginPCA, load_model, run
from mmpca_dist.models.bayesian_margin.pictures import MAX_PANELS, Evidence, evidence
from mmpca_dist.pictures.palette import method_look
from mmpca_dist.report.run_page import figures, render
from mmpca_dist.report.sections.pair_margins import PairMargins
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.results.figures import eigenvalue_table, methods_table
from mmpca_dist.statistics.pair_scatter import PairScatter

ABC = ["ant", "bee", "cat"]
MANY = [f"c{i:02d}" for i in range(12)]
NAN = re.compile(r"\bnan")


def low_rank(n_classes):
    """Return 200 rows of 12 columns, whose classes differ along two directions, with noise."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % n_classes
    latent = rng.standard_normal((n_classes, 2))[y] + rng.standard_normal((200, 2))
    return 3 * latent @ rng.standard_normal((2, 12)) + 0.5 * rng.standard_normal((200, 12)), y


def by_name(contents):
    return {figure.name: figure for figure in figures(contents)}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_is_that_of_the_estimator_by_row(n_classes):
    X, y = low_rank(n_classes)
    model = BayesianMarginPCA(6, tol=0, max_iter=40, precision="double").fit(X, y)
    of_model = Evidence.of("BM2PCA", model, len(X))
    assert of_model.classes == ([] if n_classes == 2 else ["0", "1", "2"])
    np.testing.assert_array_equal(of_model.bounds, model.bounds_ / 200)
    np.testing.assert_allclose(of_model.squares.ravel(), model.eigenvalues_, rtol=1e-12)  # sums of 12 squares
    np.testing.assert_array_equal(of_model.noise, 1 / model.noise_)
    assert of_model.switched_off.shape == (1 if n_classes == 2 else 3, 6)
    assert of_model.switched_off.sum() == np.count_nonzero(model.switched_off_) > 0
    for figure in evidence([], [of_model], {}):
        check_picture(figure)


@pytest.mark.e2e
def test_there_are_no_pictures_of_evidence_without_bounds():
    assert {"evidence", "relevance"}.isdisjoint(by_name(report_contents()))


@pytest.mark.parametrize(
    ("classes", "sweeps"), [([], 1), ([], 400), (ABC, 2), (MANY, 30), ([f"c{i}" for i in range(70)], 40)]
)
@pytest.mark.e2e
def test_pictures_of_any_number_of_models_and_sweeps(classes, sweeps):
    fits = [evidence_of("BM2PCA", classes, sweeps=sweeps), evidence_of("other", classes, k=1, off=0)]
    drawn = evidence([], fits, {})
    assert [figure.name for figure in drawn] == ["evidence", "relevance"]
    n_models = 2 * max(len(classes), 1)
    assert (f" The first {MAX_PANELS} of {n_models} models" in drawn[1].caption) == (n_models > MAX_PANELS)
    for figure in drawn:
        check_picture(figure)


@pytest.mark.e2e
def test_components_that_are_switched_off_are_hollow_below_the_noise():
    shown = method_result(sections=("evidence", "spectrum"))
    contents = report_contents([shown], data={"evidence": [evidence_of("BM2PCA", ABC, k=5, off=2)]})
    panels = panels_of(contents, "relevance", log="y")
    assert [panel.title for panel in panels] == ["BM2PCA: ant", "BM2PCA: bee", "BM2PCA: cat"]
    for panel, noise in zip(panels, (0.5, 0.45, 0.4), strict=True):
        active, hollow = panel.points("c0", hollow=False), panel.points("c0", hollow=True)
        np.testing.assert_allclose(active[:, 0], [1, 2, 3], atol=0.01)
        np.testing.assert_allclose(hollow[:, 0], [4, 5], atol=0.01)
        assert panel.rule("ink") == pytest.approx(noise, rel=0.02), "a tenth of a pixel"
        assert hollow[:, 1].max() < noise < active[:, 1].min()
    assert "BM2PCA has switched off 6 of 15 components." in by_name(contents)["relevance"].caption


@pytest.mark.e2e
def test_components_of_each_class_are_listed_by_class_and_shares_are_means():
    method = by_class(ABC)
    rows = eigenvalue_table(method).records()
    assert [(line["class"], line["no."]) for line in rows] == [(c, k) for c in ABC for k in "123"]
    first, second = method.shares[:4], method.shares[4:8]
    assert rows[3]["together"] == rows[3]["share"] == f"{100 * second[0]:.1f}%"
    assert rows[2]["together"] == f"{100 * first[:3].sum():.1f}%"
    (row,) = methods_table([method]).records()
    assert row["components"] == "4 for each of 3 classes 3 switched off"
    assert row["share"] == f"{100 * method.shares.sum() / 3:.1f}% mean of the classes"
    contents = report_contents([method_result(d=6), method], classes=ABC)
    text = check_page(render(contents, figures(contents))).text
    assert "for each of 3 classes" in text and "3 switched off" in text
    assert "Shares are those of a total (variance): 3. 3 more components in the model." in text


def test_of_many_classes_the_first_are_listed():
    table = eigenvalue_table(by_class(MANY))
    assert [line["class"] for line in table.records()] == [name for name in MANY[:10] for _ in range(2)]
    assert f"{12 * 4 - 20} more components" in table.below


@pytest.mark.e2e
def test_spectra_of_models_of_each_class_are_their_mean():
    method = by_class(ABC)
    contents = report_contents([method_result(d=6), method])
    each, together = panels_of(contents, "spectrum")
    mean, (colour, _) = method.shares.reshape(3, 4).mean(axis=0), method_look("bm2pca")
    np.testing.assert_allclose(each.points(colour), np.transpose([[1, 2, 3], mean[:3]]), atol=0.01)
    np.testing.assert_allclose(together.points(colour)[:, 1], np.cumsum(mean), atol=0.01)
    caption = by_name(contents)["spectrum"].caption
    assert "BM2PCA: a model for each class against the rest" in caption
    assert "Components that are switched off are left out." in caption


@pytest.mark.e2e
def test_pictures_of_components_are_of_the_first_class_and_say_so():
    plain, method = method_result(d=6, k=4), by_class(ABC, off=2)
    contents = report_contents([plain, method], classes=ABC)
    page = check_page(render(contents, figures(contents)))
    bars = page.data["weights"]["methods"]
    assert [(one["label"], len(one["loadings"])) for one in bars] == [("PCA", 4), ("BM2PCA class ant", 2)]
    assert "here, components are those of the first class's model. Components that are" in page.text
    assert method.leading.shape == (2, 6)
    np.testing.assert_allclose(np.linalg.norm(method.directions(9), axis=1), 1)


@pytest.mark.e2e
def test_projections_are_the_coordinates_of_the_first_class():
    contents = report_contents([by_class(ABC)], classes=ABC)
    (panel,) = panels_of(contents, "projection")
    assert panel.title == "BM2PCA class ant"
    drawn = np.sort(np.concatenate([panel.points(f"c{i}") for i in range(3)]), axis=0)
    rows = contents.data["projection"].rows["bm2pca"][:, :2]
    np.testing.assert_allclose(drawn, np.sort(rows, axis=0), atol=0.002 * np.ptp(rows))
    assert "these are the coordinates of the first class's model." in by_name(contents)["projection"].caption
    single = report_contents([by_class(ABC, k=1, off=0)], classes=ABC)  # the second column is of another class
    assert [text for text in panels_of(single, "projection")[0].texts if "component" in text] == ["component 1"]


def test_margins_are_those_within_the_components_of_the_first_class():
    method, rng = by_class(ABC), np.random.default_rng(0)
    sample = rng.standard_normal((50, 6))
    counts, edges = np.histogram(np.linalg.norm(sample, axis=1))
    pairs = PairScatter(np.eye(6), 50.0, sample, 50, 1.0, edges, counts, {})
    after = PairMargins.of(pairs, [method], standardized=False).after["bm2pca"]
    basis = np.linalg.qr(method.components[:3].T)[0]
    np.testing.assert_allclose(after, np.linalg.norm(sample @ basis, axis=1))


@pytest.mark.e2e
def test_pictures_leave_out_rows_as_they_are():
    nothing = np.full(6, np.nan)
    identity = method_result(
        "all-columns", d=6, k=6, components=np.eye(6), eigenvalues=nothing, residuals=nothing,
        relative_errors=np.zeros(6), total=float("nan"), ordered=False, values="none", sections=("choice",),
    )  # fmt: skip
    others = [method_result("pca", d=6), method_result("m-pca0", d=6)]
    contents = report_contents([others[0], identity, others[1]])
    beside, without = figures(contents), figures(report_contents(others))
    assert beside == without
    text = check_page(render(contents, beside)).text
    assert "ALL-COLUMNS" in text and not NAN.search(text)
    assert figures(report_contents([identity])) == []
    alone = render(report_contents([identity]), [])
    assert 'id="eigenvalues"' not in alone


@pytest.mark.e2e
def test_a_penalty_has_as_many_components_as_its_reduction_everywhere(tmp_path):
    """Its coefficients are two rows for each of three classes, which are no components."""
    X, y = low_rank(3)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    output = str(tmp_path / "out")
    run(make_config(output, str(tmp_path / "rows.npz"), methods=["pca", "projection-penalty"], n_components=[4]))
    (row,) = [row for row in result_in(output).rows if row["method"] == "projection-penalty"]
    text = " ".join(check_page((tmp_path / "out" / "report" / "index.html").read_text()).text.split())
    assert row["components"] == "4"
    assert re.search("projection-penalty [^0-9]*4 ", text) and "6 components" not in text and "asked for" not in text


@pytest.mark.e2e
def test_a_run_shows_evidence_and_its_summary_the_mean_share(tmp_path):
    X, y = low_rank(3)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    output = str(tmp_path / "out")
    methods = ["pca", "all-columns", {"name": "bm2pca", "tol": 0, "max_iter": 40}]
    run(make_config(output, str(tmp_path / "rows.npz"), methods=methods, n_components=[2, 6]))
    pictures = [path.stem for path in (tmp_path / "out" / "report").glob("*.svg")]
    assert {"evidence", "relevance", "spectrum", "projection"} <= set(pictures)
    model = load_model(output, "bm2pca")
    result = result_in(output)
    table, legend = result.rows, result.legend
    rows = {row["method"]: row for row in table}
    assert rows["bm2pca"]["components"] == "6"
    assert rows["bm2pca"]["share"] == f"{model.eigenvalues_.sum() / 3 / model.total_:.1%}"
    assert rows["all-columns"]["share"] == rows["all-columns"]["residual"] == "-"
    assert "bm2pca: a model for each class, with so many components and on average that share" in legend
    page = check_page((tmp_path / "out" / "report" / "index.html").read_text())
    off = int(model.switched_off_.sum())
    assert off and f"has switched off {off} of 18 components." in page.text
    assert f"{100 * model.eigenvalues_.sum() / 3 / model.total_:.1f}% mean of the classes" in " ".join(
        page.text.split()
    )
    assert not NAN.search(page.text)

"""The tables of Luo & Durrant 2017 and of Du et al. 2015 from the configurations that reproduce them."""

import pytest
from helpers import ROOT
from helpers.evaluating import scored
from mmpca_paper import du_2015

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.published import agreement, published_cells, published_datasets, side_by_side, sources_of
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.methods.base.registry import METHODS

PAPER = ROOT / "conf" / "paper"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "of"),
    [("ionosphere", 22, 29), ("ionosphere_libsvm", 22, 22), ("ionosphere_varying", 7, 7), ("sonar", 23, 24)],
)
def test_published_means_of_pca_and_m_pca(name, least, of, real_path, tmp_path, monkeypatch):
    """At least as many within two combined standard errors as there have been; fewer would need a reason."""
    file = load_config(PAPER / f"{name}.yaml").dataset.uri
    monkeypatch.setenv("MMPCA_DATA", str(real_path(file).parent))
    config = load_config(PAPER / f"{name}.yaml", {"output": str(tmp_path / "out")})
    records, _, results = scored(config)
    cells = ErrorTable.of(records, results["count"]["n_rows"]).cells(config.evaluation.reference)
    found = agreement(side_by_side(cells, published_cells(config.evaluation.published)))
    assert len(records) == 50 and found.compared == of
    assert found.within >= least


CONFIGURATIONS = sorted((ROOT / "conf" / "paper").glob("bm2pca-*.yaml"))
OWN = "SVM or own"
UNAVAILABLE = {"bm2pca-11-tumors": "11_Tumors", "bm2pca-14-tumors": "14_Tumors"}


def test_accuracies_of_two_tables_are_there_as_errors():
    cells = {(cell.table, cell.dataset, cell.method): cell for cell in du_2015.cells()}
    assert len(cells) == len(du_2015.cells()) == 24
    assert {cell.method for cell in cells.values()} == {"all-columns", "pca", "fisher", "bm2pca"} <= set(METHODS)
    assert {cell.n_components for cell in cells.values()} == {10}
    assert {dataset for _, dataset, _ in cells} == {path.stem for path in CONFIGURATIONS} | set(UNAVAILABLE)
    assert cells[2, "bm2pca-orl", "bm2pca"].summary == Summary(26.3, 3.8, 20)  # accuracy 73.7
    assert cells[2, "bm2pca-newsgroups", "all-columns"].summary == Summary(54.7, 1.4, 20)  # 45.3
    assert cells[3, "bm2pca-yaleb", "pca"].summary == Summary(87.1, 5.3, 20)  # 12.9


def test_figures_are_found_by_the_name_of_the_data_set():
    assert {cell.dataset for cell in du_2015.cells()} <= set(published_datasets())
    assert published_cells("bm2pca-yale") == [cell for cell in du_2015.cells() if cell.dataset == "bm2pca-yale"]
    assert sources_of("bm2pca-yale") == "Du et al. 2015"


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_a_configuration_evaluates_every_published_cell(path):
    config = load_config(path)
    methods, (classifier, lda) = {method.label for method in config.methods}, config.evaluation.classifiers
    assert lda.label == "lda"  # PCA + LDA is a baseline
    cells = published_cells(config.evaluation.published)
    assert {(cell.method, cell.classifier) for cell in cells} <= {(method, classifier.label) for method in methods}
    assert config.evaluation.count == du_2015.SPLITS == cells[0].summary.count


def test_what_is_not_at_hand_is_named_where_it_is_described():
    text = (ROOT / "docs" / "bm2pca.md").read_text()
    assert all(name in text for name in (*UNAVAILABLE.values(), "TRECVID2003", "yaleb_32x32.npz"))
    assert "Never run" in (ROOT / "conf" / "paper" / "bm2pca-yaleb.yaml").read_text()


@pytest.mark.slow
def test_bm2pca_errs_less_than_pca_and_a_support_vector_machine_on_faces(real_path, tmp_path, monkeypatch):
    """By 18 percentage points on average over the 20 splits, and PCA and LDA by 9."""
    monkeypatch.setenv("MMPCA_DATA", str(real_path("orl_32x32.npz").parent))
    settings = {"methods": ["pca", {"name": "bm2pca"}], "output": str(tmp_path / "out")}
    config = load_config(ROOT / "conf" / "paper" / "bm2pca-orl.yaml", settings)
    records, _, results = scored(config)
    cells = ErrorTable.of(records, results["count"]["n_rows"]).cells("pca")
    means = {(cell.method, cell.classifier): cell.summary.mean for cell in cells}
    own, svm, lda = (means[cell] for cell in (("bm2pca", OWN), ("pca", OWN), ("pca", "lda")))
    assert len(records) == 20 and own < svm - 12 and own < lda - 5

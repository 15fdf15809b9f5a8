"""The tables of Luo & Durrant 2017 from the configurations that reproduce them."""

from __future__ import annotations

import pytest
from helpers import ROOT
from helpers.evaluating import scored

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.evaluation.published import agreement, published_cells, side_by_side
from mmpca_dist.evaluation.tables import ErrorTable

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

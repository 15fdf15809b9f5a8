"""``dataset.offset``: a run is that of targets less the offset; a refresh subtracts it of new rows, too."""

import numpy as np
import pytest
from helpers.runs import refreshed
from helpers.tables import config_of, labelled, write_parquet

from mmpca_dist import load_model, run

pytestmark = pytest.mark.usefixtures("no_report")


def test_the_offset_is_subtracted(tmp_path):
    X, _ = labelled(240, 4, 2, seed=1)
    offset = np.random.default_rng(2).standard_normal(240)
    y = X @ [1.0, -2.0, 0.5, 0.0] + offset
    settings = {"methods": ["pls", "ridge"], "n_components": 1}
    for name, rows in (("first", slice(160)), ("new", slice(160, None)), ("all", slice(None))):
        write_parquet(tmp_path / f"{name}.parquet", X[rows], None, price=y[rows], other=-y[rows], shift=offset[rows])
    both = {"target": ["price", "other"], "offset": "shift"}
    run(config_of(tmp_path / "first", tmp_path / "first.parquet", dataset=both, **settings))
    refreshed(tmp_path / "first", tmp_path / "new.parquet", tmp_path / "live")
    run(config_of(tmp_path / "all", tmp_path / "all.parquet", dataset=both, **settings))
    less = {"price": y - offset, "other": -y - offset}
    twin = write_parquet(tmp_path / "twin.parquet", X, None, **less)
    run(config_of(tmp_path / "twin", twin, dataset={"target": ["price", "other"]}, **settings))
    for method in settings["methods"]:
        live, whole, expected = (load_model(str(tmp_path / name), method) for name in ("live", "all", "twin"))
        np.testing.assert_array_equal(whole.components_, expected.components_)
        np.testing.assert_allclose(live.components_, expected.components_, atol=1e-9)

"""The report of a whole run: rows stored as Parquet alone, columns beside the features, and how it is opened."""

from __future__ import annotations

import base64
import json
import re
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.reports import check_page

from mmpca_dist import load_model, run


@pytest.mark.e2e
def test_rows_of_parquet_are_drawn_and_a_page_in_a_store_is_opened(mmpca, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((70, 4)).astype(np.float32), np.arange(70) % 3
    table = {**{f"c{i}": X[:, i] for i in range(4)}, "label": [f"kind {i}" for i in y], "patient": np.arange(70) // 2}
    pq.write_table(pa.table(table), tmp_path / "in.parquet", row_group_size=32)
    output = f"memory://{uuid.uuid4().hex}/out"
    dataset = {"uri": str(tmp_path / "in.parquet"), "drop": ["patient"]}
    settings = {"methods": ["pca", "m-pca0"], "n_components": 2, "project": {"format": ["parquet"]}}
    run({"dataset": dataset, "output": output, **settings})
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    copy = Path(re.search("Downloaded to (.*)", mmpca("show", output, "--open")[1])[1])
    assert opened == [copy.as_uri()]
    page = check_page(copy.read_text())
    explorer = page.data["points"]["explorer"]
    packed = np.frombuffer(base64.b64decode(explorer["methods"][1]["coordinates"][0]), "<f4")
    np.testing.assert_allclose(packed, load_model(output, "m-pca0").transform(X)[:, 0], rtol=1e-4, atol=1e-5)
    drawn = json.dumps(page.data["points"]["item"])
    patients = [str(row // 2) for row in range(70)]
    for column in (["beside0", patients], ["row", list(range(70))], ["outcome", table["label"]]):
        assert json.dumps(column) in drawn
    pictured = ["pca", "m-pca0"][explorer["start"]]
    for command in (f"mmpca transform {output} new_rows.parquet", f"load_model({output!r}, {pictured!r})"):
        assert command in page.text

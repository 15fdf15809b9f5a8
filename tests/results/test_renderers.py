"""Terminal, page, Prefect, JSON and notebook state the same numbers; each is parsed from what was rendered."""

import json
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from helpers.tables import labelled, write_npz

from mmpca_dist import evaluate, run
from mmpca_dist.results.evaluation_result import result_in
from mmpca_pipelines import results

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?%?")
FOLDS = {"splits": "folds", "folds": 4, "margins": False}


def iris(folder):
    return {"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "m-pca0", "fisher", "lol"], "n_components": [1, 3]}


def wide(folder):
    rows = write_npz(folder / "rows.npz", *labelled(30, 60, 3, seed=0))
    return {"dataset": {"uri": str(rows)}, "methods": ["pca", "hsic"], "n_components": 4}


def with_gaps(folder):
    X, y = labelled(80, 5, 2, seed=0)
    X[::7, 1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcde")).assign(batch=np.arange(80) % 3, label=y)
    frame.to_parquet(folder / "rows.parquet")
    dataset = {"uri": str(folder / "rows.parquet"), "missing": "mean", "covariates": ["batch"]}
    return {"dataset": dataset, "methods": ["pca", "m-pca1a"], "n_components": 2}


def sparse(folder):
    lines = [f"{i % 2} {1 + i % 6}:{1 + i % 5} {7 + i % 4}:{2 + i % 3}" for i in range(60)]
    (folder / "rows.libsvm").write_text("\n".join(lines) + "\n")
    return {"dataset": {"uri": str(folder / "rows.libsvm")}, "methods": ["pca", "m-pca0"], "n_components": 3}


def classes(folder):
    return {**iris(folder), "n_components": [1, 2], "evaluation": {**FOLDS, "classifiers": ["lda", "fisher"]}}


def numbers_to_predict(folder):
    X, _ = labelled(80, 5, 2, seed=0)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=X[:, 0] + X[:, 1] ** 2)
    frame.to_parquet(folder / "rows.parquet")
    dataset = {"uri": str(folder / "rows.parquet"), "target": "y"}
    return {"dataset": dataset, "methods": ["pca", "pls"], "n_components": [1, 2], "evaluation": FOLDS}


def rows_of(lines, labels):
    """Return the numbers in the cells of each line that begins with a label, by label, in order."""
    found = {}
    for label, *cells in lines:
        if label in labels:
            found.setdefault(label, []).append([NUMBER.findall(cell) for cell in cells])
    return found


def in_terminal(text):
    """Return the cells of each row of tables; a row that was folded is put together."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\u2502")[1:-1]]
        if cells and not cells[0]:
            rows[-1] = [f"{above}{below}" for above, below in zip(rows[-1], cells, strict=True)]
        elif cells:
            rows.append(cells)
    return rows


def in_html(page):
    """Return the cells of each row of tables, without small print."""
    lines = re.findall("<tr>(.*?)</tr>", re.sub("<small.*?</small>|<span.*?</span>", "", page, flags=re.S), re.S)
    texts = ([re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", line, re.S)] for line in lines)
    return [[unescape(text).strip() for text in line] for line in texts]


def published(folder):
    """Return the artifact that says most, as Prefect gets it."""
    shown = {}
    artifacts = SimpleNamespace(show=lambda key, words, **content: shown.setdefault(key, content))
    results.publish(artifacts, result_in(folder))
    return re.sub(r"\\(.)", r"\1", shown["result"]["markdown"])


@pytest.mark.parametrize("job", [iris, wide, with_gaps, sparse, classes, numbers_to_predict])
def test_all_renderers_state_the_same_numbers(job, tmp_path, mmpca):
    content = {**job(tmp_path), "output": str(tmp_path / "out")}
    found = evaluate(content) if "evaluation" in content else run(content)
    _, terminal, _ = mmpca("show", found.folder)
    stated = json.loads(mmpca("show", found.folder, "--json")[1])["result"]
    page, notebook, markdown = Path(found.report).read_text(), found._repr_html_(), published(found.folder)
    labels = {line["method"] for line in stated["numbers"]}
    expected = rows_of(in_terminal(terminal), labels)
    assert set(expected) == labels
    assert rows_of(in_html(notebook), labels) == expected
    assert rows_of((line.strip("| ").split(" | ") for line in markdown.splitlines()), labels) == expected
    if "evaluation" in content:
        on_page = [NUMBER.findall(cell) for row in in_html(page) for cell in row]
        for label, rows in expected.items():
            means = [line["mean"] for line in stated["numbers"] if line["method"] == label]
            for cell in (cell for _, *cells in rows for cell in cells):
                assert cell in on_page and np.isclose(float(cell[0]), means, rtol=0, atol=0.0501).any()
    else:
        on_page = rows_of(in_html(page), labels)
        for line in stated["numbers"]:
            (row,) = expected[line["method"]]
            assert on_page[line["method"]][0][: len(row)] == row
            components, share, residual, values = row
            assert components == [str(line["components"])]
            close(share, [line["share"] and 100 * line["share"]], 0.0501)
            close(residual, [line["residual"]], 0.5 * (line["residual"] or 0))
            close(values, line["leading eigenvalues"], 6e-4 * max(map(abs, line["leading eigenvalues"])))
    shown = [" ".join(text.split()) for text in (terminal, unescape(page), markdown)]
    for said in (*stated["notes"], stated["lead"][0]):
        assert all(" ".join(said.split()) in text for text in shown) or said == stated["lead"][0] in str(found)


def close(texts, numbers, atol):
    """Assert that what was written is the numbers, as far as they were rounded; nothing is written of None."""
    known = [number for number in numbers if number is not None]
    assert len(texts) == len(known)
    np.testing.assert_allclose([float(text.rstrip("%").replace(",", "")) for text in texts], known, rtol=0, atol=atol)

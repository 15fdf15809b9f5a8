"""Faults are values: they keep type and facts wherever they go, and are said in the words of who asks."""

import ast
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.ingested import ingest
from helpers.tables import config_of

import mmpca_dist
from mmpca_dist import MarginPCA, errors, evaluate, open_dataset
from mmpca_dist.errors import ColumnError, InputError, MmpcaError, OutputError, PlanError
from mmpca_dist.faults import Asker, Col, Fault, Setting, asking, render, showing
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.foreign import asked_by
from mmpca_dist.tables.spans import Span

GAP = Fault("Column {column} has a gap: set {fill}.", {"column": Col(1), "fill": Setting("missing", "mean")}, "gap")
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MmpcaError)]
SPANS = [Span(i, (i, i + 1)) for i in range(4)]


def pickled(error):
    return pickle.loads(pickle.dumps(error))  # noqa: S301


def refuse(span):
    """A task that finds something wrong in the third span alone."""
    if span.start == 2:
        faults = [Fault("text: 'red' in row 2", {"name": "colour"}, "text"), Fault("1 gap", {"name": "age"}, "gap")]
        raise refusal("rows.parquet", faults)
    return 0


@pytest.mark.parametrize("kind", KINDS)
def test_errors_pickle_with_their_faults_and_who_asked(kind):
    with pytest.raises(kind) as caught, asking(Asker("keywords", "PCA", ["id", "age"])):
        raise kind(GAP)
    for error in (caught.value, deepcopy(caught.value), pickled(caught.value)):
        assert type(error) is kind and error.faults == (GAP,)
        assert str(error) == "PCA: Column 'age' has a gap: set missing='mean'."
    plain = pickled(kind("Found {braces} in 'a{0}.csv'."))
    assert str(plain) == "Found {braces} in 'a{0}.csv'." and plain.faults == (Fault(str(plain)),)
    assert str(kind("{row} of {table}", row=3)) == "3 of {table}" and str(kind()) == ""


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_faults_come_back_from_workers(cluster):
    """The type and all facts, said by who asked, whom workers do not know."""
    for scheduler in (Cluster(cluster, 2), Threads(2)):
        with pytest.raises(ColumnError) as caught, asking(Asker("options")):
            Tasks(scheduler=scheduler).run(refuse, SPANS, max, "refuse")
        assert [(fault.facts["name"], fault.kind) for fault in caught.value.faults] == [
            ("colour", "text"),
            ("age", "gap"),
        ]
        assert "--drop colour --drop age\n" in str(caught.value) and "--keep colour\n" in str(caught.value)


@pytest.mark.parametrize(("asker", "words"), [
    (Asker(), "dataset.missing_chunks: fill, dataset.drop: [a b, c], dataset.label, column 1, column 2 ('x')"),
    (Asker("options"), "--missing-chunks fill, --drop 'a b' --drop c, --label, column 1, column 2 ('x')"),
    (Asker("keywords"), "missing_chunks='fill', drop=['a b', 'c'], label, column 1, column 2 ('x')"),
    (
        Asker("keywords", "PCA", ["age", "colour"], {"label": "dataset.target"}),
        "PCA: missing_chunks='fill', drop=['a b', 'c'], dataset.target, column 'colour', column 2 ('x')",
    ),
])  # fmt: skip
def test_each_asker_has_words_of_its_own(asker, words):
    facts = {"fill": Setting("missing_chunks", "fill"), "drop": Setting("drop", ["a b", "c"])}
    facts |= {"label": Setting("label"), "one": Col(1), "two": Col(2, "x")}
    fault = Fault("{fill}, {drop}, {label}, column {one}, column {two}", facts)
    assert render([fault], asker) == words
    with asking(asker):
        assert str(InputError(fault)) == words
        nested = Fault("In split {split}: {fault}", {"split": 3, "fault": fault})
    assert render([nested], Asker()) == f"In split 3: {render([fault], Asker())}"


def test_the_innermost_asker_is_told_wherever_the_error_was_made():
    """Threads do not know who asks; what leaves an asker is said to it, also by those who show it later."""

    def refuse_all(_):
        raise InputError(GAP)

    askers = (asking(Asker("options")), asking(Asker("keywords")))
    with pytest.raises(InputError) as caught, askers[0], askers[1], ThreadPoolExecutor() as pool:
        list(pool.map(refuse_all, [0]))
    assert "missing='mean'" in str(caught.value) and "dataset.missing: mean" in str(InputError(GAP))


def test_addresses_are_shown_in_place_of_those_that_are_opened():
    """Also in the words of libraries, and where one that is shown is itself opened in place of another."""
    with showing({"/converted/t.parquet": "t.csv"}), showing({"/lease": "/out", "/t": "/converted/t.parquet"}):
        text = str(PlanError("Cannot read /converted/t.parquet: [Errno 5] '/converted/t.parquet'"))
        assert text == "Cannot read t.csv: [Errno 5] 't.csv'" and str(InputError("No /t.")) == "No t.csv."
        assert str(OutputError("{uri} is in use.", uri="/lease")) == "/out is in use."


def test_runs_commands_and_functions_name_what_was_typed(tmp_path):
    """The same fault, by each of them."""
    zarr.create_group(str(tmp_path / "t.zarr")).create_array("X", data=np.eye(6, 2))
    uri, output = str(tmp_path / "t.zarr"), str(tmp_path / "out.zarr")
    with pytest.raises(InputError, match=r"no array 'y' \(dataset\.label\)"):
        preview(config_of(tmp_path / "out", uri))
    with pytest.raises(InputError, match=r"no array 'age' \(dataset\.target\)"):
        preview(config_of(tmp_path / "out", "", dataset={"uri": uri, "target": "age"}))
    with pytest.raises(InputError, match=r"no array 'y' \(--label\)"):
        ingest(uri, output)
    with pytest.raises(InputError, match=r"no array 'y' \(dataset\.label\)"):
        open_dataset(uri)
    frame = pd.DataFrame({"a": [1.0, None] * 20, "b": np.arange(40.0)})
    with pytest.raises(ColumnError, match=r"^Column 'a' of X cannot .*: drop=\['a'\]; or let .*: missing='mean'\.$"):
        evaluate(frame, [0, 0, 1, 1] * 10, folder=tmp_path / "call")


def test_text_keeps_its_own_address(tmp_path):
    """Also where the table it was converted to is damaged, and in what a library says of that."""
    source = tmp_path / "t.csv"
    source.write_text("a,b,label\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(90)) + "1,,0\n")
    with pytest.raises(ColumnError) as caught:
        preview(config_of(tmp_path / "out", str(source)))
    assert str(caught.value).startswith(f"Column 'b' of {source} cannot be used as it is: 1 missing value (null).")
    assert [fault.facts["name"] for fault in caught.value.faults] == ["b"]
    (table,) = (tmp_path / "converted").rglob("table.parquet")
    table.write_bytes(table.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"{re.escape(str(source))} is not a readable Parquet file") as caught:
        preview(config_of(tmp_path / "out", str(source)))
    assert "table.parquet" not in str(caught.value)


def test_a_gap_that_a_task_meets_keeps_its_facts(tmp_path):
    """Parquet without statistics, whose gaps show as rows are read."""
    table = pa.table({"a": [1.0, 2.0, None, 4.0], "b": [1.0, 2.0, 3.0, 5.0], "label": [0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    with pytest.raises(ColumnError, match=r"^MarginPCA: Column 'a' of .* the first in row 2") as caught:
        MarginPCA(1).fit(open_dataset(tmp_path / "t.parquet"))
    (fault,) = caught.value.faults
    assert (fault.facts["name"], fault.kind) == ("a", "gap")


def test_estimators_name_columns_and_indicators_by_their_text():
    frame = pd.DataFrame({"colour": ["red", "blue", "green"] * 20, "age": np.arange(60.0)})
    y = np.arange(60) % 2
    model = MarginPCA(1).fit(frame, y)
    with pytest.raises(InputError) as caught, asked_by(model):
        raise InputError("Columns {first} and {last}; {none}.", first=Col(0), last=Col(3), none=Col(4))
    assert str(caught.value) == "MarginPCA: Columns 'colour' and 'age'; 4."
    lazy = dd.from_pandas(frame[["age"]].assign(b=np.where(y == 1, np.inf, 1.0)), npartitions=3)
    with pytest.raises(InputError, match=r"^MarginPCA: Found inf in row 1, column 'b', in rows 0 to"):
        MarginPCA(1).fit(lazy, da.from_array(y, 20))
    with pytest.raises(InputError, match=r"column 'age' of X has NaN in row 3\. Fill .*, or set missing='mean'\.$"):
        MarginPCA(1).fit(pd.DataFrame({"age": np.where(frame.index == 3, np.nan, 1.0)}), y)


def holes_of(text):
    return set(re.findall(r"\{(\w+)(?:!r)?\}", text))


def test_every_hole_has_a_fact_and_every_fact_a_hole():
    """Names that are misspelt would be shown as they are: of all errors that are raised with facts."""
    checked, sources = 0, Path(mmpca_dist.__file__).parent.rglob("*.py")
    for call in (node for path in sources for node in ast.walk(ast.parse(path.read_text()))):
        names = {keyword.arg for keyword in getattr(call, "keywords", ())}
        raises = isinstance(call, ast.Call) and getattr(call.func, "id", "").endswith("Error") and names
        if raises and isinstance(call.args[0], ast.JoinedStr):
            parts = [part.value for part in call.args[0].values if isinstance(part, ast.Constant)]
            assert holes_of("".join(parts)) == names, parts
            checked += 1
    assert checked > 10

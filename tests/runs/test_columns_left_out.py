"""Columns that ``mmpca check`` leaves out: identifiers, lists, dates and times of all usual forms, with their reasons."""
# ruff: noqa: E501

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmpca_dist import run
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.runs.check import check
from mmpca_dist.runs.checked_table import GROUPS, INDICATORS, LEFT_OUT, NUMBER
from mmpca_dist.runs.draft import suggested_yaml

N = 240
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)


def used(tmp_path, name, values, kind="parquet"):
    columns = {"a": RNG.normal(size=N), name: values, "kind": np.array(["p", "q"])[Y]}
    if kind == "csv":
        pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    else:
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return next(use for use in check(str(tmp_path / f"t.{kind}")).uses if use.column.name == name)


SPARSE = RNG.permutation(10**7)[:N]  # all differ, over a wide range


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("name", "values", "what", "reason"), [
    ("RespondentID", SPARSE, LEFT_OUT, "identifier"),
    ("respondentid", SPARSE, LEFT_OUT, "identifier"),
    ("subject_id", np.append(SPARSE[:200], SPARSE[:40]), LEFT_OUT, "identifier"),
    ("ProductCode", [f"c{i}" for i in np.append(SPARSE[:200], SPARSE[:40])], LEFT_OUT, "identifier"),
    ("zip code", RNG.permutation(np.append(SPARSE[:100], SPARSE[:140])), LEFT_OUT, "identifier"),
    ("id", np.arange(N) // 4, GROUPS, "60 groups"),
    ("CaseId", [f"case {i // 3}" for i in range(N)], GROUPS, "80 groups"),
    ("id", np.arange(N) % 3, LEFT_OUT, "groups of rows"),
    ("country_code", [f"c{i % 7}" for i in range(N)], INDICATORS, ""),
    ("humid", RNG.integers(0, 10**6, N), NUMBER, ""),
    ("acid", RNG.integers(0, 10**6, N), NUMBER, ""),
    ("paid", RNG.normal(size=N), NUMBER, ""),
])  # fmt: skip
def test_identifiers_are_no_features(tmp_path, name, values, what, reason, kind):
    use = used(tmp_path, name, values, kind)
    assert (use.what, reason in use.reason) == (what, True), use


DAYS = [dt.date(2024, 1, 1) + dt.timedelta(int(i)) for i in RNG.integers(0, 60, N)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("form", [
    "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%y", "%d.%m.%Y", "%Y%m%d", "%d %b %Y", "%d-%b-%y", "%B %d, %Y", "%a, %d %b %Y", "%b %Y",
    "%Y-%m", "%Y-W%W", "%d/%m/%Y 13:08", "%Y-%m-%dT00:00:00Z", "%Y-%m-%d 10:00:00.5+02:00", "%m/%d/%Y 1:08 PM",
])  # fmt: skip
def test_dates_in_text_are_called_dates(tmp_path, form, kind):
    use = used(tmp_path, "seen", [day.strftime(form) for day in DAYS], kind)
    assert use.what == LEFT_OUT and "date" in use.reason and "of day" not in use.reason, use


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S", "%I:%M %p", "%H:%M:%S.5"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_times_of_day_in_text_are_called_so(tmp_path, form, kind):
    times = [dt.time(int(hour), int(minute)).strftime(form) for hour, minute in RNG.integers(0, 24, (N, 2))]
    use = used(tmp_path, "at", times, kind)
    assert use.what == LEFT_OUT and "time" in use.reason and "of day" in use.reason and "date" not in use.reason, use


@pytest.mark.parametrize(("kind", "words"), [
    (pa.date32(), "since one of them"), (pa.timestamp("ns"), "since one of them"), (pa.timestamp("us", "UTC"), "since one"),
    (pa.time32("ms"), "hours since midnight"), (pa.time64("us"), "hours since midnight"), (pa.duration("s"), "lengths of time"),
])  # fmt: skip
def test_types_of_times_have_a_reason_of_their_own(tmp_path, kind, words):
    whole = pa.array(np.arange(N) % 90, pa.int32() if kind.bit_width == 32 else pa.int64())
    use = used(tmp_path, "at", whole.cast(kind))
    assert use.refused and words in use.reason, use


@pytest.mark.parametrize(
    "text", ["1.5", "10-12", "3:1 mix", "12 kg", "marble", "decent 5 of 9", "192.168.0.1", "2024 model"]
)
def test_other_text_is_no_date(tmp_path, text):
    assert used(tmp_path, "seen", [text if i % 3 else "other" for i in range(N)]).what == INDICATORS


LISTS = {
    "texts": [["x", "y"][: i % 3] for i in range(N)],
    "ragged": [[1.0] * (1 + i % 5) for i in range(N)],
    "fewer than the numbers": [[1.0] for _ in range(N)],
    "one text each": [["p"] for _ in range(N)],
    "nested": [[[1.0, 2.0]] for _ in range(N)],
    "with gaps": [None if i % 4 == 0 else ["x"] for i in range(N)],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_left_out_and_the_draft_runs(tmp_path, monkeypatch, no_report, name):
    monkeypatch.chdir(tmp_path)
    use = used(tmp_path, "tags", LISTS[name])
    assert (use.what, use.refused) == (LEFT_OUT, True) and "list" in use.reason
    checked = check("t.parquet")
    assert (checked.label, checked.n_features, checked.refused) == ("kind", 1, [])
    (tmp_path / "my.yaml").write_text(suggested_yaml(checked))
    config = load_config("my.yaml", {"methods": ["pca"], "n_components": 1})
    assert run(config)["count"]["feature_names"] == ["a"]


def test_an_embedding_is_the_rows_and_what_is_none_is_named(tmp_path):
    vectors = RNG.normal(size=(N, 8)) + Y[:, None]
    columns = {"a": RNG.normal(size=N), "x": list(vectors), "tags": LISTS["texts"], "kind": np.array(["p", "q"])[Y]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    checked = check(str(tmp_path / "t.parquet"))
    assert (checked.features, checked.label, checked.n_features, checked.refused) == ("x", "kind", 8, [])
    np.testing.assert_allclose(checked.squares, vectors.var(axis=0) * N, rtol=1e-9)
    assert [note for note in checked.notes if "no features are a, tags" in note or "'a', 'tags'" in note]


@pytest.mark.parametrize(("texts", "noted"), [
    (["caf\u00e9", "cafe\u0301"], True), (["a", "a "], True), (["a", " a"], True), (["Male", "male"], True),
    (["a b", "a\u00a0b"], True), (["\ufb01n", "fin"], True), (["a", "b"], False), (["1", "01"], False),
])  # fmt: skip
@pytest.mark.parametrize("name", ["site", "label"])
def test_texts_that_look_alike_are_noted(tmp_path, texts, noted, name):
    values = np.array([*texts, "other"])[RNG.integers(0, 3, N)]
    pd.DataFrame({"a": RNG.normal(size=N), name: values, "kind": np.where(Y, "p", "q")}).to_parquet(
        tmp_path / "t.parquet"
    )
    checked = check(str(tmp_path / "t.parquet"), "label" if name == "label" else "kind")
    notes = [note for note in checked.notes if note.startswith(f"{name!r} has texts that differ only")]
    assert len(notes) == noted
    assert not noted or all(ascii(text) in notes[0] for text in texts)

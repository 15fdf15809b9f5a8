"""A page that is made to be passed on carries no patient data unless it is asked to, and says what it carries."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of

from mmpca_dist import run
from mmpca_dist.errors import InputError
from mmpca_dist.ingest.column_profiles import ColumnProfile

N = 120
BESIDE = ["record_id", "patient", "visit", "remark", "site", "dose", "relapse"]
PRIVATE = {"record_id": "700017", "patient": "P-0017", "visit": "2031-03", "remark": "fell ill 17", "site": "Ulmstadt"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    generator = np.random.default_rng(0)
    label = np.arange(N) % 2
    frame = pd.DataFrame(generator.standard_normal((N, 3)) + label[:, None], columns=list("abc"))
    frame["record_id"] = 700000 + np.arange(N)
    frame["patient"] = [f"P-{i // 3:04d}" for i in range(N)]
    frame["visit"] = [f"2031-03-{1 + i % 28:02d}" for i in range(N)]
    frame["remark"] = [f"fell ill {i}" for i in range(N)]
    frame["site"] = np.where(np.arange(N) % 3, "Ulmstadt", "Neuburg")
    frame["dose"] = np.round(generator.uniform(3100, 3200, N), 1)
    frame["relapse"] = np.arange(N) % 4 == 0
    frame["label"] = label
    path = tmp_path_factory.mktemp("table") / "table.csv"
    frame.to_csv(path, index=False)
    return path, frame


def page_of(table, output, **report):
    beside = {"dataset": {"uri": str(table[0]), "drop": BESIDE}}
    settings = {"methods": ["pca"], "n_components": [2], "report": report, **beside}
    return Path(run(config_of(output, **settings))["report"]["html"]).read_text()


def carried(page, frame):
    """Return the columns of which a page holds values."""
    return {name for name in BESIDE if any(f'"{value}"' in page for value in frame[name].astype(str).unique()[:40])}


@pytest.mark.parametrize(("columns", "expected"), [
    (None, {"dose", "relapse"}),
    ("none", set()),
    ([], set()),
    (["dose"], {"dose"}),
    (["site", "visit"], {"site", "visit"}),
    ("all", set(BESIDE)),
])  # fmt: skip
def test_the_page_carries_the_columns_of_the_setting_and_says_which(columns, expected, table, tmp_path):
    page = page_of(table, tmp_path / "out", **({} if columns is None else {"columns": columns}))
    assert carried(page, table[1]) == expected
    said = page.split("The page holds of each of these rows ")[1].split("<")[0]
    assert all(name in said.split("It does not hold")[0] for name in expected)
    if columns is None:
        assert "It does not hold record_id, patient, visit, remark, site; report.columns says which" in said
        assert not [word for word in PRIVATE.values() if word in page]


def test_the_same_run_with_another_choice_writes_its_page_anew(table, tmp_path):
    all_of_them = page_of(table, tmp_path / "out", columns="all")
    none = page_of(table, tmp_path / "out", columns="none")
    assert "P-0001" in all_of_them and "P-0001" not in none


def test_a_column_that_is_not_there_is_refused_before_the_work(table, tmp_path):
    with pytest.raises(InputError, match="doze"):
        page_of(table, tmp_path / "out", columns=["doze"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "values", "expected"), [
    ("birth_year", np.arange(100) % 40 + 1950, False),
    ("UserID", np.arange(100) % 5, False),
    ("zip code", np.arange(100) % 9 + 89000, False),
    ("examined", pd.to_datetime(["2031-03-04"] * 100), False),
    ("when", np.arange(100) * 86400 + 1_900_000_000, False),
    ("mood", ["well", "ill"] * 50, False),
    ("age", np.arange(100) % 30 + 20, True),
    ("weight", np.linspace(50, 90, 100), True),
    ("smoker", np.arange(100) % 2 == 0, True),
])  # fmt: skip
def test_by_default_a_page_has_measurements_only(name, values, expected):
    import pyarrow as pa

    profile = ColumnProfile(name)
    profile.add(pa.array(values))
    assert profile.may_be_passed_on == expected

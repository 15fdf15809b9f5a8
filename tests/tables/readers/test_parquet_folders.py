"""Folders of Parquet as other tools write them: order of files, columns in names of folders, tables with a log."""

import builtins
import json
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.tables import labelled, write_zarr

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.runs.refresh_inputs import arrivals
from mmpca_dist.stores import storage
from mmpca_dist.tables.compose import column_of, open_rows


def frame(n=60, seed=0):
    X, y = labelled(n, 3, 3, seed=seed)
    return pd.DataFrame(X, columns=list("abc")).assign(label=y)


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)


def rows_of(dataset):
    return dataset.read_rows(0, dataset.n_rows), dataset.read_labels(0, dataset.n_rows)


def test_files_come_in_the_order_in_which_dask_reads_them(tmp_path):
    """By name alone ``part.10`` came before ``part.2``."""
    table = frame(130)
    dd.from_pandas(table, npartitions=13, sort=False).to_parquet(tmp_path / "a", write_index=False)
    assert {"part.2.parquet", "part.12.parquet"} <= {file.name for file in (tmp_path / "a").iterdir()}
    X, y = rows_of(open_dataset(tmp_path / "a"))
    expected = dd.read_parquet(tmp_path / "a").compute()
    np.testing.assert_array_equal(X, expected[list("abc")].to_numpy())
    np.testing.assert_array_equal(y, expected["label"].to_numpy())
    np.testing.assert_array_equal(X, table[list("abc")].to_numpy())


def test_the_order_is_part_of_the_fingerprint(tmp_path, monkeypatch):
    """A run that began with the files in another order must not go on with these."""
    dd.from_pandas(frame(110), npartitions=11, sort=False).to_parquet(tmp_path / "a", write_index=False)
    natural = open_dataset(tmp_path / "a").fingerprint()
    monkeypatch.setattr("mmpca_dist.tables.readers.listing.natural_sort_key", lambda name: name)
    assert open_dataset(tmp_path / "a").fingerprint() != natural


def test_what_other_tools_leave_beside_the_rows_is_passed_over(tmp_path):
    table = frame()
    write(tmp_path / "a/part.0.parquet", table)
    before = open_dataset(tmp_path / "a")
    for name in ("_metadata", "_common_metadata", "_SUCCESS", ".part.0.parquet.crc"):
        (tmp_path / "a" / name).write_bytes(b"not rows")
    for name in (".hidden.parquet", "_temporary/part.1.parquet", ".git/part.2.parquet", "_started.parquet"):
        write(tmp_path / "a" / name, table)
    after = open_dataset(tmp_path / "a")
    assert after.n_rows == before.n_rows == len(table)
    assert after.fingerprint() == before.fingerprint()


def hive(folder, by, table=None):
    table = frame() if table is None else table
    pq.write_to_dataset(pa.Table.from_pandas(table, preserve_index=False), folder, partition_cols=by)
    return folder


def test_numbers_in_names_of_folders_are_features(tmp_path):
    table = frame().assign(year=np.arange(60) % 12 + 1)
    folder = hive(tmp_path / "a", ["year"], table)
    dataset = open_dataset(folder)
    assert dataset.feature_names == ["a", "b", "c", "year"]
    X, y = rows_of(dataset)
    assert X[:, 3].tolist() == sorted(table["year"]), "9 before 10"
    expected = table.sort_values("year", kind="stable")
    np.testing.assert_array_equal(X, expected[["a", "b", "c", "year"]].to_numpy(float))
    np.testing.assert_array_equal(y, expected["label"])
    middle = dataset.read_rows(7, 33)
    np.testing.assert_array_equal(middle, X[7:33])
    without = open_dataset(folder, drop=["year"])
    assert without.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(column_of(without.stored, "year", "").read(0, 60)[0], X[:, 3])
    assert open_rows(folder, names=["year", "a"]).read(0, 60)[:, 0].tolist() == X[:, 3].tolist()


def test_names_of_folders_are_labels(tmp_path):
    table = frame()
    table["label"] = np.asarray(["ant", "b e/e", "cät=1"])[table["label"]]
    dataset = open_dataset(hive(tmp_path / "a", ["label"], table))
    assert dataset.feature_names == ["a", "b", "c"]
    X, y = rows_of(dataset)
    assert set(y.tolist()) == {"ant", "b e/e", "cät=1"}
    for label, group in table.groupby("label"):
        np.testing.assert_array_equal(np.sort(X[y == label, 0]), np.sort(group["a"]))
    np.testing.assert_array_equal(class_moments(dataset).counts, table["label"].value_counts().sort_index())


def test_two_levels_of_folders_and_one_that_is_text(tmp_path):
    table = frame().assign(year=np.arange(60) % 2 + 2023, site=np.asarray(["north", "south", "07"])[np.arange(60) % 3])
    folder = hive(tmp_path / "a", ["year", "site"], table)
    with pytest.raises(InputError, match=r"Column 'site' .* type string, where numbers belong"):
        open_dataset(folder)
    dataset = open_dataset(folder, drop=["site"])
    assert dataset.feature_names == ["a", "b", "c", "year"]
    assert set(open_dataset(folder, label="site", drop=["label"]).read_labels(0, 60)) == {"north", "south", "07"}


def test_values_in_names_of_folders(tmp_path):
    """Numbers of any digits, gaps, and a column that files hold too, which is theirs."""
    parts = {
        "digits": ("at=1700000000000", "at=0042"), "gap": ("at=2023", "at=__HIVE_DEFAULT_PARTITION__"), "both": ("a=7",)
    }  # fmt: skip
    for name in [f"{folder}/{part}" for folder, names in parts.items() for part in names]:
        write(tmp_path / name / "part.0.parquet", frame())
    digits = open_dataset(tmp_path / "digits")
    assert set(digits.read_rows(0, 120)[:, 3]) == {1.7e12, 42}
    with pytest.raises(InputError, match=r"Column 'at' .* has missing values"):
        rows_of(open_dataset(tmp_path / "gap"))
    assert rows_of(open_dataset(tmp_path / "gap", drop=["at"]))[0].shape == (120, 3)
    both = open_dataset(tmp_path / "both")
    assert both.feature_names == ["a", "b", "c"] and set(both.read_rows(0, 60)[:, 0]) == set(frame()["a"])
    before = digits.fingerprint()
    (tmp_path / "digits/at=0042").rename(tmp_path / "digits/at=0043")
    assert open_dataset(tmp_path / "digits").fingerprint() != before


def test_ingest_keeps_columns_in_names_of_folders(tmp_path):
    from helpers.ingested import ingest

    table = frame().assign(year=np.arange(60) % 3 + 1)
    ingest(str(hive(tmp_path / "a", ["year"], table)), str(tmp_path / "b.zarr"), keep=["year"])
    dataset = open_dataset(tmp_path / "b.zarr")
    assert dataset.n_features == 3
    assert column_of(dataset.stored, "year", "").read(0, 60)[0].tolist() == sorted(table["year"])


@pytest.fixture
def delta(tmp_path):
    """A table of Delta Lake of 60 rows in three parts, one of which was removed: 40 rows."""
    deltalake = pytest.importorskip("deltalake", reason="writes the table")
    table = frame().assign(site=np.asarray(["x y", "north", "south"])[np.arange(60) % 3], year=np.arange(60) % 3)
    uri = str(tmp_path / "delta")
    deltalake.write_deltalake(uri, pa.Table.from_pandas(table, preserve_index=False), partition_by=["site", "year"])
    deltalake.DeltaTable(uri).delete("year = 1")
    return uri, table[table["year"] != 1]


def test_a_delta_table_is_read_through_its_log(delta):
    uri, table = delta
    assert len(list(Path(uri).glob("**/*.parquet"))) == 3, "the removed file is still there"
    dataset = open_dataset(uri, drop=["site"])
    assert dataset.feature_names == ["a", "b", "c", "year"]
    X, y = rows_of(dataset)
    order, other = np.argsort(X[:, 0]), np.argsort(table["a"].to_numpy())
    np.testing.assert_array_equal(X[order], table[["a", "b", "c", "year"]].to_numpy(float)[other])
    np.testing.assert_array_equal(y[order], table["label"].to_numpy()[other])
    assert set(open_dataset(uri, label="site", drop=["label"]).read_labels(0, 40)) == {"x y", "south"}


def test_a_delta_table_is_one_data_set_to_refresh(delta, tmp_path):
    """Its files, the removed one among them, used to count as data sets of an inbox."""
    import deltalake

    table = delta[1].drop(columns=["site", "year"])
    uri = str(tmp_path / "flat")
    deltalake.write_deltalake(uri, pa.Table.from_pandas(table, preserve_index=False))
    for folder in (uri, delta[0], str(hive(tmp_path / "hive", ["label"]))):
        assert [arrival.uri for arrival in arrivals(folder)] == [folder]
    write(tmp_path / "inbox/new.parquet", table)
    write(tmp_path / "inbox/kept=1/old.parquet", table)
    assert [arrival.name for arrival in arrivals(str(tmp_path / "inbox"))] == ["new.parquet"]


def test_a_new_version_of_a_delta_table_is_another_input(delta):
    import deltalake

    uri, _ = delta
    before = open_dataset(uri, drop=["site"]).fingerprint()
    assert open_dataset(uri, drop=["site"]).fingerprint() == before
    deltalake.DeltaTable(uri).delete("year = 0")
    after = open_dataset(uri, drop=["site"])
    assert after.n_rows == 20
    assert after.fingerprint() != before


def test_a_delta_table_with_deletion_vectors_is_refused(delta):
    """Their rows are in files that are not removed."""
    import deltalake

    deltalake.DeltaTable(delta[0]).alter.add_feature(
        deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(InputError, match=r"Cannot read the log of the Delta Lake table .*(?i:deletion ?vectors)"):
        open_dataset(delta[0])


def without(monkeypatch, library):
    """Let imports of a library fail."""
    found = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == library:
            raise ImportError(f"No module named {library!r}")
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


LOGS = {
    "deltalake": ("_delta_log/00000000000000000000.json", "Delta Lake", "delta"),
    "pyiceberg": ("metadata/v1.metadata.json", "Iceberg", "iceberg"),
}


@pytest.mark.parametrize("library", LOGS)
def test_tables_with_a_log_are_never_read_with_their_removed_files(library, tmp_path, monkeypatch):
    log, name, extra = LOGS[library]
    write(tmp_path / "a/part.0.parquet", frame())
    (tmp_path / "a" / log).parent.mkdir()
    (tmp_path / "a" / log).write_text("{}")
    with pytest.raises(InputError, match=f"Cannot read the log of the {name}|is a table of {name}"):
        open_dataset(tmp_path / "a")
    without(monkeypatch, library)
    with pytest.raises(InputError, match=rf"is a table of {name}.* Install 'mmpca-dist\[{extra}\]'"):
        open_dataset(tmp_path / "a")


def test_hudi_tables_are_refused_by_name(tmp_path):
    write(tmp_path / "a/part.0.parquet", frame())
    (tmp_path / "a/.hoodie").mkdir()
    (tmp_path / "a/.hoodie/hoodie.properties").write_text("")
    with pytest.raises(InputError, match="Hudi"):
        open_dataset(tmp_path / "a")


@pytest.fixture
def iceberg(tmp_path):
    """A table of Iceberg of 60 rows in two data files, and its catalog's handle."""
    pytest.importorskip("pyiceberg", reason="writes the table")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("n")
    rows = [pa.Table.from_pandas(part, preserve_index=False) for part in (frame()[:30], frame()[30:])]
    table = catalog.create_table("n.t", schema=rows[0].schema)
    for part in rows:
        table.append(part)
    return table, str(tmp_path / "warehouse/n/t"), frame()


def test_an_iceberg_table_is_read_through_its_metadata(iceberg):
    table, uri, expected = iceberg
    X, y = rows_of(open_dataset(uri))
    order = np.argsort(X[:, 0])
    np.testing.assert_array_equal(X[order], expected.sort_values("a")[list("abc")].to_numpy())
    np.testing.assert_array_equal(y[order], expected.sort_values("a")["label"])
    before = open_dataset(uri).fingerprint()
    table.overwrite(pa.Table.from_pandas(expected[:10], preserve_index=False))
    assert len(list(Path(uri).glob("**/*.parquet"))) == 3, "the replaced files are still there"
    after = open_dataset(uri)
    assert after.n_rows == 10
    assert after.fingerprint() != before


def test_an_iceberg_table_starts_no_program(iceberg, tmp_path):
    """Its metadata name the class that opens its files, which pyiceberg imports and calls with what they also hold."""
    _, uri, expected = iceberg
    made = tmp_path / "made"
    newest = max(Path(uri, "metadata").glob("*.metadata.json"))
    metadata = json.loads(newest.read_text())
    metadata["properties"] = {"mkdir": "", str(made): "", "py-io-impl": "subprocess.Popen"}
    newest.write_text(json.dumps(metadata))
    assert open_dataset(uri).n_rows == len(expected)
    time.sleep(0.5)
    assert not made.exists()


def test_an_iceberg_table_with_renamed_columns_is_refused(iceberg):
    table, uri, _ = iceberg
    with table.update_schema() as update:
        update.rename_column("a", "z")
    with pytest.raises(InputError, match="renamed"):
        open_dataset(uri)


def test_an_iceberg_table_with_files_of_removed_rows_is_refused(iceberg, monkeypatch):
    from pyiceberg.table import DataScan

    plan = DataScan.plan_files

    def with_deletes(scan):
        tasks = list(plan(scan))
        tasks[0].delete_files.add(tasks[1].file)
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(InputError, match="removed by delete files"):
        open_dataset(iceberg[1])


def test_an_iceberg_table_that_only_a_catalog_knows_is_refused(iceberg):
    _, uri, _ = iceberg
    newest = max(Path(uri, "metadata").glob("*.metadata.json"))
    newest.with_name(newest.name[:5] + "-other.metadata.json").write_bytes(newest.read_bytes())
    with pytest.raises(InputError, match="only a catalog knows"):
        open_dataset(uri)


def test_a_zarr_group_with_such_names_is_no_parquet_folder(tmp_path):
    import zarr

    X, y = labelled(30, 3, 2, seed=0)
    zarr.open_group(write_zarr(tmp_path / "a", X, y, 10)).create_group("metadata")
    assert open_dataset(tmp_path / "a").n_features == 3
    assert storage.names_in(str(tmp_path / "a"))

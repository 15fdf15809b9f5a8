"""Faults of networks and stores at any call of a run: it finishes, and its results are those of an undisturbed one."""

import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.faulty_s3 import FAULTS, KEYS
from helpers.remote_runs import fit, ingested_table

from mmpca_dist import open_dataset
from mmpca_dist.errors import AccessError, ConfigError, InputError
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.stores import storage

pytestmark = pytest.mark.slow

STRIDE = 5
"""One run has a fault at every 5th call, so that 5 runs have each fault at each call."""


@pytest.fixture
def quick(monkeypatch, s3_proxy, limits):
    """Short waits, for faults that are made on purpose."""
    monkeypatch.setenv("MMPCA_STORAGE_TIMEOUT", "0.5")
    monkeypatch.setattr(s3_proxy, "delay", 0.8)
    limits.first_pause = 0.02


@pytest.fixture
def table(bucket, tmp_path):
    return ingested_table(bucket, tmp_path)


def test_every_fault_at_every_call(table, bucket, s3_proxy, quick, capsys):
    """The table of them is printed: pytest -n 0 -m slow tests/stores/test_storage_faults.py -rP."""
    expected = fit(table, f"{bucket}/calm", ["pca"])
    lost, lines = {}, []
    for fault in FAULTS:
        tried = applied = 0
        lost[fault] = []
        for offset in range(STRIDE):
            s3_proxy.reset(dict.fromkeys(range(offset, 10000, STRIDE), fault))
            try:
                same = fit(table, f"{bucket}/{fault}{offset}", ["pca"]) == expected
            except Exception as error:
                same = False
                lines.append(f"{fault} at {offset} + {STRIDE} i: {error}")
            here = len(range(offset, len(s3_proxy.calls), STRIDE))
            tried, applied = tried + here, applied + len(s3_proxy.applied)
            lost[fault] += [] if same else [offset]
        survived = STRIDE - len(lost[fault])
        lines.append(
            f"{fault:10} tried at {tried} calls, could be made at {applied}; {survived} of {STRIDE} runs survived"
        )
        with capsys.disabled():
            print(lines[-1], flush=True)
    assert not any(lost.values()), "\n".join(lines)


def test_faults_while_tables_go_to_scratch_and_back(bucket, s3_proxy, quick):
    rows = np.random.default_rng(1).normal(size=(5000, 3))
    for number, fault in enumerate(FAULTS):
        s3_proxy.reset(dict.fromkeys(range(number % 7, 1000, 7), fault))
        scratch = ZarrScratch(f"{bucket}/scratch{number}")
        scratch.put("t", {"a": rows, "b": rows[:, :1]})
        for _ in range(2):
            found = scratch.get("t", ("a", "b"), slice(100, 4000))
            np.testing.assert_array_equal(found[0], rows[100:4000])
            np.testing.assert_array_equal(found[1], rows[100:4000, :1])
        scratch.drop("t")
        s3_proxy.reset()
        assert not storage.list_objects(f"{bucket}/scratch{number}")


@pytest.mark.parametrize("always", ["slowdown", "reset", "slow"])
def test_an_outage_ends_in_one_sentence_and_the_command_goes_on_later(
    always, table, bucket, s3_proxy, quick, tmp_path, monkeypatch
):
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "3")
    config = tmp_path / "run.yaml"
    config.write_text(f"dataset: {{uri: '{table}'}}\nmethods: [pca]\nn_components: 2\noutput: '{bucket}/out'\n")
    command = [sys.executable, "-m", "mmpca_pipelines", "plan", str(config)]
    s3_proxy.reset(always=always)
    # Patience ends after 3 s, not after its default of two minutes.
    refused = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert refused.returncode == 75, refused.stderr
    assert "Traceback" not in refused.stderr + refused.stdout
    said = [line for line in refused.stderr.splitlines() if line.startswith("mmpca: ")]
    assert len(said) == 1 and "Cannot read s3://" in said[0], refused.stderr
    s3_proxy.reset()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_an_outage_in_the_middle_of_a_run(table, bucket, s3_proxy, quick, monkeypatch):
    expected = fit(table, f"{bucket}/calm", ["pca"])
    half = len(s3_proxy.calls) // 2
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "1")
    s3_proxy.reset(dict.fromkeys(range(half, 100000), "slowdown"))
    with pytest.raises(AccessError, match=r"Cannot (read|write|remove)"):
        fit(table, f"{bucket}/out", ["pca"])
    s3_proxy.reset()
    assert fit(table, f"{bucket}/out", ["pca"]) == expected


def test_what_is_damaged_in_the_store_is_said_so(table, bucket, s3_proxy, quick):
    """A chunk that fails its checksum however often it is read is no fault of the transfer."""
    from mmpca_dist.tables.compose import open_dataset

    fs, path = storage.filesystem(f"{table}/X/c/0/0")
    data = bytearray(fs.cat_file(path))
    data[7] ^= 1
    fs.pipe_file(path, bytes(data))
    s3_proxy.reset()
    with pytest.raises(Exception, match=r"[Cc]hecksum"):
        open_dataset(table).read_rows(0, 60)
    assert [name for _, name in s3_proxy.calls].count(f"/{path}") == 3


def test_failures_that_last_are_logged_and_nothing_secret(table, s3_proxy, quick, caplog, monkeypatch):
    from mmpca_dist.tables.compose import open_dataset

    s3_proxy.reset(dict.fromkeys(range(15), "slowdown"))  # the client's own attempts are six
    with caplog.at_level(logging.WARNING, "mmpca_dist"):
        open_dataset(table)
    # Others may have their say here: sessions that an earlier test has left are collected at any time.
    said = [record.getMessage() for record in caplog.records if record.name.startswith("mmpca_dist")]
    assert any("again in" in message for message in said)
    assert all("failed (" in message and table.removeprefix("s3://") in message for message in said)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in caplog.text


def test_limits_must_be_seconds(monkeypatch):
    from mmpca_dist.stores import failures

    for name, limit in (("MMPCA_STORAGE_PATIENCE", failures.patience), ("MMPCA_STORAGE_TIMEOUT", failures.timeout)):
        for value in ("soon", "-1", "0", "nan", "inf"):
            monkeypatch.setenv(name, value)
            with pytest.raises(ConfigError, match=f"{name} is '{value}'"):
                limit()


def read(table):
    dataset = open_dataset(table)
    return dataset.read_rows(0, dataset.n_rows)


@pytest.mark.e2e
def test_half_a_body_of_any_metadata(table, bucket, s3_proxy, limits):
    limits.first_pause = 0.02
    expected = read(table)
    s3_proxy.reset()
    read(table)
    numbers = [i for i, (verb, path) in enumerate(s3_proxy.calls) if verb == "GET" and path.endswith("zarr.json")]
    assert len(numbers) >= 3
    for number in numbers:
        s3_proxy.reset({number: "half"})
        np.testing.assert_array_equal(read(table), expected)
        assert s3_proxy.applied


def test_half_a_footer(bucket, s3_proxy, limits, tmp_path):
    limits.first_pause = 0.02
    pd.DataFrame({"a": np.arange(50.0), "label": np.arange(50) % 2}).to_parquet(tmp_path / "t.parquet")
    storage.write_bytes(f"{bucket}/t.parquet", (tmp_path / "t.parquet").read_bytes())
    s3_proxy.reset()
    expected = read(f"{bucket}/t.parquet")
    numbers = [i for i, (verb, path) in enumerate(s3_proxy.calls) if verb == "GET" and path.endswith("t.parquet")]
    for number in numbers:
        s3_proxy.reset({number: "half"})
        np.testing.assert_array_equal(read(f"{bucket}/t.parquet"), expected)


def test_metadata_that_stay_damaged_are_said_so_without_the_words_of_a_client(table, s3_proxy, limits):
    limits.first_pause = 0.02
    fs, path = storage.filesystem(f"{table}/zarr.json")
    fs.pipe_file(path, fs.cat_file(path)[:40])
    with pytest.raises(InputError, match="Cannot read") as refused:
        read(table)
    assert s3_proxy.url not in str(refused.value)

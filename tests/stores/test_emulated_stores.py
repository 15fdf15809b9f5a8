"""Azure and Google, as their emulators have them: objects, an ingest, a run, a kill and its resumption."""

import multiprocessing
import os
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import emulators
from helpers.remote_runs import fit, fit_and_die, ingested_table

from mmpca_dist.errors import AccessError
from mmpca_dist.stores import lease, storage
from mmpca_dist.stores.storage import create_bytes
from mmpca_dist.tables.compose import open_dataset

pytestmark = pytest.mark.slow

STORES = {"az": emulators.azurite, "gs": emulators.google}


@pytest.fixture(scope="module", params=STORES)
def emulator(request):
    pytest.importorskip("obstore", reason="obstore is not installed")
    with STORES[request.param]() as (environment, create):
        yield request.param, environment, create


@pytest.fixture
def folder(emulator, monkeypatch):
    """Return the URL of a folder in an empty bucket."""
    protocol, environment, create = emulator
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    create(name)
    return f"{protocol}://{name}/folder"


def test_objects_are_written_listed_read_in_ranges_and_removed(folder):
    data = np.random.default_rng(0).bytes(12 << 20)  # which is written in parts
    for name, content in (("a*[b]?/x", b"1"), ("a*[b]?/deep/y", b"22"), ("big", data), ("empty", b"")):
        storage.write_bytes(f"{folder}/{name}", content)
    assert storage.names_in(folder) == ["a*[b]?", "big", "empty"]
    sizes = [(name, size) for name, size, _ in storage.list_objects(folder)]
    assert sizes == [("a*[b]?/deep/y", 2), ("a*[b]?/x", 1), ("big", len(data)), ("empty", 0)]
    fs, path = storage.filesystem(f"{folder}/big")
    assert fs.cat_file(path) == data and fs.cat_file(path, 5 << 20, 6 << 20) == data[5 << 20 : 6 << 20]
    assert fs.cat_file(path, len(data) - 3, len(data) + 9) == data[-3:] and fs.cat_file(path, 1 << 30, 1 << 31) == b""
    assert storage.read_bytes(f"{folder}/empty") == b""
    storage.remove(f"{folder}/a*[b]?")
    storage.remove(f"{folder}/a*[b]?")  # nothing is there any more
    assert storage.names_in(folder) == ["big", "empty"] and not storage.exists(f"{folder}/a*[b]?/x")
    with pytest.raises(AccessError, match="bucket or container does not exist"):
        storage.write_bytes(folder.replace("bucket-", "absent-") + "/x", b"1")


def test_one_of_sixteen_threads_creates_an_object(folder):
    for attempt in range(3):
        with ThreadPoolExecutor(16) as pool:
            contents = [bytes([writer]) * 1000 for writer in range(16)]
            first = list(pool.map(lambda content, n=attempt: create_bytes(f"{folder}/lock{n}", content), contents))
        assert first.count(True) == 1
        assert storage.read_bytes(f"{folder}/lock{attempt}") == contents[first.index(True)]


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(folder, tmp_path, monkeypatch):
    table = ingested_table(folder, tmp_path)
    with np.load(tmp_path / "in.npz") as arrays:
        dataset = open_dataset(table)
        np.testing.assert_array_equal(dataset.read_rows(0, 60), arrays["X"])
        np.testing.assert_array_equal(dataset.read_labels(0, 60), arrays["y"])
    methods, output = ["pca", "m-pca2"], f"{folder}/killed"
    expected = fit(table, f"{folder}/calm", methods)
    context = multiprocessing.get_context("spawn")
    for last in (2, 4, 6):  # each gets further than the one before
        process = context.Process(target=fit_and_die, args=(last, table, output, methods, dict(os.environ)))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert lease.holder(output) is None
    assert fit(table, output, methods) == expected
    assert not [name for name, *_ in storage.list_objects(output) if "lease" in name or "scratch" in name]

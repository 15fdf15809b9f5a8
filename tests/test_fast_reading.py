"""When obstore is asked for objects: only where it is sure to ask the same store and account as fsspec."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmpca_dist.datasets import object_stores, storage
from mmpca_dist.datasets.object_stores import AbsentError, FastReader, fast_reader
from mmpca_dist.errors import InputError

pytest.importorskip("obstore", reason="obstore is not installed")


def azure(account, connection=None):
    """What adlfs knows of an address and the environment."""
    return SimpleNamespace(account_name=account, connection_string=connection)


@pytest.fixture
def stores(monkeypatch):
    """Note with what Azure's stores are made."""
    made = []
    monkeypatch.setattr("obstore.store.AzureStore", lambda *place, **options: made.append((*place, options)))
    object_stores._fast_reader.cache_clear()
    yield made
    object_stores._fast_reader.cache_clear()


@pytest.mark.parametrize("protocol", ["az", "abfs", "abfss"])
def test_azure_is_told_the_account_of_the_address(protocol, stores, monkeypatch):
    """Not that of the environment, which may have a container of the same name."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    for account in ("one", "two"):
        assert fast_reader(azure(account), protocol, "container/a.zarr") is not None
    assert [place for place, _ in stores] == ["container"] * 2
    assert [options["account_name"] for _, options in stores] == ["one", "two"]


@pytest.mark.parametrize("fs", [azure(None), azure("one", "UseDevelopmentStorage=true"), SimpleNamespace()], ids=str)
def test_where_the_account_is_not_certain_fsspec_reads(fs, stores, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    assert fast_reader(fs, "abfs", "container/a.zarr") is None
    assert stores == []


def test_a_server_in_place_of_google_is_left_to_fsspec(monkeypatch):
    monkeypatch.setattr(object_stores, "_fast_reader", lambda *_: "a reader")
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    assert fast_reader(None, "gs", "bucket/a.zarr") == "a reader"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
    assert fast_reader(None, "gs", "bucket/a.zarr") is None


@pytest.mark.parametrize("counts", [True, False], ids=["S3", "others"])
def test_what_obstore_does_not_find_another_may(counts):
    """A chunk that is not there is read as fill values: that must be certain."""
    from obstore.store import MemoryStore

    reader = FastReader(MemoryStore(), absence_counts=counts)
    for _ in range(9):
        if counts:
            with pytest.raises(AbsentError):
                asyncio.run(reader.read_async("bucket/none", None))
        else:
            assert asyncio.run(reader.read_async("bucket/none", None)) is None
    assert reader._failures == 0


def test_an_azure_account_that_is_not_known_is_a_sentence(monkeypatch):
    def as_adlfs(*_args, **_options):
        raise ValueError("unable to connect to account for Must provide either a connection_string or account_name")

    monkeypatch.setattr(storage, "url_to_fs", as_adlfs)
    with pytest.raises(InputError, match=r"Cannot reach abfs://c/a.zarr: its storage account is not known") as caught:
        storage.exists("abfs://c/a.zarr")
    assert "AZURE_STORAGE_ACCOUNT_NAME, or in the address: abfs://CONTAINER@ACCOUNT" in str(caught.value)

"""Names with patterns are names; addresses that carry credentials, or may mean another object, are refused."""

import itertools
from urllib.parse import quote

import numpy as np
import pytest
import zarr
from helpers.ingested import ingest
from helpers.stored_objects import settings

from mmpca_dist import load_model, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.addresses import refuse_secrets
from mmpca_dist.tables.compose import open_dataset

NAMES = ["x[12]", "x?", "**", *(pytest.param(name, marks=pytest.mark.slow) for name in ("x*", "x[!a]"))]
NEIGHBOURS = ["x1", "x2", "x10", "x", "x[12]1", "x?.more", "y", "x1/deep"]


@pytest.fixture(params=NAMES)
def place(request, folder):
    """Return an address with a pattern for a name, beside objects that the pattern matches."""
    for name in NEIGHBOURS:
        storage.write_bytes(f"{folder}/{name}/data", name.encode())
    yield f"{folder}/{request.param}"
    left = {name: storage.read_bytes(f"{folder}/{name}/data") for name in NEIGHBOURS}
    assert left == {name: name.encode() for name in NEIGHBOURS}


def test_objects_of_a_pattern_are_those_of_its_name(place):
    assert not storage.exists(place)
    assert storage.names_in(place) == [] and storage.list_objects(place) == []
    storage.remove(place)
    storage.remove_children(place, ["data", "*"])
    with pytest.raises(InputError, match="does not exist"):
        storage.require(place)
    for name in ("a/b", "data", "*"):
        storage.write_bytes(f"{place}/{name}", b"mine")
    assert storage.names_in(place) == ["*", "a", "data"]
    assert [name for name, *_ in storage.list_objects(place)] == ["*", "a/b", "data"]
    storage.remove_children(place, ["*"])
    assert storage.names_in(place) == ["a", "data"]
    storage.remove(f"{place}/data")
    storage.remove(place)
    assert not storage.exists(place)


@pytest.mark.e2e
def test_zarr_at_a_pattern_replaces_its_own_group_alone(place):
    group = zarr_stores.open_group(place, "w")
    array = group.create_array("x?", shape=(4,), chunks=(1,), dtype="f8", fill_value=0.0, overwrite=True)
    group.create_array("x1", data=np.ones(2))
    array[:] = 1.0
    array[:] = 0.0  # Zarr deletes chunks of fill values
    assert [name for name, *_ in storage.list_objects(f"{place}/x?")] == ["zarr.json"]
    group.create_array("x?", shape=(2,), dtype="f8", overwrite=True)
    np.testing.assert_array_equal(zarr_stores.open_group(place)["x1"][:], np.ones(2))
    del group["x?"]
    assert sorted(zarr_stores.open_group(place)) == ["x1"]
    assert sorted(zarr_stores.open_group(place, "w")) == []


@pytest.mark.e2e
def test_ingest_to_a_pattern(place):
    ingest("bundled:iris", place)
    with pytest.raises(OutputError, match="--overwrite"):
        ingest("bundled:iris", place)
    with pytest.raises(InputError):
        ingest("bundled:iris", place, image_shape=(3, 3), overwrite=True)
    ingest("bundled:wine", place, overwrite=True)
    assert open_dataset(place).n_rows == 178


@pytest.mark.parametrize("folder", ["local", "memory", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("name", ["x[12]", pytest.param("x?", marks=pytest.mark.slow)])
def test_runs_at_patterns_leave_their_neighbours_alone(folder, name):
    """Refused, done, and cleaned."""
    others = [f"{folder}/{other}" for other in ("x1", "x2")]
    for other in others:
        run(settings(other))
    before = [storage.list_objects(other) for other in others]
    with pytest.raises(InputError, match="n_components"):
        run(settings(f"{folder}/{name}", n_components=9))
    run(settings(f"{folder}/{name}"))
    assert load_model(f"{folder}/{name}", "m-pca0").components_.shape == (2, 4)
    assert [storage.list_objects(other) for other in others] == before


OTHERS = [
    "s3://bucket/x?versionId=3",
    "s3://bucket/x?versionid=3/run",
    "s3://bucket/a::file:///etc",
    "s3://bucket/a/../b",
    "s3://bucket/./b",
    "gs://bucket/x#12",
    "gs://bucket/x?generation=12",
    "az://container/x?versionid=2024",
    "memory://a/../b",
]


def test_addresses_that_may_mean_another_object_are_refused():
    for address, use in itertools.product(OTHERS, (storage.normalize, storage.filesystem, zarr_stores.zarr_location)):
        with pytest.raises(InputError, match=r"Write the address without|without it"):
            use(address)


@pytest.mark.parametrize("name", ["a::b", "a?versionId=3", "a#1"])
def test_local_names_have_no_such_meanings(tmp_path, name):
    ingest("bundled:iris", tmp_path / name)
    assert open_dataset(tmp_path / name).n_rows == 150
    assert zarr.open_group(tmp_path / name).attrs["complete"]


SECRET = "hunter2"  # noqa: S105
SECRETS = ["token", "key", "secret", "sig", "signature", "auth", "sas", "password"]
PREFIXES = ["", "access", "access_", "API-", "aws."]


def refused(address):
    with pytest.raises(InputError, match="carries credentials") as caught:
        refuse_secrets(address)
    assert SECRET not in str(caught.value)


def test_parameters_of_every_kind():
    for form in ("x?{name}={value}", "x?a=1&b=2&{name}={value}", "x?a=1;{name}={value}", "x#{name}={value}"):
        for name in SECRETS:
            for prefix in PREFIXES:
                parameter = form.format(name=prefix + name.upper(), value=SECRET)
                refused(f"https://host/{parameter}")
                refused(f"simplecache::https://host/{parameter}")


USERS_AND_SIGNATURES = [
    f"https://user:{SECRET}@host/x",
    f"https://user:x/{SECRET}@host/x",
    f"gs://{SECRET}@bucket/x",
    f"abfs://container:{SECRET}@account.dfs.core.windows.net/x",
    f"sftp://me:{SECRET}@host/x",
    f"s3://{SECRET}@bucket/x",
    f"s3://key:{SECRET}/slash@bucket/x",
    f"ftp://user:{SECRET}@host/x",
    f"az://{SECRET}@account/x",
    f"simplecache::s3://{SECRET}@bucket/x",
    f"https://bucket.s3.amazonaws.com/x?X-Amz-Expires=60&X-Amz-Signature={SECRET}",
    f"https://bucket.s3.amazonaws.com/x?AWSAccessKeyId={SECRET}",
    f"https://account.blob.core.windows.net/x?se=2024&sig={SECRET}",
]


def test_users_and_signatures_as_they_stand_and_once_encoded():
    for address in USERS_AND_SIGNATURES:
        refused(address)
        protocol, _, rest = address.partition("://")
        refused(f"{protocol}://{quote(rest, safe='')}")
    refused(f"{SECRET}%40@x://host?token=1")  # a protocol that is none


@pytest.mark.parametrize("address", [
    "s3://bucket/year=2024/key=3/token=a/part.0.parquet",
    "s3://bucket/keys/tokens/secrets/password.parquet",
    "s3://bucket/a&key=1.parquet",
    "s3://bucket/a:b@c.zarr",
    "gs://bucket/a?monkey=1",
    "az://container@account.dfs.core.windows.net/a.zarr",
    "http://[fe80:0:0:0:0:0:0:1]:9000/a.npy",
    "s3://bucket/x?versionId=abc",
    "https://host/x.npz?download=1&encoding=utf-8&keyboard=qwerty&zip_code=1&monkey=2",
    "https://host:8080/x#part",
    "http://[::1]:8080/x.npz",
    "https://host/100%/x.npz",
    "https://host/a%20b;v=2/x.npz?path=a%2Fb",
    "abfs://container@account.dfs.core.windows.net/x.zarr",
    "hdfs://user@namenode/x",
    "zip://*.csv::s3://bucket/x.zip",
    "synthetic:gaussian?n=10&d=3&seed=1",
    "bundled:digits?classes=0,1&noise=4",
    "/data/token=1?key=2",
])  # fmt: skip
def test_what_carries_none_passes(address):
    refuse_secrets(address)

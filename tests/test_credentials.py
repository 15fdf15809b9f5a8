"""Addresses that carry credentials are refused without being repeated; all others pass."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmpca_dist.errors import InputError
from mmpca_dist.stores.addresses import refuse_secrets

SECRET = "hunter2"  # noqa: S105
NAMES = ["token", "key", "secret", "sig", "signature", "auth", "sas", "code", "password"]
PREFIXES = ["", "x", "access_", "API-", "aws.", "shared access "]


def refused(address):
    with pytest.raises(InputError, match="carries credentials") as caught:
        refuse_secrets(address)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "form",
    [
        "https://host/x?{name}={value}",
        "https://host/x?a=1&b=2&{name}={value}",
        "https://host/x?a=1;{name}={value}",
        "https://host/x#{name}={value}",
        "https://host/x#/route?{name}={value}",
        "https://host/x;{name}={value}/y",
        "https://host/x;v=1,{name}={value}/y?a=1",
        "s3://bucket/x?{name} ={value}",
        "http://[::1]:80/x?{name}[]={value}",
        "simplecache::https://host/x?{name}={value}",
    ],
)
def test_parameters_of_every_kind(name, prefix, form):
    refused(form.format(name=prefix + name.upper(), value=SECRET))


@given(
    st.sampled_from(
        [
            "https://host/x?token={}",
            "https://host/x?a=1&sig={}#b",
            "https://host/x;key={}",
            "https://user:{}@host/x",
            "s3://{}@bucket/x",
            "ftp://user:{}@host/x",
        ]
    ),
    st.integers(1, 12),
    st.booleans(),
)
def test_percent_encoding_hides_nothing(form, times, fully):
    protocol, _, rest = form.format(SECRET).partition("://")
    for _ in range(times):
        rest = "".join(f"%{ord(one):02x}" for one in rest) if fully and len(rest) < 1000 else quote(rest, safe="")
    refused(f"{protocol}://{rest}")


def test_a_protocol_that_is_none_is_not_repeated():
    refused(f"{SECRET}%40@x://host?token=1")


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/year=2024/key=3/token=a/part.0.parquet",
        "s3://bucket/keys/tokens/secrets/password.parquet",
        "s3://bucket/a&key=1.parquet",
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
    ],
)
def test_what_carries_none_passes(address):
    refuse_secrets(address)

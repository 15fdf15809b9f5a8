"""Addresses that carry credentials are refused without being repeated; all others pass."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from mmpca_dist.errors import InputError
from mmpca_dist.stores.addresses import refuse_secrets

SECRET = "hunter2"  # noqa: S105
NAMES = ["token", "key", "secret", "sig", "signature", "auth", "sas", "password"]
PREFIXES = ["", "access", "access_", "API-", "aws."]


def refused(address):
    with pytest.raises(InputError, match="carries credentials") as caught:
        refuse_secrets(address)
    assert SECRET not in str(caught.value)


def test_parameters_of_every_kind():
    for form in ("x?{name}={value}", "x?a=1&b=2&{name}={value}", "x?a=1;{name}={value}", "x#{name}={value}"):
        for name in NAMES:
            for prefix in PREFIXES:
                parameter = form.format(name=prefix + name.upper(), value=SECRET)
                refused(f"https://host/{parameter}")
                refused(f"simplecache::https://host/{parameter}")


USERS_AND_SIGNATURES = [
    f"https://user:{SECRET}@host/x",
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

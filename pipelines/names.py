"""What Prefect's pages call things: flow runs, tags, artifacts, assets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from prefect.assets import Asset
from prefect.assets.core import AssetProperties

from mmpca_dist.stores import storage

LONGEST = 60
DRAWN = re.compile(r"[a-z]+-[a-z]+")
"""A name that Prefect draws, such as "meek-zebra": others are the user's own."""
RESTRICTED = re.compile(r"[^A-Za-z0-9/:._~@+=,*()-]")
LONGEST_KEY = 500


def short(address: str) -> str:
    """Return the last part of an address: no folders, credentials or options.

    >>> short("s3://tables/2026/train.zarr"), short("bundled:digits"), short("synthetic:gaussian?n=9")
    ('train.zarr', 'digits', 'gaussian')
    """
    path = address.partition("?")[0].rstrip("/")
    name = re.split(r"[/\\:@]", path)[-1]
    return name[:LONGEST] or "rows"


def slug(address: str) -> str:
    """Return a key that begins the keys of a run's artifacts.

    >>> slug("runs/My run_2")
    'my-run-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", short(address).lower()).strip("-") or "run"


def listed(names: Sequence[str]) -> str:
    """Return up to three names, or two and how many more.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"])
    ('a, b, c', 'a, b and 2 more')
    """
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def asset(address: str, part: str = "") -> Asset:
    """Return the asset at an address or of a part of the run there, under one key however the address is spelled.

    >>> asset("bundled:digits").key, asset("/data/my table.zarr").key
    ('bundled://digits', 'file:///data/my_table.zarr')
    """
    uri = storage.normalize(address) + (f"/{part}" if part else "")
    scheme, colon, rest = uri.partition(":")
    if not colon or Path(uri).is_absolute():
        scheme, rest = "file", uri
    key = f"{scheme.lower()}://{rest.removeprefix('//')}"
    properties = AssetProperties(name=f"{short(address)}: {part}" if part else short(address))
    return Asset(key=RESTRICTED.sub("_", key)[:LONGEST_KEY], properties=properties)

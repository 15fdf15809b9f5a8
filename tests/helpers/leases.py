"""Leases of other processes, and beats that come late."""

import itertools
import time
from dataclasses import asdict, replace

import mmpca_dist.stores.lease as lease_module
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Owner


def late_beats(monkeypatch):
    """Let a hundred seconds pass from one look at the clock to the next, and no thread renew."""
    monkeypatch.setattr(lease_module, "_clock", itertools.count(time.monotonic() + 1e9, 100.0).__next__)


def write_owner(folder, number=1, **changes):
    """Leave a lease as if of someone else, on another machine."""
    owner = replace(Owner.here(), token="other", host="far", machine="another", **changes)  # noqa: S106  (no password)
    storage.write_json(f"{folder}/lease-{number:06d}.json", asdict(owner))
    return owner

"""Steps that ``prefect deploy`` runs before it makes a deployment."""

from __future__ import annotations

from mmpca_dist.errors import InputError
from mmpca_dist.stores.addresses import check_address, is_remote


def require_store(store: str = "") -> None:
    """Raise InputError unless ``store`` is the URL of an object store: paths in a pod are lost with it."""
    if not is_remote(store) or store.startswith("file:"):
        found = f"is {store!r}" if store else "is not set"
        raise InputError(
            f"MMPCA_STORE {found}, and what a pod writes to its own disk is lost. Set it to the address of the data "
            "and the runs, such as: export MMPCA_STORE=s3://my-bucket"
        )
    check_address(f"{store}/data")

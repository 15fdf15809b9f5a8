"""Credentials of object stores from a block of Prefect's, for as long as a flow runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.blocks.system import Secret

from mmpca_dist.errors import InputError

PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
"""What a block may set in the environment: nothing that says which code runs."""


@contextmanager
def in_environment(block: str | None) -> Iterator[None]:
    """Put what a Secret block holds, a JSON object such as ``{"AWS_ACCESS_KEY_ID": ...}``, into the environment.

    Raises InputError where there is no such block, or it holds something else; messages do not show what.
    """
    values = {} if block is None else _values(block)
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _values(block: str) -> dict[str, str]:
    try:
        held: Any = Secret.load(block).get()  # type: ignore[union-attr]
    except ValueError as error:
        raise InputError(
            f"credentials: there is no Secret block {block!r} on the Prefect server. 'prefect block ls' lists blocks."
        ) from error
    if isinstance(held, dict) and all(
        name.startswith(PREFIXES) and isinstance(value, str) for name, value in held.items()
    ):
        return held
    raise InputError(
        f"credentials: the Secret block {block!r} must hold a JSON object of variables whose names begin with "
        f"{', '.join(PREFIXES)} and whose values are text."
    )

"""Hidden names of local files that are not complete yet."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""Names of files that are not complete end so."""
OUR_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")
ZARR_PARTIAL = re.compile(r".+\.[0-9a-f]{32}\.partial")


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a hidden name beside a file, for what gets the name of the file once it is whole.

    Nothing stays at the hidden name, unless the process is killed meanwhile: readers of folders pass over it then.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PARTIAL}")
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def is_partial(name: str, whole: str = "") -> bool:
    """Tell whether a name is one that ``beside`` gave out, for a file whose name begins with ``whole``."""
    return name.startswith(f".{whole}") and OUR_PARTIAL.fullmatch(name) is not None


def is_partial_chunk(name: str) -> bool:
    """Tell whether Zarr gives this name to the file of a chunk that is not complete."""
    return ZARR_PARTIAL.fullmatch(name) is not None

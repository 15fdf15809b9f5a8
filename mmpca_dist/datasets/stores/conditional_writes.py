"""Create an object only if it does not exist: the basis of leases and records."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.object_stores import BucketFileSystem
from mmpca_dist.datasets.stores.partial_files import beside

NO_HARD_LINKS = frozenset([errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV])

_memory = threading.Lock()


def create_bytes(uri: str, data: bytes) -> bool:
    """Create a whole object if nothing is at ``uri``; of several that try at once, exactly one succeeds.

    On a local disk a complete temporary file gets its name by a hard link, which fails where the name is taken; an
    object store is asked for a conditional write, which it must support (``If-None-Match: *`` on S3).

    Parameters
    ----------
    uri : str
        A path or fsspec URL.
    data : bytes-like

    Returns
    -------
    bool
        Whether this call has created the object; False where there was one.

    Raises
    ------
    AccessError
        Where nothing can be written there.

    Examples
    --------
    >>> from mmpca_dist.datasets.stores.conditional_writes import create_bytes
    >>> create_bytes("memory://doc/lock", b"mine"), create_bytes("memory://doc/lock", b"yours")
    (True, False)
    """
    fs, path = storage.filesystem(uri)
    with storage.explained(uri, "write"):
        if storage.is_local(uri):
            return _create_file(Path(path), data)
        if storage.is_private(uri):
            with _memory:
                return _created(fs, path, bytes(data))
        return fs.create(path, bytes(data)) if isinstance(fs, BucketFileSystem) else _created(fs, path, bytes(data))


def _create_file(path: Path, data: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside(path) as partial:
        partial.write_bytes(data)
        try:
            os.link(partial, path)
        except FileExistsError:
            # A network file system may lose the answer of a call that has succeeded, and repeat it.
            return partial.stat().st_nlink > 1
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            return _create_without_links(path, data)
    return True


def _create_without_links(path: Path, data: bytes) -> bool:
    """Create a file where a file system knows no hard links: a reader may see it before all of it is there."""
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True


def _created(fs: Any, path: str, data: bytes) -> bool:
    try:
        fs.pipe_file(path, data, mode="create")
    except FileExistsError:
        return False
    return True

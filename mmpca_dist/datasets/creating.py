"""Objects that are created if, and only if, nothing is there: what locks and records are made of."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from pathlib import Path
from typing import Any

from mmpca_dist.datasets import storage

NO_HARD_LINKS = frozenset([errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV])
WRITER = "mmpca-writer"
"""Under this key the metadata of an S3 object says which call has made it."""

_memory = threading.Lock()


def create_bytes(uri: str, data: bytes) -> bool:
    """Create a whole object if nothing is at ``uri``; of several that try at once, exactly one succeeds.

    On a local disk a complete temporary file gets its name by a hard link, which fails where the name is taken; an
    object store is asked for a conditional write (``If-None-Match: *`` on S3), which it must know.

    Parameters
    ----------
    uri : str
        A path or fsspec URL.
    data : bytes-like

    Returns
    -------
    bool
        Whether this call has created the object; False where there was one. On GCS and Azure, False may also mean
        that the answer to the write was lost: the object is whole then, and holds ``data``.

    Raises
    ------
    AccessError
        Where nothing can be written there.

    Examples
    --------
    >>> from mmpca_dist.datasets.creating import create_bytes
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
        return _created_once(fs, path, bytes(data))


def _create_file(path: Path, data: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with storage.beside(path) as partial:
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


def _created(fs: Any, path: str, data: bytes, **options: Any) -> bool:
    try:
        fs.pipe_file(path, data, mode="create", **options)
    except FileExistsError:
        return False
    except OSError as error:
        if not _refused(error):
            raise
        return False
    return True


def _created_once(fs: Any, path: str, data: bytes) -> bool:
    """Create an object, which was done even where a first answer was lost and a second attempt found it there."""
    if "s3" not in fs.protocol:
        return _created(fs, path, data)
    writer = uuid.uuid4().hex
    return _created(fs, path, data, Metadata={WRITER: writer}) or fs.metadata(path).get(WRITER) == writer


def _refused(error: BaseException) -> bool:
    """Tell whether a store refused a conditional write because its condition does not hold."""
    response = getattr(error.__cause__ or error, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return status == 412

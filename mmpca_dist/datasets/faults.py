"""Why an address fails: one reason for each of the many errors of file systems, networks and object stores.

Packages of object stores are known by name, through the classes an error derives from, and never imported.
"""

from __future__ import annotations

import errno
import socket
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmpca_dist.errors import MmpcaError

REMOTE_PACKAGES = frozenset(
    ["adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "httpx", "requests", "s3fs", "urllib3"]
)
DENIED = "permission denied. Check the access rights, or for object storage the credentials in the environment"
NO_CREDENTIALS = "there are no valid credentials in the environment. Set them as the store's own tools want them"
UNREACHABLE = "the host cannot be reached. Check the address and the network"
UNKNOWN_HOST = "the host's name is not known. Check the address and the network"
TIMED_OUT = "no answer came in time. Check the address and the network, and try again"
ABSENT = "it does not exist"
REASONS = {
    errno.ENOSPC: "no space is left on the device. Free some, or choose another place",
    errno.EDQUOT: "the disk quota is used up. Free some, or choose another place",
    errno.EROFS: "the file system is read-only. Choose another place",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
}
PASSING_STATUS = frozenset([408, 425, 429, 500, 502, 503, 504])
PASSING_CODES = frozenset(
    ["BadDigest", "ConditionalRequestConflict", "IncompleteBody", "OperationAborted", "RequestTimeout",
     "XAmzContentSHA256Mismatch"]
)  # fmt: skip
"""Answers of S3 with another status that pass: a body that came damaged, two writers at once."""
LASTING = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError, MmpcaError,
           ImportError, NotImplementedError, TypeError, AttributeError, LookupError)  # fmt: skip


def persistence(error: BaseException) -> str:
    """Tell whether a remote store fails for a ``passing`` reason, a ``lasting`` or an ``unknown`` one."""
    cause = error.__cause__ if isinstance(error, OSError) and _status(error) is None else None
    answered = cause if cause is not None and _status(cause) is not None else error
    status, code = _status(answered), _code(answered)
    if status in PASSING_STATUS or code in PASSING_CODES:
        return "passing"
    names = " ".join(cls.__name__ for cls in type(error).__mro__)
    if isinstance(error, LASTING) or "Credential" in names or status in (401, 403, 404, 412):
        # "Not found" without its own code is an answer that came damaged.
        return "unknown" if status == 404 and not isinstance(error, FileNotFoundError) else "lasting"
    if isinstance(error, ConnectionError | TimeoutError) or any(
        word in names
        for word in ("Timeout", "Connect", "Disconnected", "Payload", "IncompleteRead", "ShortRead", "ChecksumError")
    ):
        return "passing"
    return "unknown"


def damaged(error: BaseException) -> bool:
    """Tell whether data came that are not what was written, rather than none."""
    if isinstance(error, MmpcaError):
        return False
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None  # pyarrow says so of a page
    return isinstance(error, ValueError | RuntimeError | EOFError | zlib.error | zipfile.BadZipFile)


def reason(error: BaseException, path: str | None, writing: bool) -> str | None:
    """Return why an operation failed, without the final stop; None for what is no failure of an address.

    Parameters
    ----------
    error : exception
    path : str or None
        The path on a local disk, None for a URL.
    writing : bool
        Whether something was to be written there.
    """
    packages = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    if packages & REMOTE_PACKAGES:
        return _remote(error, writing)
    if isinstance(error, FileNotFoundError):
        # File systems hide what a server answered behind "not found".
        hidden = error.__cause__ and reason(error.__cause__, path, writing)
        if isinstance(hidden, str) and hidden != ABSENT:
            return hidden
        return _no_place(path) if writing else ABSENT
    if isinstance(error, IsADirectoryError):
        return "it is a folder where a file belongs"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return _file_in_the_way(path)
    if isinstance(error, socket.gaierror):
        return UNKNOWN_HOST
    if isinstance(error, ConnectionError):
        return UNREACHABLE
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, PermissionError):
        return DENIED
    if isinstance(error, OSError):
        return REASONS.get(error.errno or 0) or _words(error.strerror or error)
    return None


def _remote(error: BaseException, writing: bool) -> str:
    """Return the reason behind an error of a network package or an object store."""
    names = " ".join(cls.__name__ for cls in type(error).__mro__)
    status = _status(error)
    if "Credential" in names or "AuthenticationError" in names or "RefreshError" in names:
        return NO_CREDENTIALS
    if status in (401, 403):
        return DENIED
    if status == 404:
        return _no_place(None) if writing else ABSENT
    if "DNSError" in names:
        return UNKNOWN_HOST
    if "Timeout" in names:
        return TIMED_OUT
    if status is None and any(word in names for word in ("Connect", "Disconnected", "Endpoint", "ServiceRequest")):
        return UNREACHABLE
    return f"the store answers {status} ({_words(error)})" if status else _words(error)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status an error carries, wherever its package keeps it."""
    for value in _statuses(error):
        try:
            return int(value)
        except (TypeError, ValueError):
            continue
    return None


def _statuses(error: BaseException) -> Iterator[Any]:
    yield from (getattr(error, name, None) for name in ("status", "status_code", "code"))
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        yield response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    yield getattr(response, "status_code", None)


def _code(error: BaseException) -> str | None:
    """Return S3's own name for an error, if it is one of S3's."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _no_place(path: str | None) -> str:
    """Say why nothing can be put at an address, where not even a folder for it is found."""
    if path is None:
        return "its bucket or container does not exist. Create it, or correct the address"
    missing = Path(path)
    while not missing.parent.exists():
        missing = missing.parent
    if missing == Path(path):
        return f"it cannot be made in {missing.parent}. Choose another place"
    return f"the folder {missing} does not exist and cannot be made. Create it, or choose another place"


def _file_in_the_way(path: str | None) -> str:
    ancestors = [Path(path), *Path(path).parents] if path is not None else []
    found = next((place for place in ancestors if place.is_file()), None)
    return f"{found or 'a part of the path'} is a file where a folder belongs. Choose another path"


def _words(error: Any) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__

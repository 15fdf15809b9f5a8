"""Why an address fails: one reason for each of the many errors of file systems, networks and object stores.

Packages are recognised by the classes an error derives from; they are imported only by who uses them.
"""

from __future__ import annotations

import errno
import re
import socket
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

from mmpca_dist.errors import MmpcaError

REMOTE_PACKAGES = frozenset(["aiohttp", "obstore", "requests", "urllib3"])
STATUS = re.compile(r"status code: (\d{3})")
"""obstore has one exception for most answers of a server; their status is only in its text."""
TYPED = {403: "PermissionDeniedError", 401: "UnauthenticatedError", 412: "AlreadyExistsError"}
"""The statuses for which obstore has exceptions of their own; 404 is a ``FileNotFoundError``."""
METADATA_SERVERS = ("169.254.169.254", "metadata.google.internal")
"""Clients that find no credentials ask these for some, in vain anywhere but in the cloud."""
DENIED = "permission denied. Check the access rights, or for object storage the credentials in the environment"
NO_CREDENTIALS = "there are no valid credentials in the environment. Set them as the store's own tools want them"
UNREACHABLE = "the host cannot be reached. Check the address and the network"
UNKNOWN_HOST = "the host's name is not known. Check the address and the network"
TIMED_OUT = "no answer came in time. Check the address and the network, and try again"
ABSENT = "it does not exist"
OTHER_REGION = "the bucket is in another region. Set AWS_REGION to the one it is in"
UNREADABLE_ANSWER = "the store's answer cannot be read. Try again later, or check that the address is that of a store"
UNREADABLE_NAME = (
    "objects there have names with an empty, '.' or '..' part, which obstore cannot list. Choose another folder, or "
    "rename them"
)
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
LASTING_OBSTORE = ("InvalidPathError", "NotSupportedError", "UnknownConfigurationKeyError")
LASTING = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError, MmpcaError,
           ImportError, NotImplementedError, TypeError, AttributeError, LookupError)  # fmt: skip


def persistence(error: BaseException) -> str:
    """Tell whether a remote store fails for a ``passing`` reason, a ``lasting`` or an ``unknown`` one."""
    code = status(error)
    if code in PASSING_STATUS:
        return "passing"
    if isinstance(error, LASTING) or code in (401, 403, 404, 412, 416) or _is_obstore(error, *LASTING_OBSTORE):
        return "lasting"
    if code is not None or _lacks_credentials(error):
        return "unknown"
    is_connection = isinstance(error, ConnectionError | TimeoutError) or _package(error) == "aiohttp"
    # obstore says so where a request or an answer was broken off.
    return "passing" if is_connection or (_is_obstore(error) and "HTTP error" in str(error)) else "unknown"


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
    if _package(error) is not None:
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
    code, text = status(error), str(error).lower()
    if _lacks_credentials(error):
        return NO_CREDENTIALS
    if code in (401, 403):
        return DENIED
    if code == 404:
        return _no_place(None) if writing else ABSENT
    if code in (301, 307) or "incorrectly configured region" in text:
        return OTHER_REGION
    if code is not None:
        return f"the store answers {code}"
    if _is_obstore(error, "InvalidPathError"):
        return UNREADABLE_NAME
    if isinstance(error, socket.gaierror) or "DNSError" in type(error).__name__ or "dns error" in text:
        return UNKNOWN_HOST
    if isinstance(error, TimeoutError) or "timed out" in text:
        return TIMED_OUT
    if _is_obstore(error) and "http error" not in text:
        return UNREADABLE_ANSWER
    return UNREACHABLE


def status(error: BaseException) -> int | None:
    """Return the HTTP status an error carries, wherever its package keeps it."""
    if _is_obstore(error):
        text = STATUS.search(str(error))
        return int(text[1]) if text else next((code for code, name in TYPED.items() if _is_obstore(error, name)), None)
    response = getattr(error, "response", None)
    codes = (getattr(error, "status", None), getattr(response, "status_code", None))
    return next((code for code in codes if isinstance(code, int)), None)


def _is_obstore(error: BaseException, *names: str) -> bool:
    """Tell whether an error is one of obstore's, or one of these."""
    exceptions = sys.modules.get("obstore.exceptions")  # no error of obstore's comes before its import
    return exceptions is not None and isinstance(
        error, tuple(getattr(exceptions, name) for name in names or ("BaseError",))
    )


def _package(error: BaseException) -> str | None:
    packages = [cls.__module__.partition(".")[0] for cls in type(error).__mro__]
    return next((package for package in packages if package in REMOTE_PACKAGES), None)


def _lacks_credentials(error: BaseException) -> bool:
    """Tell whether a client of an object store sought credentials in vain."""
    return _is_obstore(error) and any(server in str(error) for server in METADATA_SERVERS)


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
    file = next((path for path in ancestors if path.is_file()), None)
    return f"{file or 'a part of the path'} is a file where a folder belongs. Choose another path"


def _words(error: Any) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__

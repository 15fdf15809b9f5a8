"""Failures of file systems, networks and object stores: the reason for a message, and which are retried for how long.

Packages are recognised by the classes an error derives from, so that none is imported for it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import sys
import time
import zipfile
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import tenacity
from tenacity.wait import wait_base

from mmpca_dist.errors import ConfigError, MmpcaError
from mmpca_dist.limits import LIMITS

T = TypeVar("T")
log = logging.getLogger("mmpca_dist.storage")

PATIENCE_SECONDS = 120.0
"""How long an operation is retried (``MMPCA_STORAGE_PATIENCE``)."""
FIRST_SECONDS = 8.0
"""The same of a store that has never answered this process, as one whose address is wrong, and of its first answer."""
TIMEOUT_SECONDS = 30.0
"""How long an answer may take, or the next part of it (``MMPCA_STORAGE_TIMEOUT``)."""
LONGEST_PAUSE = 15.0
UNKNOWN_ATTEMPTS = 3
"""Attempts where the failure is not known to pass, such as an answer that cannot be read."""
READINGS = 3
"""Readings of data that fail their checksum before they count as damaged: the transfer may have been at fault."""

PLACE = re.compile(r"[a-z0-9+.-]+://[^/]*")
_answered: set[str] = set()
"""The buckets and hosts that have answered this process."""
_unreachable: dict[str, tuple[float, Exception]] = {}
"""When others were last tried in vain, and how that failed."""
REMOTE_PACKAGES = frozenset(["aiohttp", "obstore", "requests", "urllib3"])
STATUS = re.compile(r"status code: (\d{3})")
"""obstore has one exception for most answers of a server; their status is only in its text."""
TYPED = {403: "PermissionDeniedError", 401: "UnauthenticatedError", 412: "AlreadyExistsError"}
"""The statuses for which obstore has exceptions of their own; 404 is a ``FileNotFoundError``."""
METADATA_SERVERS = ("169.254.169.254", "metadata.google.internal")
"""Clients that find no credentials ask these for some, in vain anywhere but in the cloud."""
PASSING_STATUS = frozenset([408, 425, 429, 500, 502, 503, 504])
PASSING_CODES = ("BadDigest", "RequestTimeout")
"""In S3's answers of status 400: the body was damaged on its way, or came too slowly."""
LASTING_STATUS = frozenset([401, 403, 404, 412, 416])
LASTING_OBSTORE = ("InvalidPathError", "NotSupportedError", "UnknownConfigurationKeyError")
LASTING = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError, MmpcaError,
           ImportError, NotImplementedError, TypeError, AttributeError, LookupError)  # fmt: skip

DENIED = "permission denied. Check the access rights, or for object storage the credentials in the environment"
NO_CREDENTIALS = "there are no valid credentials in the environment. Set them as the store's own tools want them"
UNREACHABLE = "the host cannot be reached. Check the address and the network"
UNKNOWN_HOST = "the host's name is not known. Check the address and the network"
TIMED_OUT = "no answer came in time. Check the address and the network, and try again"
ABSENT = "it does not exist"
NO_FOLDER = "its folder cannot be made. Create it, or choose another place"
NO_BUCKET = "its bucket or container does not exist. Create it, or correct the address"
OTHER_REGION = "the bucket is in another region. Set AWS_REGION to the one it is in"
UNREADABLE_ANSWER = "the store's answer cannot be read. Try again later, or check that the address is that of a store"
UNREADABLE_NAME = (
    "objects there have names with an empty, '.' or '..' part, which obstore cannot list. Choose another folder, or "
    "rename them"
)
REASONS_OF_ERRNO = {
    errno.ENOSPC: "no space is left on the device. Free some, or choose another place",
    errno.EDQUOT: "the disk quota is used up. Free some, or choose another place",
    errno.EROFS: "the file system is read-only. Choose another place",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
}
REASONS_OF_TYPE = {
    IsADirectoryError: "it is a folder where a file belongs",
    socket.gaierror: UNKNOWN_HOST,
    ConnectionError: UNREACHABLE,
    TimeoutError: TIMED_OUT,
    PermissionError: DENIED,
}


def patience() -> float:
    """Return for how many seconds an operation is retried."""
    return _seconds("MMPCA_STORAGE_PATIENCE", PATIENCE_SECONDS)


def timeout() -> float:
    """Return how many seconds an answer may take."""
    return _seconds("MMPCA_STORAGE_TIMEOUT", TIMEOUT_SECONDS)


def is_first_contact(uri: str) -> bool:
    """Tell whether a bucket or host is yet to answer, so that no work is under way there."""
    place = PLACE.search(uri)
    if place is None or place[0] in _answered:
        return False
    distributed = sys.modules.get("distributed")
    try:
        return distributed is None or not distributed.get_worker()  # a worker does what others have begun
    except ValueError:
        return True


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"The environment variable {name} is {text!r}; it must be a number of seconds above 0.")
    return seconds


def patiently(action: str, operation: Callable[[], T]) -> T:
    """Return the result of an operation that may be repeated; retry it while it fails for reasons that pass.

    Clients retry for a few seconds at most. What fails longer is logged and retried here, with pauses that double.
    """
    place = PLACE.search(action)
    before = _unreachable.get(place[0]) if place is not None and is_first_contact(action) else None
    if before is not None and time.monotonic() - before[0] < FIRST_SECONDS:
        raise before[1]  # what has just been tried in vain is not waited for again
    try:
        return tenacity.Retrying(**_policy(action))(operation)
    except Exception as error:
        if place is not None:
            _unreachable[place[0]] = time.monotonic(), error
        raise


async def patiently_async(action: str, operation: Callable[[], Awaitable[T]]) -> T:
    """Do as ``patiently`` does, in an event loop."""

    async def attempt() -> T:  # tenacity does not await what a plain function returns
        return await operation()

    return await tenacity.AsyncRetrying(**_policy(action))(attempt)


def _policy(action: str) -> dict[str, Any]:
    """Return tenacity's settings for one operation: which failures it retries, after which pauses, and how long."""
    limit = patience()

    def is_worth_it(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        if (place := PLACE.search(action)) and (error is None or persistence(error) == "lasting" or status(error)):
            _answered.add(place[0])
        return isinstance(error, Exception) and persistence(error) != "lasting"

    def is_exhausted(state: tenacity.RetryCallState) -> bool:
        is_unknown, begun = persistence(_error(state)) == "unknown", state.seconds_since_start or 0
        if is_unknown and state.attempt_number >= UNKNOWN_ATTEMPTS:
            return True
        return begun >= limit or (begun >= FIRST_SECONDS and is_first_contact(action))

    def log_failure(state: tenacity.RetryCallState) -> None:
        # The words of a store or its client are not repeated: they may hold a secret.
        name, pause = type(_error(state)).__name__, state.next_action.sleep if state.next_action else 0.0
        log.warning("%s failed (%s, attempt %d); again in %.1f s", action, name, state.attempt_number, pause)

    pauses: wait_base = tenacity.wait_exponential(multiplier=LIMITS.first_pause, max=LONGEST_PAUSE)
    return {
        "retry": is_worth_it,
        "stop": is_exhausted,
        "wait": pauses + tenacity.wait_random(0, LIMITS.first_pause),
        "before_sleep": log_failure,
        "reraise": True,
    }


def _error(state: tenacity.RetryCallState) -> BaseException:
    return (state.outcome.exception() if state.outcome is not None else None) or RuntimeError()


def undamaged(is_remote: bool, action: str, read: Callable[[], T], *more: type[Exception]) -> T:
    """Return the result of ``read``, which is repeated if data arrive damaged over a network.

    Errors of the types ``more`` say so, too, such as a ``KeyError`` of metadata.
    """
    for attempt in range(1, READINGS if is_remote else 1):
        try:
            return read()
        except Exception as error:
            if not is_damage(error) and not isinstance(error, more):
                raise
            log.warning("%s came damaged (%s, reading %d); reading it again", action, type(error).__name__, attempt)
    return read()


def is_damage(error: BaseException) -> bool:
    """Tell whether an error says that data are damaged, rather than out of reach."""
    if isinstance(error, MmpcaError):
        return False
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None  # pyarrow says so of a page
    return isinstance(error, ValueError | RuntimeError | EOFError | zlib.error | zipfile.BadZipFile)


def persistence(error: BaseException) -> str:
    """Tell whether the reason why a remote store fails is ``passing``, ``lasting`` or ``unknown``."""
    code = status(error)
    if code in PASSING_STATUS or (code == 400 and any(each in str(error) for each in PASSING_CODES)):
        return "passing"
    if isinstance(error, LASTING) or code in LASTING_STATUS or _is_obstore(error, *LASTING_OBSTORE):
        return "lasting"
    if code is not None or _lacks_credentials(error):
        return "unknown"
    is_connection = isinstance(error, ConnectionError | TimeoutError) or _package(error) == "aiohttp"
    # obstore says "HTTP error" where a request or an answer was broken off.
    return "passing" if is_connection or (_is_obstore(error) and "HTTP error" in str(error)) else "unknown"


def reason(error: BaseException, path: str | None, writing: bool) -> str | None:
    """Return why an operation failed, without the final stop; None for what is no failure of an address.

    ``path`` is the path on a local disk, or None for a URL; ``writing`` says whether something was to be written.
    """
    if _package(error) is not None:
        return _remote_reason(error, writing)
    if isinstance(error, FileNotFoundError):
        # File systems hide what a server answered behind "not found".
        hidden = error.__cause__ and reason(error.__cause__, path, writing)
        if isinstance(hidden, str) and hidden != ABSENT:
            return hidden
        return (NO_BUCKET if path is None else NO_FOLDER) if writing else ABSENT
    if isinstance(error, NotADirectoryError | FileExistsError):
        ancestors = [Path(path), *Path(path).parents] if path is not None else []
        file = next((path for path in ancestors if path.is_file()), None)
        return f"{file or 'a part of the path'} is a file where a folder belongs. Choose another path"
    text = next((text for kind, text in REASONS_OF_TYPE.items() if isinstance(error, kind)), None)
    if text is None and isinstance(error, OSError):
        text = REASONS_OF_ERRNO.get(error.errno or 0)
        return text or " ".join(str(error.strerror or error).split()).rstrip(".") or type(error).__name__
    return text


def in_words(error: BaseException) -> str:
    """Return why data cannot be read, without the final stop: the reason of a failure, or what a library says of it.

    The words of clients of object stores are not repeated: they name endpoints, and may hold a secret.
    """
    return reason(error, None, False) or " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _remote_reason(error: BaseException, writing: bool) -> str:
    """Return the reason behind an error of a network package or an object store."""
    code, text = status(error), str(error).lower()
    reasons = (
        (_lacks_credentials(error), NO_CREDENTIALS),
        (code in (401, 403), DENIED),
        (code == 404, NO_BUCKET if writing else ABSENT),
        (code in (301, 307) or "incorrectly configured region" in text, OTHER_REGION),
        (code is not None, f"the store answers {code}"),
        (_is_obstore(error, "InvalidPathError"), UNREADABLE_NAME),
        (isinstance(error, socket.gaierror) or "DNSError" in type(error).__name__ or "dns error" in text, UNKNOWN_HOST),
        (isinstance(error, TimeoutError) or "timed out" in text, TIMED_OUT),
        (_is_obstore(error) and "http error" not in text, UNREADABLE_ANSWER),
    )
    return next((reason for applies, reason in reasons if applies), UNREACHABLE)


def status(error: BaseException) -> int | None:
    """Return the HTTP status an error carries, wherever its package keeps it."""
    if _is_obstore(error):
        text = STATUS.search(str(error))
        return int(text[1]) if text else next((code for code, name in TYPED.items() if _is_obstore(error, name)), None)
    codes = (getattr(error, "status", None), getattr(getattr(error, "response", None), "status_code", None))
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

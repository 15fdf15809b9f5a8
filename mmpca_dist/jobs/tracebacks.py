"""Report unforeseen errors: one sentence for the user, the traceback in a file."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.directory import ERRORS, RunDirectory


class UnforeseenError(RuntimeError):
    """An error that no message of this library describes; its traceback is in a file that the message names."""


@contextmanager
def traceback_kept(output: str | None = None) -> Iterator[None]:
    """Turn an exception that is no ``MmpcaError`` into an ``UnforeseenError``, which names a file with its traceback.

    The file goes into the folder ``errors`` of the run in ``output`` or, where there is none, into the folder of
    temporary files of this machine.
    """
    try:
        yield
    except (MmpcaError, UnforeseenError):
        raise
    except Exception as error:
        raise UnforeseenError(
            f"Unexpected error: {last_line(error)}. The traceback is in {_written(error, output)}; please report it."
        ) from error


def last_line(error: BaseException) -> str:
    """Return what Python prints last of an exception, on one line and without a full stop."""
    return " ".join("".join(traceback.format_exception_only(error)).split()).rstrip(".")


def _written(error: BaseException, output: str | None) -> str:
    """Write the traceback where it can be written, and return the path."""
    text = "".join(traceback.format_exception(error))
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.txt"
    with suppress(Exception):  # the run's store may be what failed
        if output is not None and RunDirectory(storage.normalize(output)).exists:
            path = storage.join(storage.normalize(output), ERRORS, name)
            storage.write_bytes(path, text.encode())
            return path
    local = Path(tempfile.mkdtemp(prefix="mmpca-error-"), name)
    local.write_text(text, encoding="utf-8")
    return str(local)

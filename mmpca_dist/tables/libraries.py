"""Optional libraries that read formats of their own: one that is not installed, or fails, is told in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mmpca_dist.errors import InputError, MmpcaError


@contextmanager
def reading_with(extra: str, what: str, failure: str, remedy: str) -> Iterator[None]:
    """Turn what a library of an optional dependency raises, which has many types, into one sentence.

    ``what`` says what the data are, ``failure`` what cannot be done, and ``remedy`` what to do then.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(f"{what}. Install 'mmpca-dist[{extra}]' to read it ({error}).") from error
    except (MmpcaError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")[:200]
        raise InputError(f"{failure}: {reason}. {remedy}") from error

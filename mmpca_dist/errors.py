"""Errors a user can act on: each names what was found, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from mmpca_dist.faults import Asker, Fault, render


class MmpcaError(Exception):
    """Base of every error this library raises on purpose: faults, or a sentence with facts for its holes.

    It is shown in the words of who asked, and pickles with its faults.
    """

    asker: Asker | None = None
    """Who asked; None before that is known."""

    def __init__(self, *faults: str | Fault, **facts: Any) -> None:
        super().__init__(*(Fault(str(fault), facts) if facts else fault for fault in faults))

    def __str__(self) -> str:
        return render(self.faults, self.asker)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of the error."""
        return tuple(fault if isinstance(fault, Fault) else Fault(str(fault)) for fault in self.args)


@contextmanager
def instead_of(caught: Any, kind: type[MmpcaError], text: str) -> Iterator[None]:
    """Raise an error of one sentence instead of what a library raises, whose words fill the hole ``{reason}``."""
    try:
        yield
    except MmpcaError:  # an InputError is a ValueError, too
        raise
    except caught as error:
        if caught is Exception and isinstance(error, MemoryError):
            raise
        reason = " ".join(str(error).split()).rstrip(".")[:LONGEST_REASON]
        raise kind(text, reason=reason or type(error).__name__) from error


class InputError(MmpcaError, ValueError):
    """The data set, or an argument that describes it, cannot be used as it is."""


class RowTypeError(InputError, TypeError):
    """Rows, or the names of their columns, have a type that cannot be used."""


class ColumnError(InputError):
    """Columns of a table cannot be used as they are; ``faults`` are all of them, or the first that was met."""


class AccessError(InputError):
    """Something cannot be reached, read or written at present: a disk, a network or a store fails."""


class DamageError(AccessError):
    """A file of this library is damaged: a part of it is missing, or does not match its checksum."""


class OutageError(AccessError):
    """A network, a store or a cluster fails, which may pass: the same command may succeed later, and goes on."""


class ClusterError(OutageError):
    """The cluster that did the work is gone, or its workers die."""


class ConfigError(MmpcaError, ValueError):
    """A run's configuration is not valid."""


class AbsentError(InputError, AttributeError):
    """A result lacks what its kind may have, so that ``hasattr`` is false."""


class NoComponentsError(InputError):
    """A method has no component for these rows."""


class PlanError(MmpcaError, MemoryError):
    """The plan needs more memory or disk than it is allowed."""

    def __new__(cls, *args: Any, **facts: Any) -> Self:
        return Exception.__new__(cls, *args)  # that of MemoryError, which libraries that copy errors call, is refused


class OutputError(MmpcaError, FileExistsError):
    """The output holds something that must not be overwritten."""


LONGEST_REASON = 200
"""Characters of a library's words that a message repeats."""
MAX_NAME_LENGTH = 200
"""Longer names are not compared: that takes the product of their lengths."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the most similar of some names in any case, or an empty string."""
    if len(name) > MAX_NAME_LENGTH:
        return ""
    in_lower_case = {other.lower(): other for other in names if len(other) <= MAX_NAME_LENGTH}
    close = difflib.get_close_matches(name.lower(), in_lower_case, n=1)
    return f" Did you mean {in_lower_case[close[0]]!r}?" if close else ""


MAX_NAMES = 10
"""Number of names that a message lists; tables may have thousands of columns."""


def some_names(names: Sequence[str]) -> str:
    """Return the first names, quoted, and their number where not all are listed."""
    listed = ", ".join(repr(name) for name in names[:MAX_NAMES])
    return listed if len(names) <= MAX_NAMES else f"{listed}, ... ({len(names)} in all)"


def plural(number: int, what: str) -> str:
    """Return "1 component", "2 components"."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def beyond_memory_limit(error: BaseException) -> str | None:
    """Return the message for an error that a limit of the process's memory explains; None for others."""
    limit = _memory_limit()
    if limit is None or not any(_may_lack_memory(one) for one in _chain(error)):
        return None
    what = f"{type(error).__name__}: {error}".rstrip(". :")
    return (
        f"Memory ran out, or a library could not be loaded, in a process whose memory is limited to {limit}. Raise the "
        f"limit, or lift it with: ulimit -v unlimited; ulimit -d unlimited. ({what}.)"
    )


def _memory_limit() -> str | None:
    """Return the limit of this process's memory in words, or None; control groups end processes without an error."""
    with suppress(ImportError):  # where there are no such limits
        import resource

        names = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}
        limits = {name: resource.getrlimit(number)[0] for name, number in names.items()}
        set_ones = [(size, name) for name, size in limits.items() if size != resource.RLIM_INFINITY]
        if set_ones:
            size, name = min(set_ones)
            return f"{size / 2**20:,.0f} MiB ({name})"
    return None


def _may_lack_memory(error: BaseException) -> bool:
    """Tell whether an error is one that Python and its libraries raise where memory cannot be had."""
    if isinstance(error, MemoryError | ImportError | SystemError):
        return not isinstance(error, ModuleNotFoundError)
    words = ("can't start new thread", "Cannot allocate memory", "load shared object", "map segment")
    return isinstance(error, OSError | RuntimeError) and any(part in str(error) for part in words)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

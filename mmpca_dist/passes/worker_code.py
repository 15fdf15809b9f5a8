"""Whether the workers of a Dask cluster have the code of this process: results of another version are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from mmpca_dist.errors import ClusterError, InputError

ASYNCHRONOUS = "The Dask client is asynchronous: give one that is not, such as Client(address)."
LIBRARIES = ("numpy", "scipy", "pyarrow", "scikit-learn", "zarr")
CODE = (
    "(lambda package, files, version: ([package.__version__, __import__('hashlib').sha256(b''.join(file.read_bytes() "
    "for file in sorted(files(package.__path__[0]).rglob('*.py')))).hexdigest()], {name: version(name) for name in "
    f"{LIBRARIES}}}))(__import__('mmpca_dist'), __import__('pathlib').Path, "
    "__import__('importlib.metadata').metadata.version)"
)
"""The expression that tells the code of a process; older workers have no function of this module."""
_checked: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The addresses of workers that have this code, by client."""


@functools.cache
def _of_this_process() -> Any:
    return eval(CODE)  # noqa: S307  (a constant)


def refuse_asynchronous(client: Any) -> None:
    """Raise InputError for a client whose methods return coroutines."""
    if client.asynchronous:
        raise InputError(ASYNCHRONOUS)


def refuse_other_code(client: Any, on_note: Callable[[str], None] = lambda note: None) -> None:
    """Raise ClusterError for workers, new since the last call, that lack this package or have other files of it.

    Other versions of libraries are noted.
    """
    refuse_asynchronous(client)
    checked, notes = _checked.setdefault(client, set()), set[str]()
    new = sorted(set(client.nthreads()) - checked)
    answers = client.run(eval, CODE, workers=new, on_error="return") if new else {}
    code, libraries = _of_this_process()
    for worker, answer in answers.items():
        if isinstance(answer, OSError):  # the worker is gone
            continue
        if isinstance(answer, Exception) or answer[0] != code:
            has = f"has none ({answer})" if isinstance(answer, Exception) else f"has {answer[0][0]}, of other files"
            raise ClusterError(
                f"This process has mmpca_dist {code[0]}, and the Dask worker {worker} {has}: results could differ. "
                "Install the same version there, and start the worker again."
            )
        checked.add(worker)
        others = [f"{name} {other} ({libraries[name]} here)" for name, other in answer[1].items() - libraries.items()]
        notes |= {f"Workers have {', '.join(sorted(others))}."} if others else set()
    for note in sorted(notes):
        on_note(note)

"""Run fits of LIBLINEAR and the like one at a time, without warnings, and count non-convergence."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

fitting_alone = threading.Lock()
"""LIBLINEAR and LIBSVM draw from one generator a process, which every fit seeds: threads that fit at the same time
disturb each other's draws, and then results differ from run to run."""

_quiet_lock = threading.Lock()
_quiet: list[Any] = []


@contextmanager
def quiet_fits() -> Iterator[None]:
    """Suppress warnings of no convergence, and dask-glm's warnings, while any thread is inside.

    Fits count what did not converge by iterations (`unconverged`): recorded warnings would mix those of threads.
    """
    with _quiet_lock:
        if not _quiet:
            caught = warnings.catch_warnings()
            caught.__enter__()
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Dask configuration key 'fuse_ave_width'", FutureWarning)
            warnings.filterwarnings("ignore", "scipy.optimize: The `disp` and `iprint`", DeprecationWarning)
            _quiet.append(caught)
        _quiet.append(None)
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet.pop()
            if len(_quiet) == 1:
                _quiet.pop().__exit__(None, None, None)


def unconverged(model: Any) -> int:
    """Return how many of the problems behind a fitted estimator stopped at their largest number of iterations."""
    iterations, most = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    if iterations is None or not isinstance(most, int) or most < 1:
        return 0
    return int(np.count_nonzero(np.asarray(iterations) >= most))

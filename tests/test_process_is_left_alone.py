"""Public calls leave the process as they found it, also after an error, and when several threads make them at once."""

import logging
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import dask.array as da
import matplotlib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from mmpca_dist import (
    KernelProjectionPenaltyClassifier,
    LassoSelection,
    MarginPCA,
    NearestOpposite,
    ReductionDisplay,
    class_moments,
    evaluate,
    load_model,
    open_dataset,
    refresh,
    run,
    transform,
)
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(4)
Y = np.arange(240) % 3
X = RNG.normal(size=(240, 5)) + 2 * (Y[:, None] == np.arange(5))
BAD = np.where(X > 3, np.nan, X)
QUICK = {"methods": ["pca", "m-pca2"], "n_components": [1]}


def state():
    loggers = [logging.getLogger(name) for name in ("", "distributed", "distributed.client", "prefect", "mmpca_dist")]
    return {
        "threads of BLAS": sorted((each["filepath"], each["num_threads"]) for each in threadpool_info()),
        "warnings": list(warnings.filters),
        "logging": [(log.level, list(log.handlers), list(log.filters), log.propagate, log.disabled) for log in loggers],
        "disabled logging": logging.root.manager.disable,
        "matplotlib": [
            dict.get(matplotlib.rcParams, name) for name in sorted(matplotlib.rcParams) if name != "backend"
        ],
        "backend": matplotlib.get_backend(auto_select=False),
        "Dask": dask.config.get("scheduler", None),
        "Dask's configuration": repr(dask.config.config),
        "NumPy's errors": np.geterr(),
        "random numbers": str(np.random.get_state()),  # noqa: NPY002
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "environment": dict(os.environ),
        "folder": Path.cwd(),
    }


def settings(folder, **others):
    return {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 2, "output": str(folder), **others}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(settings(tmp_path_factory.mktemp("run") / "r"))


CALLS = {
    "fit": lambda done, folder: MarginPCA(2).fit(X, Y),
    "Dask rows": lambda done, folder: MarginPCA(2).fit(da.from_array(X, (60, 5)), Y),
    "m-pca2": lambda done, folder: MarginPCA(2, "m-pca2").fit(X, Y),
    "search": lambda done, folder: NearestOpposite().fit(X, Y).kneighbors(),
    "lasso": lambda done, folder: LassoSelection(2).fit(X, Y),
    "kernel": lambda done, folder: KernelProjectionPenaltyClassifier().fit(X, Y),
    "moments": lambda done, folder: class_moments(X, Y),
    "transform of a model": lambda done, folder: done.model("pca").transform(X[:, :4]),
    "load_model": lambda done, folder: load_model(done.folder, "pca"),
    "open_dataset": lambda done, folder: open_dataset("bundled:iris"),
    "display": lambda done, folder: ReductionDisplay.from_estimator(MarginPCA(2).fit(X, Y), X, Y),
    "evaluate": lambda done, folder: evaluate(X, Y, classifiers=["svm", "logistic", "lda"], splits="folds", **QUICK),
    "run": lambda done, folder: run(settings(folder / "run")),
    "transform": lambda done, folder: transform(done, "bundled:iris", str(folder / "z")),
    "refresh": lambda done, folder: refresh(done, "bundled:iris", str(folder / "both")),
}
WRONG = {
    "fit": lambda done, folder: MarginPCA(2).fit(BAD, Y),
    "Dask rows": lambda done, folder: MarginPCA(2).fit(da.from_array(BAD, (60, 5)), Y),
    "m-pca2": lambda done, folder: MarginPCA(9, "m-pca2").fit(X, Y),
    "search": lambda done, folder: NearestOpposite().fit(BAD, Y).kneighbors(),
    "kernel": lambda done, folder: KernelProjectionPenaltyClassifier().fit(BAD, Y),
    "moments": lambda done, folder: class_moments(BAD, Y),
    "display": lambda done, folder: ReductionDisplay.from_estimator(MarginPCA(2).fit(X, Y), BAD, Y),
    "evaluate": lambda done, folder: evaluate(BAD, Y, splits="folds", **QUICK),
    "run": lambda done, folder: run(settings(folder / "run", n_components=99)),
    "transform": lambda done, folder: transform(done, "bundled:digits", str(folder / "z")),
    "refresh": lambda done, folder: refresh(done, "bundled:digits", str(folder / "both")),
}


def check(before):
    after = state()
    assert [name for name, value in before.items() if after[name] != value] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call(call, finished, tmp_path):
    call(finished, tmp_path)  # imports, such as that of pyplot, which registers its style
    before = state()
    (tmp_path / "again").mkdir()
    call(finished, tmp_path / "again")
    check(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_call_that_is_refused(call, finished, tmp_path):
    before = state()
    with pytest.raises(InputError):
        call(finished, tmp_path)
    check(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["m-pca2", "search", "lasso", "kernel", "evaluate"])
def test_calls_in_threads(name, finished, tmp_path):
    calls = [CALLS[name], CALLS[name], WRONG.get(name, WRONG["fit"])] * 4
    before = state()
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(call, finished, tmp_path) for call in calls]
    assert [isinstance(future.exception(), InputError) for future in futures] == [False, False, True] * 4
    check(before)

"""Runs that are refreshed in tests: their rows, in parts, and what comes of them."""

from pathlib import Path

import numpy as np
import pytest

from helpers import tables
from helpers.tables import labelled, make_config, write_npz
from mmpca_dist import run
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.report import run_page

D = 5
NAMES = [f"feature {j}" for j in range(D)]
NEEDS = {name: method.reducer(None, method.options()).needs() for name, method in METHODS.items()}
FOLLOW = [name for name, needs in NEEDS.items() if not (needs.medians or needs.searches or needs.swept)]
"""Methods that follow from class moments."""
X, Y = labelled(400, D, 3, seed=11)
PARTS = {"first": slice(0, 160), "a": slice(160, 260), "b": slice(260, 330), "c": slice(330, 400)}


def no_pictures(patch):
    """Leave out the pictures of reports, which are slow to draw; what is written, and when, stays as it is."""
    patch.setattr(run_page, "figures", lambda _: [])
    patch.setattr(run_page, "render", lambda *_: "a page")


def fit(output, uri, **changes):
    settings = {"methods": FOLLOW, "n_components": [1, 2], "project": {"methods": []}, **changes}
    run(make_config(output, uri, **settings))
    return str(output)


def write(kind, path, rows, labels, dtype=np.float64):
    return tables.write(kind, path, rows.astype(dtype), labels, NAMES)


def fill(folder, kind="npz", names=("a", "b", "c"), labels=Y, **options):
    """Write parts of the rows into an inbox."""
    folder.mkdir(exist_ok=True)
    for name in names:
        write(kind, folder / name, X[PARTS[name]], labels[PARTS[name]], **options)
    return str(folder)


def bits(output):
    """Return the bytes of all arrays of the newest models and statistics, and the rows in order."""
    folder = Path(RunDirectory(str(output)).record("refresh")["folder"])
    root = Path(output) / folder
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".zarr" in str(path.relative_to(root))
    }
    taken = RunDirectory(str(root)).record("reduce")["taken"]
    return str(folder), found, [(entry["name"], entry["rows"]) for entry in taken]


def state(folder):
    """Return every file below a folder, its bytes and its time."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in Path(folder).rglob("*") if path.is_file()
    }


def first_run(folder):
    """Return a run of the first part of the rows."""
    with pytest.MonkeyPatch.context() as patch:
        no_pictures(patch)
        return fit(folder / "run", write("npz", folder / "first", X[PARTS["first"]], Y[PARTS["first"]]))


def nan_rows(folder):
    rows = X[PARTS["a"]].copy()
    rows[7, 2] = np.nan
    return write_npz(folder / "a.npz", rows, Y[PARTS["a"]])

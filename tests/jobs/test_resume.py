"""A run that was killed goes on where it was, and leaves what an undisturbed one leaves, bit by bit."""

from pathlib import Path

import numpy as np
import pytest
from helpers.resuming import KILLS, Killed, Writes, no_report, results_hash, small_units
from helpers.tables import content_of, labelled, make_config, write_zarr

from mmpca_dist import run
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback
from mmpca_dist.passes.serialization import decode, size_of
from mmpca_dist.planning.run_plan import RunRequest
from mmpca_dist.runs.listing import clean
from mmpca_dist.stores import storage

METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2", "fisher"]
APPROXIMATE = {"search": "approximate", "recall": 0.9, "max_queries": 250}


class Passes(Callback):
    """Counts the spans that are worked on, by stage."""

    def __init__(self):
        self.resumed_at = {}

    def on_progress(self, stage, done, total):
        self.resumed_at.setdefault(stage, (done, total))


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """300 rows in 30 units."""
    small_units(monkeypatch)
    no_report(monkeypatch)
    X, y = labelled(300, 6, 3, 5)
    return write_zarr(tmp_path / "rows.zarr", X, y, 10)


KINDS = {
    "in memory": {},
    "on disk": {},
    "chosen": {"n_components": "auto", "methods": ["pca", "m-pca1b", "m-pca2", "fisher"]},
    "approximate": {"methods": [*METHODS[:4], {"name": "m-pca2", **APPROXIMATE}, "fisher"]},
    "in passes": {"solver": {"kind": "krylov", "passes": 3, "tolerance": 0}, "methods": ["pca", "m-pca0", "m-pca2"]},
    "belonging": {"belonging": {"alpha": 0.05}, "methods": ["pca", "m-pca2"]},
    "belonging of moments": {"belonging": {"alpha": 0.05}, "methods": ["pca", "fisher"]},
    "erased by folds": {"methods": ["pca", {"name": "erase", "shrinkage": "auto"}]},
    "shrunk by folds": {"methods": ["pca", {"name": "fisher", "shrinkage": "auto"}]},
    "standardized": {"standardize": True, "methods": ["m-pca1b", "m-pca2"], "project": {"format": ["zarr", "parquet"]}},
}


FEW = [pytest.param(kind, 2, marks=() if kind == "on disk" else pytest.mark.slow) for kind in KINDS]
EVERY = [pytest.param(kind, None if kind == "in memory" else 25, marks=pytest.mark.chaos) for kind in KINDS]


@pytest.mark.parametrize(("kind", "points"), [*FEW, *EVERY])
def test_a_run_killed_at_the_objects_it_writes(kind, points, rows, tmp_path, monkeypatch):
    """Every record, and every group of spans, or some of them: before it is written, half-way, or just after."""
    if kind == "on disk":
        monkeypatch.setattr(RunRequest, "search_in_memory", False)
    settings = {"methods": METHODS, "n_components": 3, "compute": {"workers": 1}, **KINDS[kind]}
    writes = Writes(monkeypatch)
    run(make_config(tmp_path / "whole", rows, **settings))
    expected, total = results_hash(tmp_path / "whole"), writes.count
    assert total > 30
    kill_points = range(1, total + 1) if points is None else np.linspace(1, total, points).astype(int)
    for number, kill_at in enumerate(kill_points):
        config = make_config(tmp_path / f"killed-{kill_at}", rows, **settings)
        writes.from_now(kill_at, when=KILLS[number % len(KILLS)])
        with pytest.raises(Killed):
            run(config)
        writes.from_now(None)
        run(config)
        assert results_hash(config.output) == expected, kill_at
        assert not RunDirectory(config.output).has_checkpoints
        clean(config.output)
        assert not list(Path(config.output).rglob("*.partial"))


@pytest.mark.parametrize("version", ["this", "another"])
@pytest.mark.e2e
def test_a_killed_pass_goes_on_from_what_this_version_has_kept(version, rows, tmp_path, monkeypatch):
    """The bits of another version may differ."""
    config = make_config(tmp_path / "out", rows, methods=["pca"], n_components=2, compute={"workers": 1})
    writes, undisturbed = Writes(monkeypatch), make_config(tmp_path / "whole", rows, methods=["pca"], n_components=2)
    run(undisturbed)
    writes.from_now(20, within="scratch/reduce")
    with pytest.raises(Killed):
        run(config)
    assert RunDirectory(config.output).has_checkpoints
    if version == "another":
        monkeypatch.setattr("mmpca_dist.jobs.directory.versions", lambda: {"mmpca-dist": "another"})
    writes.from_now(None)
    passes = Passes()
    run(config, [passes])
    assert (passes.resumed_at["reduce"] > (10, 30)) == (version == "this")
    assert version == "this" or passes.resumed_at["reduce"] == (0, 30)
    assert results_hash(config.output) == results_hash(undisturbed.output)


@pytest.mark.e2e
def test_little_data_keeps_nothing_but_records(tmp_path, monkeypatch):
    """A stage of 64 MiB or less is soon repeated."""
    writes = Writes(monkeypatch)
    writes.from_now(1, within="scratch")
    run(make_config(tmp_path / "out", methods=["pca"], n_components=2))
    assert not (tmp_path / "out" / "scratch").exists()
    assert writes.count == 0


@pytest.mark.parametrize("kind", ["in memory", "in passes"])
@pytest.mark.e2e
def test_what_groups_of_spans_leave_was_planned(kind, rows, tmp_path, monkeypatch):
    """Names of arrays and their types, some hundred bytes an array, aside."""
    create, sizes = storage.create_bytes, []

    def counted(uri, data):
        sizes.extend([size_of(decode(data))] if "scratch/reduce/passes" in uri else [])
        return create(uri, data)

    monkeypatch.setattr(storage, "create_bytes", counted)
    results = run(make_config(tmp_path / "out", rows, **{"methods": METHODS, "n_components": 3, **KINDS[kind]}))
    assert len(sizes) > 30
    assert sum(sizes) <= results["plan"]["kept"] < 10 * sum(sizes)


@pytest.mark.e2e
def test_a_chunk_that_was_being_written_is_removed(tmp_path):
    """Zarr writes a chunk beside its place; what a kill has left of it is no part of the results."""
    settings = content_of(tmp_path / "out")
    run(settings)
    left = [
        tmp_path / "out" / "projected" / "pca.zarr" / "X" / "c" / "0" / f"0.{'1e7dc678' * 4}.partial",
        tmp_path / "out" / "report" / ".index.html.1e7dc678.partial",
    ]
    mine = tmp_path / "out" / "report" / "mine.partial"
    for path in (*left, mine):
        path.write_bytes(b"half")
    run(settings)
    assert not any(path.exists() for path in left)
    assert mine.exists()

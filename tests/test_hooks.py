"""A hook removes what its own flow run has left, and nothing of another that may live."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from uuid import uuid4

import pytest

from mmpca_dist.datasets.ingest import ingest
from mmpca_dist.datasets.storage import exists, names_in
from mmpca_dist.datasets.writing import ZarrWriter
from mmpca_dist.errors import InputError
from mmpca_dist.runs.lease import held
from pipelines import hooks
from pipelines.ingest import IngestConfig, ingest_flow

HOOKS = (hooks.on_cancellation, hooks.on_crashed)


@pytest.fixture
def told(monkeypatch):
    """What hooks log; no server is asked for other runs."""
    logger, found = logging.Logger("hooks"), []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logger.addHandler(handler)
    monkeypatch.setattr(hooks, "flow_run_logger", lambda *_: logger)
    monkeypatch.setattr(hooks, "_is_used", lambda *_: False)
    return found


def flow_run(**config):
    return SimpleNamespace(id=uuid4(), parameters={"config": config})


class DyingWriter(ZarrWriter):
    """Dies as by kill -9 at the last moment: what it has written stays."""

    def _rename(self):
        raise InputError("killed")

    def __exit__(self, *_):
        pass


@pytest.fixture
def dying(monkeypatch, tmp_path):
    """Let ingests die; return the settings of one."""
    monkeypatch.setattr("mmpca_dist.datasets.ingest.ZarrWriter", DyingWriter)
    (tmp_path / "a.csv").write_text("x,y\n1.5,a\n2.5,b\n")
    return {"source": str(tmp_path / "a.csv"), "destination": str(tmp_path / "a.zarr"), "label": "y"}


@pytest.mark.parametrize("hook", HOOKS)
def test_of_half_written_tables_only_its_own_is_removed(hook, told, dying, tmp_path):
    """Another may be that of a live ingest onto the same place, of which this server knows nothing."""
    with pytest.raises(InputError, match="killed"):
        ingest(**dying)
    kept = sorted([*names_in(str(tmp_path)), "a.zarr", "a.zarr.notes.txt", f"a.zarr.{uuid4().hex}.partial"])
    assert len(kept) == 5
    for name in kept:
        if name != "a.csv":
            (tmp_path / name).mkdir(exist_ok=True)
    run = flow_run(destination=str(tmp_path / "a.zarr"))
    removed = tmp_path / f"a.zarr.{run.id.hex}.partial"
    removed.mkdir()
    hook(SimpleNamespace(name="ingest"), run, None)
    assert names_in(str(tmp_path)) == kept
    (line,) = told
    assert line == f"Removed {removed}, which this run had half-written; nothing else was touched."
    hook(SimpleNamespace(name="ingest"), run, None)
    hook(SimpleNamespace(name="ingest"), flow_run(destination="memory://bucket/a.zarr"), None)
    assert names_in(str(tmp_path)) == kept and len(told) == 1


def test_the_hook_finds_what_the_flow_has_written(prefect_server, dying, tmp_path):
    state = ingest_flow(IngestConfig(**dying), return_state=True)
    assert (state.name, state.message) == ("Refused", "killed")
    run = state.state_details.flow_run_id
    partial = f"{tmp_path}/a.zarr.{run.hex}.partial"
    assert exists(partial)
    assert hooks.remove_partial(dying["destination"], run) == partial
    assert names_in(str(tmp_path)) == ["a.csv"]


def test_another_attempt_of_the_same_flow_run_begins_anew(dying, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="killed"):
        ingest(**dying, token="0123")  # noqa: S106  (no password)
    assert len(names_in(str(tmp_path))) == 2
    monkeypatch.setattr("mmpca_dist.datasets.ingest.ZarrWriter", ZarrWriter)
    ingest(**dying, token="0123")  # noqa: S106  (no password)
    assert names_in(str(tmp_path)) == ["a.csv", "a.zarr"]


@pytest.mark.parametrize("hook", HOOKS)
def test_half_of_projected_rows_is_removed_unless_somebody_works_on_it(hook, told, tmp_path):
    run, names = flow_run(destination=str(tmp_path)), ["pca.parquet", "pca.zarr"]
    for name in names:
        (tmp_path / name).mkdir()
    hook(SimpleNamespace(name="transform"), run, None)  # no lease: it is no half of a transform
    with held(str(tmp_path)):
        hook(SimpleNamespace(name="transform"), run, None)
    assert names_in(str(tmp_path)) == names and told == []
    (tmp_path / "lease-000001.json").write_text('{"dead": 1}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmpca_dist.runs.lease.EXPIRY_SECONDS", 0.1)
        hook(SimpleNamespace(name="transform"), run, None)
    assert not tmp_path.exists()
    assert told == [f"Removed pca.parquet, pca.zarr from {tmp_path}, half-written; the same parameters begin anew."]

"""A hook removes what its own flow run has left, and nothing of another that may live."""

import json
import logging
from types import SimpleNamespace
from uuid import uuid4

import pytest
from helpers.ingested import ingest
from prefect.states import Cancelled, Crashed

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.destination import Destination, Writing
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.stores.lease import held
from mmpca_dist.stores.storage import names_in
from mmpca_pipelines import flows
from mmpca_pipelines.entrypoints import ingest_flow

ENDS = (Cancelled(), Crashed())


@pytest.fixture
def told(monkeypatch):
    """What hooks log; no server is asked for other runs."""
    logger, found = logging.Logger("hooks"), []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logger.addHandler(handler)
    monkeypatch.setattr(flows, "flow_run_logger", lambda *_: logger)
    return found


def flow_run(**config):
    return SimpleNamespace(id=uuid4(), parameters={"config": config})


class Killed(BaseException):
    """What ends an ingest as kill -9 does: nothing is tidied."""


@pytest.fixture
def dying(monkeypatch, tmp_path, limits):
    """Let ingests die at the last moment; return the settings of one."""

    def die(*_):
        monkeypatch.setattr(Destination, "_tidy", lambda _: None)
        monkeypatch.setattr(Writing, "complete", complete)
        raise Killed

    complete, tidy = Writing.complete, Destination._tidy
    monkeypatch.setattr(Writing, "complete", die)
    (tmp_path / "a.csv").write_text("x,y\n1.5,a\n2.5,b\n")
    settings = {"source": str(tmp_path / "a.csv"), "destination": str(tmp_path / "a.zarr"), "label": "y"}

    def leave():
        with pytest.raises(Killed):
            ingest(**settings)
        monkeypatch.setattr(Destination, "_tidy", tidy)
        assert names_in(str(tmp_path)) == ["a.csv", "a.zarr.partial"]
        (tmp_path / "a.zarr.partial/lease-000001.json").write_text('{"dead": 1}')

    limits.lease_beat, limits.lease_expiry = 0.05, 0.1
    return leave


@pytest.mark.parametrize("end", ENDS)
def test_a_half_written_table_is_removed_unless_somebody_works_on_it(end, told, dying, tmp_path):
    dying()
    (tmp_path / "b.zarr.partial").mkdir()
    (tmp_path / "b.zarr.partial" / "letter.txt").write_text("keep me")
    kept = ["a.csv", "b.zarr.partial"]
    run = flow_run(destination=str(tmp_path / "a.zarr"))
    with held(str(tmp_path / "a.zarr.partial")):
        flows.on_broken_off(SimpleNamespace(name="ingest"), run, end)
        assert names_in(str(tmp_path)) == ["a.csv", "a.zarr.partial", "b.zarr.partial"] and not told
    (tmp_path / "a.zarr.partial/lease-000001.json").write_text('{"dead": 1}')
    flows.on_broken_off(SimpleNamespace(name="ingest"), run, end)
    assert names_in(str(tmp_path)) == kept
    assert told == [f"Removed what was half-written for {tmp_path}/a.zarr; what was there before is there."]
    for destination in (f"{tmp_path}/a.zarr", f"{tmp_path}/b.zarr", "memory://bucket/a.zarr"):
        flows.on_broken_off(SimpleNamespace(name="ingest"), flow_run(destination=destination), end)
    assert names_in(str(tmp_path)) == kept and len(told) == 1
    assert (tmp_path / "b.zarr.partial" / "letter.txt").exists()


@pytest.mark.e2e
def test_the_hook_finds_what_the_flow_has_written(prefect_server, tmp_path, monkeypatch):
    def refuse(*_):
        monkeypatch.setattr(Destination, "_tidy", lambda _: None)
        raise InputError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Writing, "complete", refuse)
        config = IngestConfig(source="bundled:iris", destination=str(tmp_path / "a.zarr"))
        state = ingest_flow(config, return_state=True)
    monkeypatch.undo()
    assert (state.name, state.message) == ("Refused", "killed")
    assert names_in(str(tmp_path)) == ["a.zarr.partial"]
    monkeypatch.setattr(flows, "flow_run_logger", lambda *_: logging.getLogger("hooks"))
    flows.on_broken_off(SimpleNamespace(name="ingest"), flow_run(destination=config.destination), Crashed())
    assert names_in(str(tmp_path)) == []


def test_a_cancelled_evaluation_keeps_what_its_retry_goes_on_from(told, tmp_path):
    folder = tmp_path / "evaluation"
    for name in ("scratch/score/cells", "splits", "records"):
        (folder / name).mkdir(parents=True)
    (folder / "scratch/score/cells/rows").write_bytes(b"x" * 1000)
    (folder / "splits/00000.json").write_text("{}")
    (folder / "run.json").write_text(
        json.dumps({"key": "k", "config": {}, "fingerprint": "f", "purpose": "evaluation"})
    )
    evaluate, run = SimpleNamespace(name="evaluate"), flow_run(output=str(tmp_path))
    for end in ENDS:
        flows.on_broken_off(evaluate, run, end)
        assert (folder / "scratch/score/cells/rows").exists() and (folder / "splits/00000.json").exists()
        assert f"it goes on in {folder}." in told[-1] and told[-1].endswith(f"mmpca clean {folder}")
    flows.on_broken_off(evaluate, flow_run(output=str(tmp_path / "none")), Cancelled())
    assert not (tmp_path / "none").exists() and len(told) == 2

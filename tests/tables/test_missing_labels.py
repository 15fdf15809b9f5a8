"""Chunks of labels that are not stored: terminal, report and records tell them, or they are refused."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.ingested import ingest
from helpers.runs import Recorder, refreshed, through
from helpers.tables import config_of, write_config, write_zarr

from mmpca_dist import class_moments, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.stores import storage
from mmpca_dist.tables.labels import notes_on_missing

N, CHUNK = 100, 10
X = np.random.default_rng(0).standard_normal((N, 4))
Y = np.arange(N) % 3
LOST = (slice(30, 40), slice(70, 80), slice(80, 90))
ROWS = "lacks label chunks of 30 rows of 'y' (rows 30 to 39, 70 to 89)"
COUNTS = np.bincount(np.concatenate([np.delete(Y, np.r_[LOST]), np.zeros(30, int)])).tolist()


def stored(uri, labels=Y, name="y", lost=LOST):
    """Write a table of which some chunks of labels are gone; by way of a local folder, as Zarr needs more for S3."""
    if not storage.is_local(uri):
        with TemporaryDirectory() as local:
            stored(local, labels, name, lost)
            for path in filter(Path.is_file, Path(local).rglob("*")):
                storage.write_bytes(storage.join(uri, str(path.relative_to(local))), path.read_bytes())
        return uri
    columns = {"y": Y, name: labels}
    write_zarr(uri, X, None, CHUNK, everywhere=True, beside=columns, config={"write_empty_chunks": True})
    for rows in lost:
        storage.remove(storage.join(uri, name, "c", str(rows.start // CHUNK)))
    return uri


@pytest.mark.e2e
def test_a_run_tells_rows_and_class(folder, tmp_path):
    uri, recorder = stored(f"{folder}/t.zarr"), Recorder()
    config = config_of(tmp_path / "run", uri)
    results = run(config, [recorder])
    (note,) = [note for note in recorder.notes if "label chunks" in note]
    assert f"{uri}/y {ROWS}: they are read as class 0, the fill value." in note
    assert "dataset.missing_chunks: refuse" in note
    assert results["count"]["counts"] == COUNTS
    assert results["count"]["notes"] == RunDirectory(config.output).record(COUNT)["notes"] == [note]
    assert results["report"]["notes"][0] == note
    assert ROWS.replace("'", "&#39;") in Path(config.output, "report", "index.html").read_text()
    assert run(config, [again := Recorder()])["report"]["notes"][0] == note
    assert again.ended["count"] is True


@pytest.mark.usefixtures("no_report")
def test_the_terminal_tells_them(tmp_path):
    from mmpca_pipelines.cli import cli

    uri = stored(str(tmp_path / "t.zarr"))
    config = write_config(tmp_path / "run.yaml", tmp_path / "run", uri)
    for command in (["run", config, "--no-prefect"], ["show", str(tmp_path / "run")]):
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert ROWS in " ".join(result.output.split())


def test_an_evaluation_tells_them(tmp_path):
    uri, recorder = stored(str(tmp_path / "t.zarr")), Recorder()
    evaluation = {"splits": "folds", "folds": 2, "classifiers": "lda", "margins": False}
    config = config_of(tmp_path / "run", uri, evaluation=evaluation)
    evaluate(config, [recorder])
    assert any(ROWS in note for note in recorder.notes)
    assert ROWS in result_in(f"{config.output}/evaluation").notes[0]


def test_an_evaluation_tells_rows_without_parts(tmp_path):
    uri = stored(str(tmp_path / "t.zarr"), np.arange(N) // CHUNK % 2, "part", [LOST[0]])
    evaluation = {"splits": "given", "column": "part", "classifiers": "lda", "margins": False}
    config = config_of(tmp_path / "run", uri, evaluation=evaluation)
    evaluate(config)
    (note,) = result_in(f"{config.output}/evaluation").notes
    assert "lacks label chunks of 10 rows of 'part' (rows 30 to 39): they are read as part 0" in note


@pytest.mark.parametrize("work", [run, pytest.param(evaluate, marks=pytest.mark.e2e)])
def test_what_is_to_be_refused_is(work, folder, tmp_path):
    uri = stored(f"{folder}/t.zarr")
    with pytest.raises(InputError, match=r"lacks 3 of the chunks of 'y', the first one \(3,\): labels 30 to 39"):
        work(config_of(tmp_path / "run", uri, dataset={"missing_chunks": "refuse"}))
    assert not (tmp_path / "run").exists()


@pytest.mark.e2e
def test_a_stored_configuration_asks_for_what_it_asked_for(tmp_path):
    """A default that is written down must not come back as a wish."""
    config = config_of(tmp_path / "run", stored(str(tmp_path / "t.zarr")))
    run(config)
    assert RunDirectory(config.output).config.dataset.missing_chunks is None
    notes = Recorder()
    through(config.output, stored(str(tmp_path / "new.zarr")), tmp_path / "to", notes)
    assert any(ROWS in note for note in notes.notes)
    assert ROWS in (tmp_path / "to" / "events.jsonl").read_text()


@pytest.mark.e2e
def test_a_refreshed_run_keeps_what_is_known_of_every_part(tmp_path):
    config = config_of(tmp_path / "run", stored(str(tmp_path / "t.zarr")))
    run(config)
    new = stored(str(tmp_path / "new.zarr"), lost=LOST[:1])
    result = refreshed(config.output, new, tmp_path / "live")
    first, second = RunDirectory(result["folder"]).record(COUNT)["notes"]
    assert ROWS in first and "(rows 30 to 39)" in second and new in second
    report = Path(result["report"]).read_text()
    assert ", 70 to 89)" in report and "(rows 30 to 39)" in report


@pytest.mark.e2e
def test_an_ingest_refuses_unless_told(folder, tmp_path):
    uri, to, notes = stored(f"{folder}/t.zarr"), str(tmp_path / "to.zarr"), []
    with pytest.raises(InputError, match=r"labels 30 to 39. Restore it, or set --missing-chunks fill to take"):
        ingest(uri, to)
    assert not Path(to).exists()
    manifest = ingest(uri, to, missing_chunks="fill", note=notes.append)
    assert list(manifest["class_rows"].values()) == COUNTS
    assert notes == [note for note in notes if f"{ROWS}: they are read as class 0" in note] != []


def test_an_ingest_refuses_a_column_that_it_keeps(tmp_path):
    uri, notes = stored(str(tmp_path / "t.zarr"), np.arange(N) % 2, "part", [LOST[0]]), []
    with pytest.raises(InputError, match=r"'part', the first one .* --missing-chunks fill"):
        ingest(uri, str(tmp_path / "to.zarr"), keep=["part"])
    ingest(uri, str(tmp_path / "to.zarr"), keep=["part"], missing_chunks="fill", note=notes.append)
    assert any("10 rows of 'part' (rows 30 to 39): they are read as name 0" in note for note in notes)


def test_estimators_warn(tmp_path, caplog):
    uri = stored(str(tmp_path / "t.zarr"))
    class_moments(open_dataset(uri))
    assert ROWS in caplog.text
    with pytest.raises(InputError, match="lacks 3 of the chunks of 'y'"):
        open_dataset(uri, missing_chunks="refuse")


def test_labels_that_are_true_or_false_and_few_of_many_stretches(tmp_path):
    lost = [slice(at, at + 10) for at in range(10, 100, 20)]
    (note,) = notes_on_missing(open_dataset(stored(str(tmp_path / "t.zarr"), Y == 1, lost=lost)).label_column)
    assert "50 rows of 'y' (rows 10 to 19, 30 to 39, 50 to 59, ...): they are read as class False" in note

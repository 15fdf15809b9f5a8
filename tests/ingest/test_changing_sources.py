"""What changes while it is read is refused: no mixture of two versions is ingested or converted."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from helpers.ingested import ingest
from helpers.tables import config_of

from mmpca_dist import evaluate, run
from mmpca_dist.errors import InputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.transform import TransformConfig, transform

N = 3000
CHANGED = "changed while it was read"


def table(value):
    """Return rows whose numbers all have as many digits, so that two versions have one size."""
    frame = pd.DataFrame(np.full((N, 4), value), columns=list("abcd"))
    frame["label"] = np.arange(N) % 2
    return frame


def write(path, value):
    frame = table(value)
    if path.suffix == ".libsvm":
        lines = [f"{row.label:.0f} 1:{row.a} 2:{row.b} 3:{row.c} 4:{row.d}\n" for row in frame.itertuples()]
        path.write_text("".join(lines))
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=500)
    elif path.suffix == ".zarr":
        group = zarr.open_group(path, mode="w")
        group.create_array("X", data=frame[list("abcd")].to_numpy(), chunks=(500, 4))
        group.create_array("y", data=frame["label"].to_numpy())
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture
def small_blocks(limits):
    limits.text_block_bytes, limits.unit_bytes, limits.band_bytes = 8192, 500 * 4 * 8, 500 * 4 * 8


class Once:
    """A callback of progress that does something at its first call."""

    def __init__(self, act):
        self.act = act

    def __call__(self, *_):
        act, self.act = self.act, lambda: None
        act()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.libsvm", "t.parquet", "t.zarr"])
def test_a_table_rewritten_in_place_is_refused_and_nothing_is_left(name, small_blocks, tmp_path):
    source = write(tmp_path / name, 1.25)
    destination = tmp_path / "out.zarr"
    with pytest.raises(InputError, match=CHANGED):
        ingest(str(source), str(destination), progress=Once(lambda: write(source, 7.75)))
    assert not destination.exists() and not (tmp_path / "out.zarr.partial").exists()
    ingest(str(source), str(destination))
    assert set(np.unique(zarr.open_group(destination)["X"][:])) == {7.75}


@pytest.mark.parametrize("change", [
    lambda path: path.write_text(path.read_text() + "1.25,1.25,1.25,1.25,1\n"),
    lambda path: path.write_text(path.read_text()[:2000]),
    lambda path: write(path.with_name("new.csv"), 7.75).replace(path),
    lambda path: os.utime(path, (1, 1)),
    lambda path: path.unlink(),
], ids=["longer", "shorter", "another in its place", "touched", "removed"])  # fmt: skip
def test_csv_into_parquet_is_refused_where_the_file_changes(change, small_blocks, tmp_path):
    source, destination = write(tmp_path / "t.csv", 1.25), tmp_path / "out.parquet"
    with pytest.raises(InputError, match=f"{CHANGED}|it does not exist"):
        ingest(str(source), str(destination), progress=Once(lambda: change(source)))
    assert not destination.exists()


class Rewriting(Callback):
    """Rewrites a file as soon as a part of it has been converted."""

    def __init__(self, source):
        self.once = Once(lambda: write(source, 7.75))

    def on_progress(self, stage, done, total):
        if stage == "convert":
            self.once()


@pytest.mark.parametrize("work", ["run", "evaluate", "transform"])
@pytest.mark.parametrize("name", ["t.csv", "t.libsvm"])
def test_text_that_changes_as_it_is_converted_ends_what_reads_it(work, name, small_blocks, tmp_path, no_report):
    source = write(tmp_path / name, 1.25)
    settings = config_of(tmp_path / "out", str(source), methods=["pca"], n_components=[1])
    with pytest.raises(InputError, match=f"{name} {CHANGED}"):
        if work == "transform":
            run(config_of(tmp_path / "fit", "synthetic:gaussian?n=100&d=4", methods=["pca"], n_components=[1]))
            request = TransformConfig(
                output=str(tmp_path / "fit"), dataset=str(source), destination=str(tmp_path / "o")
            )
            transform(request, [Rewriting(source)])
        else:
            {"run": run, "evaluate": evaluate}[work](settings, callbacks=[Rewriting(source)])
    assert not list(Path(tmp_path, "converted").rglob("source.json"))


def test_other_files_beside_a_table_may_change(small_blocks, tmp_path):
    source = write(tmp_path / "t.csv", 1.25)
    done = ingest(str(source), str(tmp_path / "out.zarr"), progress=Once(lambda: write(tmp_path / "u.csv", 7.75)))
    assert done["rows"] == N

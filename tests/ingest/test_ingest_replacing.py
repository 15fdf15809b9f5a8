"""What an ingest may replace, and where it and other commands refuse to write."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from helpers.ingested import check_ingest, ingest
from helpers.runs import refreshed, through
from helpers.stored_objects import objects, settings

from mmpca_dist import run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.runs.refresh import RefreshConfig, check_refresh
from mmpca_dist.runs.transform import TransformConfig, check_transform
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.lease import held
from mmpca_dist.stores.overlaps import canonical, lies_within
from mmpca_dist.tables.compose import open_dataset
from mmpca_dist.tables.readers.zarr_groups import TABLE
from mmpca_pipelines.cli import cli


def spellings(place):
    """Return other addresses of a place."""
    if storage.is_local(place):
        link, around = Path(f"{place}-link"), Path(f"{place}-around")
        link.symlink_to(place)
        around.symlink_to(Path(place).parent)
        return [
            f"{place}/",
            f"file://{place}",
            f"FILE://{place}//",
            os.path.relpath(place),
            f"{place}/X/..",
            f"{Path(place).parent}//./{Path(place).name}",
            str(link),
            f"{around}/{Path(place).name}",
        ]
    protocol, _, path = place.partition("://")
    found = [f"{place}/", f"{protocol.upper()}://{path}", f"{protocol}://{path.replace('/', '//')}//"]
    return [*found, f"s3a://{path}", f"S3A://{path}/"] if protocol == "s3" else found


def test_a_group_is_never_written_onto_itself_however_it_is_spelled(folder):
    place = f"{folder}/a.zarr"
    ingest("bundled:iris", place)
    before = objects(folder)
    for other in spellings(place):
        for source, destination in ((place, other), (other, place)):
            for refuse in (ingest, check_ingest):
                with pytest.raises(InputError, match=r"cannot be written onto itself|obstore cannot reach"):
                    refuse(source, destination, overwrite="any")
    if not storage.is_local(place):
        assert objects(folder) == before
    assert open_dataset(place).n_rows == 150


@pytest.mark.e2e
def test_a_table_is_not_written_into_its_source_nor_around_it(folder):
    place, inner = f"{folder}/a.zarr", f"{folder}/a.zarr/deep/raw.csv"
    ingest("bundled:iris", place)
    storage.write_bytes(inner, b"a,label\n1,x\n2,y\n")
    before = objects(folder)
    for source, destination in ((place, f"{place}/b.zarr"), (inner, place), (f"{folder}/a.zarr/../a.zarr/X", place)):
        with pytest.raises(InputError, match=r"lies inside|Write the address without"):
            ingest(source, destination, overwrite="any")
    assert objects(folder) == before


def test_labels_and_what_is_put_back_are_sources_too(tmp_path):
    ingest("bundled:iris", tmp_path / "a.zarr")
    np.save(tmp_path / "rows.npy", np.ones((4, 2)))
    np.save(tmp_path / "a.zarr" / "labels.npy", np.arange(4) % 2)
    with pytest.raises(InputError, match="lies inside"):
        ingest(tmp_path / "rows.npy", tmp_path / "a.zarr", label=str(tmp_path / "a.zarr/labels.npy"), overwrite=True)
    with pytest.raises(InputError, match="lies inside"):
        ingest(tmp_path / "b.zarr.partial/old", tmp_path / "b.zarr")
    assert open_dataset(tmp_path / "a.zarr").n_rows == 150


def test_places_that_only_look_alike_are_different(tmp_path):
    for name in ("a", "ab", "a.b"):
        (tmp_path / name).mkdir()
    assert not lies_within(tmp_path / "ab", tmp_path / "a") and not lies_within(tmp_path / "a.b", tmp_path / "a")
    assert not lies_within("memory://x/ab", "memory://x/a") and lies_within("memory://x/a/b", "memory://x/a")
    assert canonical("memory://x//a/") == canonical("MEMORY://x/a")
    assert canonical("gs://x/a/") == canonical("GCS://x/a") != canonical("s3://x/a")
    assert canonical("abfss://x@me.dfs.core.windows.net/a") == canonical("az://x@me.blob.core.windows.net/a")
    assert canonical("az://x@me.dfs.core/a") != canonical("az://x@you.dfs.core/a")
    assert not lies_within(tmp_path, tmp_path / "a") and lies_within(tmp_path / "a", tmp_path)


@pytest.mark.parametrize("folder", ["local", "memory", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
def test_only_completed_groups_are_replaced_unless_any_may_be(folder):
    """A group of another program has no attribute ``complete``; a folder that is no group is never replaced."""
    ours, foreign, other = (f"{folder}/{name}" for name in ("ours", "foreign", "other"))
    ingest("bundled:iris", ours)
    group = zarr_stores.open_group(foreign, "w")
    group.create_array("X", data=np.ones((3, 2)))
    group.attrs["complete"] = "yes"
    storage.write_bytes(f"{other}/letter.txt", b"keep me")
    before = objects(folder)
    for overwrite, place, message in (
        (False, ours, r"Zarr group at .*ours already.* --overwrite \("),
        (False, foreign, r"Zarr group at .*foreign already.* --overwrite-any"),
        (True, foreign, r"no ingest has completed.* --overwrite-any"),
        (False, other, r"something at .*other already: choose another destination\.$"),
        (True, other, "not a Zarr group, so it is not overwritten"),
        ("any", other, "not a Zarr group, so it is not overwritten"),
    ):
        for refuse in (ingest, check_ingest):
            with pytest.raises(OutputError, match=message):
                refuse("bundled:wine", place, overwrite=overwrite)
    assert objects(folder) == before
    ingest("bundled:wine", ours, overwrite=True)
    ingest("bundled:wine", foreign, overwrite="any")
    assert [open_dataset(place).n_rows for place in (ours, foreign)] == [178, 178]
    assert storage.names_in(folder) == ["foreign", "other", "ours"]


@pytest.mark.e2e
def test_the_command_line_names_and_takes_overwrite_any(tmp_path, prefect_server):
    zarr.create_group(tmp_path / "a.zarr")
    command = ["ingest", "bundled:iris", str(tmp_path / "a.zarr")]
    refused = CliRunner().invoke(cli, [*command, "--overwrite"])
    assert isinstance(refused.exception, OutputError) and "--overwrite-any" in str(refused.exception)
    done = CliRunner().invoke(cli, [*command, "--overwrite-any"])
    assert done.exit_code == 0, done.output
    assert open_dataset(tmp_path / "a.zarr").n_rows == 150


@pytest.mark.parametrize("exists", [True, False], ids=["replaced", "new"])
def test_a_symbolic_link_is_followed_and_stays(tmp_path, exists):
    (tmp_path / "disk").mkdir()
    if exists:
        ingest("bundled:iris", tmp_path / "disk/real.zarr")
    (tmp_path / "a.zarr").symlink_to("disk/real.zarr")
    ingest("bundled:wine", tmp_path / "a.zarr", overwrite=exists)
    assert (tmp_path / "a.zarr").is_symlink()
    assert open_dataset(tmp_path / "disk/real.zarr").n_rows == 178
    assert storage.names_in(str(tmp_path)) == ["a.zarr", "disk"] and storage.names_in(str(tmp_path / "disk")) == [
        "real.zarr"
    ]


@pytest.mark.e2e
def test_a_second_ingest_to_one_place_is_refused(folder):
    place = f"{folder}/a.zarr"

    def second(*_):
        for refuse in (ingest, check_ingest):
            with pytest.raises(OutputError, match=r"a\.zarr\.partial is in use by process"):
                refuse("bundled:wine", place)

    ingest("bundled:iris", place, progress=second)
    assert open_dataset(place).n_rows == 150
    assert storage.names_in(folder) == ["a.zarr"]


@pytest.mark.parametrize("token", ["../other", "X", 7, ["0" * 32]])
def test_a_table_elsewhere_is_not_followed(tmp_path, token):
    zarr.create_group(tmp_path / "a.zarr", attributes={"complete": True, TABLE: token})
    with pytest.raises(InputError, match="is damaged"):
        open_dataset(tmp_path / "a.zarr")


@pytest.mark.e2e
def test_a_reader_that_has_opened_the_old_table_never_reads_the_new_one(bucket):
    """Rows of the same shape: chunks of the one would pass for chunks of the other."""
    place = f"{bucket}/a.zarr"
    for seed in (1, 2):
        ingest(f"synthetic:gaussian?n=64&d=4&seed={seed}", place, overwrite=seed > 1)
    reader = open_dataset(place)
    rows = reader.read_rows(0, 64)
    ingest("synthetic:gaussian?n=64&d=4&seed=3", place, overwrite=True)
    assert np.isnan(reader.read_rows(0, 64)).all()
    assert not np.array_equal(open_dataset(place).read_rows(0, 64), rows)
    assert open_dataset(place).uri == place
    # Plain Zarr reads it as well.
    group = zarr_stores.open_group(place)
    np.testing.assert_array_equal(group[group.attrs[TABLE]]["X"][:], open_dataset(place).read_rows(0, 64))


@pytest.mark.parametrize("folder", ["local", "memory", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.usefixtures("no_report")
@pytest.mark.e2e
def test_no_command_writes_inside_a_run_or_a_data_set(folder):
    """Be it that of the command itself or another's."""
    mine, data, new = f"{folder}/mine", f"{folder}/data.zarr", f"{folder}/new"
    run(settings(mine))
    ingest("bundled:iris", data)
    through(mine, data, new)
    before = objects(folder)
    places = (f"{mine}/x", f"{mine}/model/x", f"{data}/x", f"{data}/X/x", f"{new}/x", f"{mine}/projected/x/y")
    for place in places[::3] if folder.startswith("s3:") else places:  # object stores answer slowly
        for refuse in (
            lambda place: ingest("bundled:wine", place),
            lambda place: check_ingest("bundled:wine", place),
            lambda place: through(mine, data, place),
            lambda place: check_transform(TransformConfig(output=mine, dataset=data, destination=place)),
            lambda place: run(settings(place)),
            lambda place: refreshed(mine, data, place),
            lambda place: check_refresh(RefreshConfig(run=mine, new=data, output=place)),
        ):
            with pytest.raises(OutputError, match=r"lies inside .*, which is (a|the|read)"):
                refuse(place)
    assert objects(folder) == before


@pytest.mark.usefixtures("no_report")
@pytest.mark.e2e
def test_json_of_other_programs_makes_no_run(tmp_path):
    for name in ("run.json", "zarr.json"):
        (tmp_path / name).write_text(json.dumps({"scripts": {}}))
    run(settings(str(tmp_path / "mine")))
    ingest("bundled:iris", tmp_path / "a.zarr")


def test_a_live_ingest_is_not_cleaned(tmp_path):
    from mmpca_dist.runs.listing import clean

    place = tmp_path / "a.zarr"

    def look(*_):
        (found,) = clean(str(tmp_path))
        assert "left alone" in str(found)

    ingest("bundled:iris", place, progress=look)
    with pytest.raises(InputError, match="no run in"):
        clean(str(tmp_path))
    with held(str(tmp_path / "mine.partial")):
        pass
    assert storage.names_in(str(tmp_path)) == ["a.zarr"]

"""Files that only look like those of this project, or of this run: they are not read, removed or replaced."""

import errno
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from helpers.ingested import check_ingest, ingest
from helpers.runs import Recorder, through
from helpers.stored_objects import objects, settings
from helpers.tables import config_of

from mmpca_dist import load_model, load_moments, run
from mmpca_dist.errors import AccessError, DamageError, InputError, OutputError
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.listing import clean
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables.compose import open_dataset
from mmpca_dist.tables.facts import ARRAYS


def put(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")
    return path


@pytest.fixture
def finished(tmp_path, no_report):
    run(settings(str(tmp_path / "run")))
    return tmp_path / "run"


def test_files_of_similar_names_in_a_run_stay(finished):
    """Numbered folders that are no generations, hidden files that are no remains, leases that are contracts."""
    names = ["2024/scratch/a", ".a.partial", "deep/.b.partial", "lease-12.json", "lease-0000001.json", "lease-of-house"]
    mine = [put(finished / name) for name in names]
    clean(str(finished))
    run(settings(str(finished)))
    assert [path.read_text() for path in mine] == ["precious"] * len(mine)


def test_records_of_a_run_name_nothing_outside_of_it(finished, tmp_path):
    """What a damaged stage has left is deleted by the names in its record, and a run may come from a stranger."""
    mine, place, callback = put(tmp_path / "mine"), str(finished / "records" / "solve.json"), Callback()
    for key, name in itertools.product(("outputs", "objects"), ("../mine", "model/../../mine", f"{tmp_path}/mine")):
        told = []
        record = storage.read_json(place)
        record[key] = [name, *record[key]] if key == "outputs" else {name: [1, 1], **record[key]}
        storage.write_json(place, record)
        with pytest.raises(DamageError, match="is outside of the run"):
            load_model(str(finished), "m-pca0")
        callback.on_note = told.append
        run(settings(str(finished)), [callback])
        assert mine.read_text() == "precious"
        assert any("is outside of the run" in note and "'solve' is done again" in note for note in told)
        assert load_model(str(finished), "m-pca0").components_.shape == (2, 4)


def test_the_report_of_a_run_is_that_in_its_folder(finished, tmp_path):
    """Its address is published, and its pictures are; a run may have moved, or come from a stranger."""
    place = str(finished / "records" / "report.json")
    record = storage.read_json(place)
    expected = record["html"], str(finished / "report" / "spectrum.svg")
    record["html"] = str(put(tmp_path / "mine"))
    record["figures"] = [{"name": "spectrum", "svg": record["html"]}]
    storage.write_json(place, record)
    found = RunDirectory(str(finished)).record("report")
    assert (found["html"], found["figures"][0]["svg"]) == expected
    record["figures"][0]["name"] = "../../mine"
    storage.write_json(place, record)
    with pytest.raises(DamageError, match="is outside of the run"):
        RunDirectory(str(finished)).record("report")


def test_the_record_of_another_version_is_refused_in_one_sentence(finished):
    """It may lack the roles of columns, or name one that is not known here."""
    place = str(finished / "records" / "count.json")
    record = storage.read_json(place)
    storage.write_json(place, {**record, "played": [["moon", "y", None, None]]})
    with pytest.raises(InputError, match="There is no role 'moon'"):
        through(finished, "bundled:iris", finished / "new")
    storage.write_json(place, {name: value for name, value in record.items() if name != "played"})
    with pytest.raises(InputError, match=r"count\.json lacks 'played': it is not of this version"):
        load_model(str(finished), "m-pca0")


def test_a_transform_replaces_no_file_beside_what_is_called_like_a_lease(finished, tmp_path):
    lease, mine = put(tmp_path / "new/lease-of-house.json"), put(tmp_path / "new/m-pca0.parquet")
    with pytest.raises(OutputError, match="holds other files"):
        through(finished, "bundled:iris", tmp_path / "new")
    assert [path.read_text() for path in (lease, mine)] == ["precious", "precious"]


@pytest.mark.parametrize("beside", [["letter"], [], ["lease-of-house"], ["X"]], ids=str)
def test_an_ingest_does_not_work_in_a_folder_of_another(tmp_path, beside):
    mine = [put(tmp_path / "a.zarr.partial" / name) for name in ("old/a", "new/b", *beside)]
    for refuse in (ingest, check_ingest):
        with pytest.raises(OutputError, match=r"a\.zarr\.partial, which holds other files"):
            refuse("bundled:iris", tmp_path / "a.zarr")
    assert [path.read_text() for path in mine] == ["precious"] * len(mine)


def test_a_journal_of_another_program_is_none(tmp_path):
    """Its folder may hold what is called as in that of an ingest."""
    work = tmp_path / "a.zarr.partial"
    mine = [put(work / name) for name in ("old/a", "new/b")]
    (work / "ingest.json").write_text('{"job": 7}')
    with pytest.raises(DamageError, match="written by another program"):
        ingest("bundled:iris", tmp_path / "a.zarr")
    (cleaned,) = clean(str(tmp_path))
    assert "left alone" in str(cleaned)
    assert [path.read_text() for path in mine] == ["precious"] * 2


def test_a_run_that_a_numbered_link_leads_to_keeps_its_scratch(finished, tmp_path):
    """It has a lease of its own."""
    run(settings(str(tmp_path / "other")))
    mine = put(tmp_path / "other/scratch/a")
    (finished / "000001").symlink_to(tmp_path / "other")
    clean(str(finished))
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("kind", ["local", pytest.param("s3", marks=pytest.mark.slow)])
def test_overwrite_leaves_a_group_alone_that_others_have_added_to(request, tmp_path, kind):
    folder = str(tmp_path) if kind == "local" else request.getfixturevalue("bucket")
    for number, inner in enumerate(("notes.txt", "embedding/zarr.json")):
        place = f"{folder}/{number}.zarr"
        ingest("bundled:iris", place)
        ingest("bundled:iris", place, overwrite=True)
        table = open_dataset(place).stored.table
        for where in dict.fromkeys((place, table)):
            storage.write_bytes(f"{where}/{inner}", b"precious")
            for refuse in (ingest, check_ingest):
                with pytest.raises(OutputError, match=rf"holds '{inner.partition('/')[0]}', .* --overwrite-any"):
                    refuse("bundled:wine", place, overwrite=True)
            assert storage.read_bytes(f"{where}/{inner}") == b"precious"
            storage.remove(f"{where}/{inner.partition('/')[0]}")
        ingest("bundled:wine", place, overwrite=True)
        storage.write_bytes(f"{place}/{inner}", b"precious")
        ingest("bundled:wine", place, overwrite="any")
        assert open_dataset(place).n_rows == 178


def test_columns_that_an_ingest_kept_are_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("a,who,label\n1,x,p\n2,y,q\n")
    for overwrite in (False, True):
        ingest(tmp_path / "a.csv", tmp_path / "a.zarr", keep=["who"], overwrite=overwrite)
    assert zarr.open_group(tmp_path / "a.zarr").attrs[ARRAYS] == ["X", "y", "who"]
    zarr.open_group(tmp_path / "a.zarr").attrs.update({ARRAYS: 7})  # damaged, or another's
    with pytest.raises(OutputError, match="holds 'X'"):
        ingest("bundled:iris", tmp_path / "a.zarr", overwrite=True)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.e2e
def test_a_group_that_was_stored_where_an_ingest_was_killed_stays(bucket, version):
    """On an object store a first ingest writes in place, under the names that another program may use then."""
    place = f"{bucket}/a.zarr"
    Destination.of(place)._begin(["X", "y"])
    group = zarr.open_group(zarr_stores.zarr_location(place), mode="w", zarr_format=version)
    group.create_array("X", data=np.ones((20, 3)))
    group.create_array("y", data=np.arange(20) % 2)
    before = objects(place)
    clean(bucket)
    assert objects(place) == before and storage.names_in(bucket) == ["a.zarr"]


@pytest.mark.parametrize("address", ["s3://", "memory://", "S3:///", "~nobody-of-this-name/x"])
def test_addresses_of_nothing_are_refused(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"names no bucket|who is unknown"):
        storage.normalize(address)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_replaced_is_said_to_be_so(tmp_path, monkeypatch):
    ingest("bundled:iris", tmp_path / "a.zarr")

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(AccessError, match=r"Cannot write .*a\.zarr: permission denied"):
        ingest("bundled:wine", tmp_path / "a.zarr", overwrite=True)
    assert open_dataset(tmp_path / "a.zarr").n_rows == 150 and storage.names_in(str(tmp_path)) == ["a.zarr"]


def test_clean_passes_over_what_it_cannot_write_to(finished, tmp_path, monkeypatch):
    for name in ("other", "run"):
        run(settings(str(tmp_path / name)))
        put(tmp_path / name / "scratch/a")
    write = storage.write_bytes

    def create(uri, data):
        if uri.startswith(str(tmp_path / "other")):
            raise AccessError(f"Cannot write {uri}: permission denied.")
        write(uri, data)
        return True

    monkeypatch.setattr(storage, "create_bytes", create)
    left = {Path(one.uri).name: str(one) for one in clean(str(tmp_path))}
    assert "left alone: Cannot write" in left["other"] and (tmp_path / "other/scratch/a").exists()
    assert "what is finished stays" in left["run"] and not (tmp_path / "run/scratch").exists()


def test_a_working_directory_that_was_removed_is_said_to_be_so(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="working directory, which was removed"):
        storage.normalize("x")


METHODS = {"methods": ["pca", "m-pca0"]}
SHARES = {"evaluation": {"splits": "shares", "count": 4, "margins": False, "classifiers": ["naive-bayes"]}}
pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def two_runs(tmp_path):
    """Return the folders of two runs over rows of one shape."""
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(1).normal(size=(150, 4)), y=np.arange(150) % 3)
    for name, uri in (("mine", "bundled:iris"), ("other", str(tmp_path / "rows.npz"))):
        run(settings(str(tmp_path / name), dataset={"uri": uri}, **METHODS))
    return tmp_path / "mine", tmp_path / "other"


CHUNKS = [
    ("solve", "mine/model/m-pca0.zarr/components_/c/0/0", "model/pca.zarr/components_/c/0/0"),
    ("solve", "other/model/pca.zarr/eigenvalues_/c/0", "model/pca.zarr/eigenvalues_/c/0"),
    ("solve", "other/model/pca.zarr", "model/pca.zarr"),
    ("reduce", "mine/statistics.zarr/moments.scatters/c/1/0/0", "statistics.zarr/moments.scatters/c/0/0/0"),
    ("reduce", "other/statistics.zarr/moments.means/c/0/0", "statistics.zarr/moments.means/c/0/0"),
]


def test_chunks_of_other_arrays_are_found_and_made_again(two_runs):
    mine, _ = two_runs
    components, means = load_model(str(mine), "pca").components_, load_moments(str(mine)).means
    for stage, source, target in CHUNKS:
        if (mine.parent / source).is_dir():
            shutil.rmtree(mine / target)
            shutil.copytree(mine.parent / source, mine / target)
        else:
            shutil.copy(mine.parent / source, mine / target)
        with pytest.raises(
            DamageError, match=r"its values are not those|its checksum does not match|where [0-9]+ were written"
        ):
            load_model(str(mine), "pca") if stage == "solve" else load_moments(str(mine))
        redone = Recorder()
        run(settings(str(mine), **METHODS), [redone])
        assert {stage for stage, reused in redone.ended.items() if not reused} == {"plan", stage}
        np.testing.assert_array_equal(load_model(str(mine), "pca").components_, components)
        np.testing.assert_array_equal(load_moments(str(mine)).means, means)


def test_records_of_another_run_are_not_taken_for_those_of_this(two_runs):
    mine, other = two_runs
    for name in ("model", "statistics.zarr", "records"):
        shutil.rmtree(mine / name)
        shutil.copytree(other / name, mine / name)
    for load in (lambda place: load_model(place, "pca"), load_moments):
        with pytest.raises(DamageError, match=r"records/\w+\.json is of another run than"):
            load(str(mine))
    run(settings(str(mine), **METHODS))
    assert len(load_moments(str(mine)).counts) == 3


def test_splits_that_were_exchanged_are_evaluated_again(tmp_path):
    """Each split counts once, be the evaluation at its end or on its way."""
    settings = config_of(tmp_path / "run", "bundled:iris", **SHARES)
    expected = evaluate(settings)["compare"]["verdict"]
    folder = tmp_path / "run/evaluation"
    for left in ({"compare"}, {"compare", "score"}):
        shutil.copy(folder / "splits/00001.json", folder / "splits/00002.json")
        for stage in left:
            (folder / f"records/{stage}.json").unlink()
        redone = Recorder()
        assert evaluate(settings, [redone])["compare"]["verdict"] == expected
        assert {stage for stage, reused in redone.ended.items() if not reused} == {"plan", "compare", "score"}
        assert '"split": 2' in (folder / "splits/00002.json").read_text()

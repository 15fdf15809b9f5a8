"""Damage to what a run has stored is named, or mended by the same command; it is never read as data.

Every file of a small finished run is cut, emptied, removed, replaced by a folder, and has bytes flipped.
"""

import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.refreshing import no_pictures
from helpers.resuming import results_hash
from helpers.runs import Recorder, model_hash, refreshed, through
from helpers.tables import make_config

from mmpca_dist import load_model, load_moments, open_dataset, run
from mmpca_dist.errors import DamageError, MmpcaError
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.listing import clean, find_runs
from mmpca_dist.stores import storage
from mmpca_dist.stores.storage import from_json

METHODS = ["pca", "m-pca2"]
NEW = "synthetic:gaussian?n=40&d=3&seed=2"
WAYS = ("cut", "empty", "absent", "folder")


def config_of(output):
    uri = "synthetic:gaussian?n=90&d=3&seed=1"
    project = {"format": ["zarr", "parquet"]}
    return make_config(output, uri, methods=METHODS, n_components=2, project=project, compute={"workers": 1})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, a copy of it, and what commands say of it."""
    folder = tmp_path_factory.mktemp("damage")
    with pytest.MonkeyPatch.context() as patch:
        no_pictures(patch)
        run(config_of(folder / "run"))
        shutil.copytree(folder / "run", folder / "copy")
        found = Finished(folder)
        found.expected = {name: command(found) for name, command in COMMANDS.items()}
        found.bits = results_hash(found.output)
        found.restore()
        yield found


class Finished:
    def __init__(self, folder):
        self.folder, self.output = folder, str(folder / "run")
        self.expected, self.bits = {}, ""

    def restore(self):
        shutil.rmtree(self.output, ignore_errors=True)
        shutil.copytree(self.folder / "copy", self.output)

    @property
    def files(self):
        copy = self.folder / "copy"
        return sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())


def show(found):
    result = result_in(found.output)
    return [result.lead, result.words, result.rows, result.report and (result.report["html"], result.notes)]


def models(found):
    """Return the bytes of all that a model holds."""
    loaded = [load_model(found.output, method) for method in METHODS]
    return [{name: bits(value) for name, value in vars(model).items() if name.endswith("_")} for model in loaded]


def bits(value):
    return value.tobytes() if isinstance(value, np.ndarray) and value.dtype != object else repr(value)


def moments(found):
    kept = load_moments(found.output)
    return [np.asarray(value).tobytes() for value in (kept.classes, kept.counts, kept.means, kept.scatters)]


def runs(found):
    state = next(find_runs(found.output), None)
    if state is None or state.state == "unreadable":
        raise DamageError(f"no run in {found.output}" if state is None else state.problem)
    return state.dataset, state.methods


def cleaned(found):
    (told,) = map(str, clean(found.output))
    if "Cannot read" in told:
        raise DamageError(told)
    return told


def projected(found):
    new = str(found.folder / "new")
    try:
        through(found.output, NEW, new)
        return [open_dataset(f"{new}/projected/{method}.zarr").read_rows(0, 40).tobytes() for method in METHODS]
    finally:
        shutil.rmtree(new, ignore_errors=True)


def renewed(found):
    live = str(found.folder / "live")
    try:
        result = refreshed(found.output, NEW, live)
        return model_hash(result["folder"], result["methods"])
    finally:
        shutil.rmtree(live, ignore_errors=True)


COMMANDS = {
    "show": show, "load_model": models, "load_moments": moments, "runs": runs, "clean": cleaned,
    "transform": projected, "refresh": renewed,
}  # fmt: skip
QUICK = ("show", "load_model", "load_moments", "runs", "clean")


@contextmanager
def damaged(found, file, way):
    """Damage a file in one way, or flip bits of the byte at a place."""
    path = Path(found.output, file)
    data = bytearray(path.read_bytes())
    path.unlink()
    if way == "folder":
        path.mkdir()
    elif way == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif way == "empty":
        path.write_bytes(b"")
    elif way != "absent":
        place, bits = way
        data[place] ^= bits
        path.write_bytes(data)
    try:
        yield
    finally:
        found.restore()


def assert_never_wrong(found, file, way, commands):
    """Commands say what they said before, or one sentence that names a file of the run."""
    unfinished = file.startswith("records/") and way == "absent"  # as far as anybody can tell
    for name in [name for name in commands if name != "show" or not unfinished]:
        try:
            told = COMMANDS[name](found)
        except MmpcaError as error:
            assert found.output in str(error), (file, way, name)
            continue
        assert told == found.expected[name], (file, way, name)


def assert_mended(found, file, way):
    """The same command makes what is damaged anew, bit by bit; of run.json, which says what the run is, it says so."""
    recorder = Recorder()
    try:
        run(config_of(found.output), [recorder])
    except MmpcaError as error:
        assert file == "run.json" or (file, way) == ("events.jsonl", "folder"), (file, way, str(error))
        assert found.output in str(error)
        return
    assert results_hash(found.output) == found.bits, (file, way)
    for name in QUICK:
        assert COMMANDS[name](found) == found.expected[name], (file, way, name)
    again = [stage for stage, reused in recorder.ended.items() if not reused and stage != "plan"]
    noted = [note for note in recorder.notes if "is done again" in note and "'plan'" not in note]
    assert len(again) == len(noted) or (file.startswith("records/") and way == "absent"), (file, way)


def cases(found, seed, flips):
    """Yield damage to every file in the four ways, and flips of some of its bytes."""
    rng = np.random.default_rng(seed)
    for file in found.files:
        places = rng.integers((found.folder / "copy" / file).stat().st_size, size=flips)
        for way in [*WAYS, *((int(place), 1 << int(rng.integers(8))) for place in places)]:
            yield file, way


def test_damage_is_named(finished):
    for number, (file, way) in enumerate(cases(finished, 0, 1)):
        if number % 4:  # each file in one way at least
            continue
        read = file.startswith(("model", "statistics", "records", "run.json"))
        with damaged(finished, file, way):
            assert_never_wrong(finished, file, way, COMMANDS if read and number % 11 == 0 else QUICK)


@pytest.mark.e2e
def test_damage_is_mended_by_the_same_command(finished):
    for number, (file, way) in enumerate(cases(finished, 1, 1)):
        if number % 11 == 0:
            with damaged(finished, file, way):
                assert_mended(finished, file, way)


def test_every_bit_of_a_record_is_guarded(finished):
    data = bytearray((finished.folder / "copy" / "records" / "count.json").read_bytes())
    value = from_json(bytes(data))
    for place in range(len(data)):
        for bit in range(8):
            data[place] ^= 1 << bit
            with suppress(ValueError):
                assert from_json(bytes(data)) == value, (place, bit)  # in space between words
            data[place] ^= 1 << bit


def test_metadata_is_guarded(finished):
    place = Path(finished.output, "model", "pca.zarr", "components_", "zarr.json")
    data = bytearray(place.read_bytes())
    for number in range(0, len(data), 7):
        data[number] ^= 1
        place.write_bytes(data)
        with pytest.raises(DamageError, match=r"pca.zarr/components_/zarr.json: it is damaged \(its checksum"):
            load_model(finished.output, "pca")
        data[number] ^= 1
    finished.restore()


@pytest.mark.slow
def test_objects_that_are_gone_from_a_store_are_named_and_mended(bucket):
    config = make_config(f"{bucket}/run", "bundled:iris", methods=["pca"], n_components=2)
    with pytest.MonkeyPatch.context() as patch:
        no_pictures(patch)
        run(config)
        expected = load_model(config.output, "pca").components_
        for name in ("components_/c/0/0", "components_/zarr.json", "zarr.json"):
            storage.remove(f"{config.output}/model/pca.zarr/{name}")
            with pytest.raises(DamageError, match=f"{config.output}/model/pca.zarr/{name}: it does not exist"):
                load_model(config.output, "pca")
            run(config)
            np.testing.assert_array_equal(load_model(config.output, "pca").components_, expected)


@pytest.mark.slow
def test_all_damage_is_named_or_mended(finished):
    """By every command, whatever file it is."""
    for file, way in cases(finished, 2, 3):
        with damaged(finished, file, way):
            assert_never_wrong(finished, file, way, COMMANDS)
        with damaged(finished, file, way):
            assert_mended(finished, file, way)

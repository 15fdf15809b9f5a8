"""Settings and files of strangers end in settings or in one sentence, within the allowed memory."""

import io
import json
import zipfile
from fractions import Fraction

import numpy as np
import pytest
import yaml
import zarr
from helpers import examples
from helpers.ingested import ingest
from helpers.serving import serving
from helpers.tables import COLUMNS, ROWS, change, npy, write_small
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist import errors, open_dataset
from mmpca_dist.configuration import parsing
from mmpca_dist.configuration.schema import RunConfig, load_config, parse_config
from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.errors import ConfigError, InputError, MmpcaError
from mmpca_dist.evaluation import splits
from mmpca_dist.evaluation.splits import as_fraction
from mmpca_dist.jobs.cluster import open_scheduler
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.fit import preview
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables import labels, memory_limits
from mmpca_pipelines.options import image_shape_of

FINE = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 2, "output": "out"}
MIB = 1 << 20


def test_numbers_without_bounds():
    for section, setting, words in (
        ("evaluation", {"count": 10**9}, "5,000,000,000 parts are held out, and may be 100,000"),
        ("evaluation", {"splits": "shares", "count": 10**6}, "1,000,000 parts are held out"),
        ("evaluation", {"folds": 10**9}, "parts are held out"),
        ("compute", {"workers": 10**6}, "compute.workers must be a whole number from 1 to 10000"),
        ("compute", {"threads_per_worker": 10**6}, "threads_per_worker must be a whole number from 1 to 1000"),
        ("compute", {"memory_limit": "1e30GB"}, "memory_limit: 1e30GB is more than 1 PiB"),
        ("compute", {"wait": 1e308}, "compute.wait must be a number of seconds, a week at most"),
        ("solver", {"oversampling": 10**15}, "solver.oversampling must be a whole number from 0 to 10000"),
        ("solver", {"passes": 10**15}, "solver.passes must be a whole number from 2 to 1000"),
        ("dataset", {"uri": "bundled:digits", "image_shape": [-8, -8]}, "image_shape must be two whole numbers"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_config({**FINE, section: setting}, "the form")


@pytest.mark.parametrize("share", ["1e1000000000", "1e-999999999", "1e-9_999_999_99", f"1/{'9' * 4000}"])
def test_a_share_is_never_written_out(share, monkeypatch):
    monkeypatch.setattr(splits, "Fraction", lambda number: Fraction(number) if number == 0 else pytest.fail(share))
    with pytest.raises(InputError, match="must be between 0 and 1"):
        as_fraction(share)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("array", ["X", "y"])
def test_empty_chunks(array, version, tmp_path):
    folder = write_small(tmp_path / "a.zarr", version)
    shape = [0, COLUMNS][: 2 if array == "X" else 1]
    if version == 3:
        change(folder, array, chunk=shape)
    else:
        path = folder / array / ".zarray"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chunks": shape}))
    with pytest.raises(InputError, match=r"which is empty|metadata are damaged"):
        open_dataset(folder)


@pytest.mark.parametrize("place", ["categories", "names"])
def test_lists_of_names_that_are_only_declared(place, tmp_path):
    group = zarr.open_group(write_small(tmp_path / "a.zarr"), mode="a")
    within = group.create_group("obs/cell" if place == "categories" else "var")
    within.create_array(place, shape=(10**12,), chunks=(10,), dtype="i8")
    within.attrs["_index"] = place
    if place == "categories":
        within.create_array("codes", data=np.arange(ROWS) % 2)
    with pytest.raises(InputError, match="read whole, takes"):
        open_dataset(tmp_path / "a.zarr", label="obs/cell" if place == "categories" else "y")


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if not isinstance(data, bytes):
                file = io.BytesIO()
                np.save(file, data)
                data = file.getvalue()
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("wide", ["<U2000", "|S9000"])
def test_labels_in_a_wide_type(wide, tmp_path):
    names = np.zeros(4, wide)
    np.save(tmp_path / "X.npy", np.ones((4, 2)))
    np.save(tmp_path / "y.npy", names)
    npz(tmp_path / "a.npz", X=np.ones((4, 2)), y=names)
    csr = {"data": np.ones(1), "indices": np.zeros(1, "i4"), "indptr": np.ones(5, "i4"), "shape": np.array([4, 2])}
    npz(tmp_path / "b.npz", **csr | {"indptr": np.array([0, 1, 1, 1, 1])}, y=names)
    for attempt in (
        lambda: open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy")),
        lambda: ingest(tmp_path / "a.npz", tmp_path / "c.zarr"),
        lambda: ingest(tmp_path / "b.npz", tmp_path / "c.zarr"),
    ):
        with pytest.raises(InputError, match="names of classes have 1000 characters at most"):
            attempt()


def test_distinct_labels_that_do_not_fit():
    names = [f"{i}{'x' * 900}" for i in range(2_000)]
    with memory_limits.within(4 * MIB, "the test"):
        for attempt in (
            labels.distinct_labels,
            lambda values: labels.normalize_labels(np.array(values, object), "a list"),
        ):
            with pytest.raises(InputError, match="Give the classes shorter names"):
                attempt(names)


def test_the_format_of_a_matrix_is_one_text(tmp_path):
    csr = {"data": np.ones(1), "indices": np.zeros(1, "i4"), "indptr": np.array([0, 1, 1]), "shape": np.array([2, 2])}
    npz(tmp_path / "a.npz", **csr, y=np.arange(2), format=np.array(["csr", "csc"]))
    with pytest.raises(InputError, match=r"a\.npz holds a matrix in .* form"):
        open_dataset(tmp_path / "a.npz")
    npz(tmp_path / "a.npz", **csr, y=np.arange(2), format=npy("()", 16 * MIB, "<U4000000"))
    with memory_limits.within(4 * MIB, "the test"), pytest.raises(InputError, match=r"a\.npz takes 16"):
        open_dataset(tmp_path / "a.npz")


def test_columns_of_which_not_even_the_sums_fit(tmp_path):
    (tmp_path / "a.libsvm").write_text("1 2147483647:1\n0 1:1\n")
    with (
        memory_limits.within(1 << 30, "the test"),
        pytest.raises(InputError, match="A sum for each of 2,147,483,647 columns"),
    ):
        ingest(tmp_path / "a.libsvm", tmp_path / "b.zarr")


@pytest.mark.parametrize(("label", "column"), [("-1", "b"), ("2", "2"), ("0", "a")])
def test_a_label_that_is_no_name_is_the_number_of_a_column(tmp_path, label, column):
    (tmp_path / "a.csv").write_text("a,2,b\n1,5,9\n3,7,11\n")
    assert ingest(tmp_path / "a.csv", tmp_path / "a.zarr", label=label)["labels"] == f"column {column!r}"


@pytest.mark.parametrize("label", ["--5", "\u00b2", "5" * 5_000])
def test_what_is_no_number_of_a_column_either_is_refused(tmp_path, label):
    (tmp_path / "a.csv").write_text("a,2,b\n1,5,9\n3,7,11\n")
    with pytest.raises(InputError, match="has no column"):
        ingest(tmp_path / "a.csv", tmp_path / "a.zarr", label=label)


@pytest.mark.parametrize("text", ["\u00b2x\u00b2", f"{'9' * 5_000}x1", "-1x-1"])
def test_what_is_no_shape_of_images(text):
    with pytest.raises(ConfigError, match="write it as HEIGHTxWIDTH"):
        image_shape_of(None, None, text)


SPELLINGS = [
    "reference://g::http://127.0.0.1:{}/refs.npz",
    "REFERENCE://g::http://127.0.0.1:{}/refs.npz",
    "simplecache::http://127.0.0.1:{}/a.npz",
    "filecache://x::http://127.0.0.1:{}/a.npz",
    "http://127.0.0.1:{}/x::file:///etc/passwd.npz",
    "dask://x/a.npz",
    "ssh://x/a.npz",
    "://x/a.npz",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_protocols_that_fill_in_templates_write_caches_or_ask_workers(spelling, monkeypatch):
    """fsspec's references put variables of the environment into addresses, and ask for these, in a plan already."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    leak = '{"version": 1, "templates": {"t": "{{ 1 }}"}, "refs": {"g": ["%s/{{t.__globals__[os].environ[HOME]}}"]}}'
    with serving(leak.encode()) as (address, asked):
        uri = spelling.format(address.rpartition(":")[2].partition("/")[0])
        for attempt in (lambda: preview(parse_config({**FINE, "dataset": {"uri": uri}}, "the form")),
                        lambda: parse_config({**FINE, "output": uri}, "the form"),
                        lambda: zarr_stores.zarr_location(uri)):  # fmt: skip
            with pytest.raises(MmpcaError, match=r"unknown protocol|which chains file systems"):
                attempt()
    assert not asked


def test_protocols_that_the_machine_allows(monkeypatch):
    monkeypatch.setenv("MMPCA_PROTOCOLS", "ftp, sftp")
    assert storage.normalize("sftp://me@host/a.npy") == "sftp://me@host/a.npy"
    with pytest.raises(InputError, match="unknown protocol 'hdfs'"):
        storage.normalize("hdfs://host/a.npy")


@pytest.mark.parametrize("address", ["zzz://localhost:1", "tcp://localhost", "tcp://localhost:1/x"])
def test_what_is_no_address_of_a_scheduler(address):
    compute = ComputeConfig(cluster=address, wait=20)
    words = r"is no address of a Dask scheduler .* Write tcp://HOST:PORT"
    with pytest.raises(InputError, match=words), open_scheduler(compute, Callback()):
        pass


TEXT = "dataset: {uri: bundled:iris}\nmethods: [pca]\nn_components: 2\noutput: out\n"


def load(tmp_path, text):
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return load_config(path)


NO_CONFIGURATION = [
    ("a: &a [x]\nb: [*a, *a]", r"the alias \*a, of line 2, is not read"),
    ("a: &a [*a]", r"the alias \*a, of line 1, is not read"),
    ("a: " + "[" * 20_000, "not readable as YAML"),
    (TEXT + f"seed: {'9' * 5000}", "not readable as YAML"),
    (TEXT + "seed: !!timestamp x", "could not determine a constructor"),
    (TEXT + "seed: !!int ''", "not readable as YAML"),
    (TEXT + "seed: !!bool maybe", "not readable as YAML"),
    (TEXT + "seed: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    (TEXT + "compute: {options: {queue: !!binary CmxzCg==}}", "could not determine a constructor"),
    (TEXT + "compute: {options: {queue: !!set {a}}}", "could not determine a constructor"),
    ("#" * (1 << 20) + "\n" + TEXT, "characters, and configurations at most 1,048,576"),
    (TEXT + "seed: 1\nseed: 2", "the key 'seed', of line 5, is there 2 times"),
    (TEXT + "? [a, b]\n: 1", "unhashable"),
    (TEXT + "\0", "unacceptable character #x0000"),
    (TEXT.replace("[pca]", "[{name: ridge, alpha: .inf}]"), r"alpha must be a number .*\(found inf\)"),
    (TEXT + "compute: {wait: .nan}", "compute.wait must be"),
    (TEXT + "compute: {memory_limit: 1e400GB}", "compute.memory_limit must be a size"),
    ("dataset: s3://key:hunter2@bucket/x\nmethods: pca", "dataset must hold .*found an address with credentials"),
]


def test_what_no_configuration_is(tmp_path):
    for text, words in NO_CONFIGURATION:
        with pytest.raises(ConfigError, match=words) as caught:
            load(tmp_path, text)
        assert "hunter2" not in str(caught.value)
        assert len(str(caught.value)) < 2_000


def test_of_many_unknown_keys_some_are_looked_up(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(errors.difflib, "get_close_matches", lambda *a, **k: asked.append(a) or [])
    with pytest.raises(ConfigError, match=r"Unknown key 'key0'.* There are 19980 more such problems\.") as caught:
        load(tmp_path, TEXT + "".join(f"key{i}: 1\n" for i in range(20_000)))
    assert len(asked) == 20
    assert len(str(caught.value)) < 20_000


def test_a_key_of_any_length_is_refused_without_a_search(tmp_path):
    with pytest.raises(ConfigError, match="Unknown key"):
        parse_config({**FINE, "x" * 1_000_000: 1}, "the form")


KEYS = st.sampled_from(
    ["dataset", "uri", "methods", "n_components", "output", "compute", "cluster", "options", "evaluation", "train",
     "memory_limit", "classifiers", "name", "seed", "solver", "tolerance", "<<", "data_dir", "image_shape"]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["pca", "auto", "svm", "1/0", "1e999", "9" * 5000, "local", "a.B", "tcp://h:1", "${HOME}", "-1/3"]),
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


def outcome(action):
    """A user's configuration makes settings or one sentence, and no other exception."""
    try:
        found = action()
    except MmpcaError as error:
        assert "\n" not in str(error) and len(str(error)) < 20_000
    else:
        assert isinstance(found, RunConfig)
        json.dumps(found.model_dump(mode="json"))


@settings(max_examples=examples(100))
@given(st.dictionaries(KEYS, TREES, max_size=8), st.booleans())
def test_any_form_ends_in_a_sentence(content, filled):
    outcome(lambda: parse_config({**FINE, **content} if filled else content, "the form"))


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([*TEXT.split(" "), *"[]{}:,-&*?!|>%@\"'#\n", "&a ", "*a", "<<: ", "!!int ", "\t"])))
def test_any_text_ends_in_a_sentence(tmp_path, words):
    outcome(lambda: load(tmp_path, "".join(words)))


@settings(max_examples=examples(100))
@given(TREES)
def test_what_yaml_writes_is_read_as_it_is(tree):
    """Dates apart, which are text."""
    text = yaml.safe_dump({"x": tree})
    try:
        expected = yaml.safe_load(text)
    except Exception:
        return
    assert repr(parsing.read_yaml(text)) == repr(expected)

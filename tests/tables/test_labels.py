"""Labels that differ stay apart, or are refused, whatever takes them."""

from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers import each
from helpers.ingested import ingest
from helpers.tables import read_back

import mmpca_dist
from mmpca_dist import MarginPCA, class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.neighbors.estimator import NearestOpposite
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import fit_rows
from mmpca_dist.tables.labels import encode, normalize_labels, unite

X = np.arange(24.0).reshape(8, 3) ** 1.5
INSIDE = ["a", "a\0b"] * 4


def parquet(folder, labels, column=pa.array):
    pq.write_table(
        pa.table({"f0": X[:, 0], "f1": X[:, 1], "f2": X[:, 2], "label": column(labels)}), folder / "a.parquet"
    )
    return str(folder / "a.parquet")


def zarr_text(folder, labels):
    root = zarr.open_group(str(folder / "a.zarr"), mode="w")
    root.create_array("X", data=X)
    root.create_array("y", shape=(8,), dtype=str)[...] = np.asarray(labels, dtype=object)
    return str(folder / "a.zarr")


def zarr_categories(folder, labels):
    root = zarr.open_group(str(folder / "a.zarr"), mode="w")
    root.create_array("X", data=X)
    column = root.create_group("y", attributes={"encoding-type": "categorical"})
    names = sorted(set(labels))
    column.create_array("categories", shape=(len(names),), dtype=str)[...] = np.asarray(names, dtype=object)
    column.create_array("codes", data=np.asarray([names.index(label) for label in labels]))
    return str(folder / "a.zarr")


def csv(folder, labels):
    rows = [",".join([*map(repr, row.tolist()), label]) for row, label in zip(X, labels, strict=True)]
    (folder / "a.csv").write_text("\n".join(["f0,f1,f2,label", *rows]) + "\n")
    ingest(str(folder / "a.csv"), str(folder / "a.zarr"))
    return str(folder / "a.zarr")


def parquet_ingested(folder, labels):
    ingest(parquet(folder, labels), str(folder / "a.zarr"))
    return str(folder / "a.zarr")


STORED = {
    "parquet": parquet,
    "parquet dictionary": lambda f, y: parquet(f, y, lambda v: pa.array(v).dictionary_encode()),
    "parquet large strings": lambda f, y: parquet(f, y, lambda v: pa.array(v, pa.large_string())),
    "zarr": zarr_text,
    "categories": zarr_categories,
    "csv": csv,
    "ingested parquet": parquet_ingested,
}


def test_stored_labels_are_read_as_they_were_written(tmp_path):
    for write, folder in each(STORED.values(), tmp_path):
        assert read_back(write(folder, INSIDE))[1].tolist() == INSIDE


FRAME = pd.DataFrame(X, columns=["f0", "f1", "f2"])
IN_MEMORY = {
    "list": lambda y: (X, list(y)),
    "tuple": lambda y: (X, tuple(y)),
    "objects": lambda y: (X, np.asarray(y, dtype=object)),
    "column": lambda y: (X, np.asarray(y, dtype=object)[:, None]),
    "pandas": lambda y: (FRAME, pd.Series(y)),
    "pandas strings": lambda y: (FRAME, pd.Series(y, dtype="string")),
    "categorical": lambda y: (FRAME, pd.Series(pd.Categorical(y))),
    "dask": lambda y: (da.from_array(X, (4, 3)), da.from_array(np.asarray(y, dtype=object), 4)),
    "dask rows": lambda y: (da.from_array(X, (4, 3)), list(y)),
    "dask frame": lambda y: (dd.from_pandas(FRAME, 2), dd.from_pandas(pd.Series(y), 2)),
}
USES = {
    "moments": lambda X, y: class_moments(X, y).classes,
    "estimator": lambda X, y: MarginPCA(2).fit(X, y).classes_,
    "neighbours": lambda X, y: NearestOpposite().fit(X, y).classes_,
    "classifier": lambda X, y: fit_rows(ClassifierSection(name="svm"), np.asarray(X), y).classes,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning", "ignore:Dask currently has:UserWarning")
def test_labels_in_memory_of_any_kind():
    for kind, make in IN_MEMORY.items():
        for use, classes_of in USES.items():
            if use == "estimator" or (kind != "dask frame" and not (use == "classifier" and "dask" in kind)):
                assert classes_of(*make(["a", "b"] * 4)).tolist() == ["a", "b"], (kind, use)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InputError, match="bytes that are not UTF-8"):
        normalize_labels(np.asarray([b"a", b"\xff"]), "here")


def test_folders_of_other_digits_are_other_labels(tmp_path):
    for name in ("01", "1"):
        (tmp_path / f"label={name}").mkdir()
        pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / f"label={name}/x.parquet")
    assert open_dataset(tmp_path).read_labels(0, 4).tolist() == ["01", "01", "1", "1"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_that_stand_for_several_whole_numbers_are_no_labels(kind):
    first = 2.0 ** (np.finfo(kind).nmant + 1)
    assert kind(first + 1) == kind(first)
    assert normalize_labels(np.asarray([first - 1], kind), "y").tolist() == [first - 1]
    with pytest.raises(InputError, match="not a whole number below"):
        normalize_labels(np.asarray([first], kind), "y")


def test_numbers_of_libsvm_are_not_those_of_python(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1_0 2:3\n2 1:1\n")
    with pytest.raises(InputError, match="'1:1_0' in line 1"):
        ingest(tmp_path / "a.svm", tmp_path / "a.zarr")


def column_of_anndata(folder, **arrays):
    root = zarr.open_group(str(folder / "a.zarr"), mode="w")
    root.create_array("X", data=X)
    column = root.create_group("obs").create_group("kind")
    for name, values in arrays.items():
        if values.dtype.kind == "U":
            column.create_array(name, shape=values.shape, dtype=str, chunks=(1,))[...] = values.astype(object)
        else:
            column.create_array(name, data=values)
    return folder / "a.zarr"


@pytest.mark.parametrize(("arrays", "words"), [
    ({"codes": np.arange(8) % 3, "categories": np.asarray(["a", "b", "a"])}, "'a' 2 times"),
    ({"codes": np.arange(8) % 2 == 0, "categories": np.asarray(list("abcdefgh"))}, "type bool"),
    ({"values": np.arange(8) % 2, "mask": np.zeros(3, bool)}, r"shape \(8,\) and a mask of \(3,\)"),
])  # fmt: skip
def test_columns_of_anndata_that_do_not_fit_together(arrays, words, tmp_path):
    with pytest.raises(InputError, match=words):
        open_dataset(column_of_anndata(tmp_path, **arrays), label="obs/kind")


def test_categories_that_are_gone_make_no_class_of_two(tmp_path):
    place = column_of_anndata(tmp_path, codes=np.arange(8) % 3, categories=np.asarray(["a", "b", "c"]))
    for chunk in (1, 2):
        (place / f"obs/kind/categories/c/{chunk}").unlink()
    with pytest.raises(InputError, match="'' 2 times, or lacks a chunk"):
        open_dataset(place, label="obs/kind")


@pytest.mark.parametrize("labels", [[True, False], ["1", "0"]])
def test_labels_of_another_kind_are_not_united(labels):
    with pytest.raises(InputError, match="use one type"):
        unite(np.asarray([0, 1]), np.asarray(labels))


@pytest.mark.parametrize(
    "classes",
    [[-3, 0, 1, 4], [0, 1 << 62], [-(1 << 63), (1 << 63) - 1], [(1 << 63) - 3, (1 << 63) - 1], ["a", "b"], [7]],
    ids=["near", "far", "ends", "largest", "text", "one"],
)
@pytest.mark.filterwarnings("error")
def test_labels_are_positions_of_classes(classes):
    classes = np.asarray(classes)
    codes = np.random.default_rng(0).integers(0, len(classes), 60)
    assert encode(classes[codes], classes, "y").tolist() == codes.tolist()
    stranger = np.where(np.arange(60) == 5, classes[0] + 1 if classes.dtype.kind == "i" else "c", classes[codes])
    with pytest.raises(InputError, match="in y is none of the known classes"):
        encode(stranger, classes[classes != stranger[5]], "y")


A, Y = np.random.default_rng(0).standard_normal((40, 4)), np.arange(40) % 2
MIXED = ["a", 1] * 20
P = np.eye(4)[:2]
TAKERS = {
    "fisher": mmpca_dist.FisherDiscriminant(n_components=1),
    "penalty": mmpca_dist.ProjectionPenaltyClassifier(P),
    "kernel penalty": mmpca_dist.KernelProjectionPenaltyClassifier(),
    "kernel": mmpca_dist.GeneralizedDiscriminantAnalysis(),
    "bayesian": mmpca_dist.BayesianMarginPCA(n_components=1),
    "search": mmpca_dist.NearestOpposite(),
}


def pandas_column(values):
    return pytest.importorskip("pandas").Series(values)


def objects(values):
    return np.asarray(values, dtype=object)


@pytest.mark.parametrize("name", [*TAKERS, "moments"])
def test_texts_beside_numbers_are_refused(name):
    """scikit-learn fails to sort them, and NumPy makes texts of a list's numbers in silence."""
    take = TAKERS[name].fit if name in TAKERS else mmpca_dist.class_moments
    for form in (list, tuple, objects, pandas_column):
        with pytest.raises(InputError, match=r"^(\w+: )?Labels in y mix int and str; use one type\.$"):
            take(A, form(MIXED))


def test_what_is_wrong_with_labels_of_several_types():
    for values, message in (
        (["a", 2.5], "mix float and str"),
        (["a", True], "mix bool and str"),
        ([1, True], "mix bool and int"),
        (["a", np.nan], "Label nan at position 1 of y is neither"),
        (["a", None], "Label None at position 1 of y is neither"),
        ([1, 2.5], "Label 2.5 at position 1 of y"),
    ):
        forms = (list, objects) if isinstance(values[0], str) else (objects,)  # NumPy makes numbers of other lists
        for form in forms:
            with pytest.raises(InputError, match=message):
                normalize_labels(form(values), "y")


@pytest.mark.parametrize("name", [*TAKERS, "moments", "transform", "labels"])
def test_a_lazy_frame_is_to_be_collected(name):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(A, schema=list("abcd"))
    model = TAKERS["fisher"]
    calls = {
        "moments": lambda: mmpca_dist.class_moments(frame.lazy(), Y),
        "transform": lambda: model.fit(frame, Y).transform(frame.lazy()),
        "labels": lambda: model.fit(frame, frame.lazy()),
    }
    with pytest.raises(InputError) as caught:
        calls.get(name, lambda: TAKERS[name].fit(frame.lazy(), Y))()
    what = "y" if name == "labels" else "X"
    assert str(caught.value).endswith(f"{what} is a polars LazyFrame, a query that has not run: pass {what}.collect().")


@pytest.mark.parametrize("kind", [str, bytes])
def test_words_for_missing_in_a_file_of_an_array_are_no_classes(kind, tmp_path):
    cells = np.asarray([*("yes", "no", "NA", "", " nan ", "?") * 5])
    np.save(tmp_path / "X.npy", np.eye(30))
    np.save(tmp_path / "y.npy", cells.astype("U" if kind is str else "S"))
    opened = partial(open_dataset, tmp_path / "X.npy", label=str(tmp_path / "y.npy"))
    with pytest.raises(InputError, match="Row 2 has no label"):
        opened().read_labels(0, 30)
    for words, n_rows in ((), 15), (("?",), 10):
        dataset = opened(unlabelled="skip", missing_values=words)
        labels = dataset.read_labels(0, dataset.n_rows)
        assert dataset.n_rows == n_rows and set(labels.tolist()) == {"yes", "no", "?"}.difference(words)

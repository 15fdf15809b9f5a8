"""``.mat`` files as a source: the rows of the same arrays in ``.npz``, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import within


def arrays(n=60, d=4, dtype="f8"):
    rng = np.random.default_rng(0)
    return (10 * rng.standard_normal((n, d))).astype(dtype), np.arange(n) % 3


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1", "?"])
@pytest.mark.parametrize("options", [{}, {"do_compression": True}, {"oned_as": "column"}])
def test_rows_and_labels_are_those_that_were_saved(dtype, options, tmp_path):
    X, y = arrays(dtype=dtype)
    scipy.io.savemat(tmp_path / "t.mat", {"rows": X, "class": y, "other": "text"}, **options)
    found = open_dataset(tmp_path / "t.mat", features="rows", label="class")
    assert (found.n_rows, found.n_features, found.has_labels) == (60, 4, True)
    np.testing.assert_array_equal(found.read_rows(7, 31), X[7:31])
    np.testing.assert_array_equal(found.read_labels(7, 31), y[7:31])


@pytest.mark.usefixtures("no_report")
def test_a_run_is_that_of_an_npz_file_dense_and_sparse(tmp_path):
    X, y = arrays()
    X[np.abs(X) < 5] = 0
    np.savez(tmp_path / "t.npz", X=X, y=y)
    scipy.io.savemat(tmp_path / "t.mat", {"X": X, "y": y[:, None].astype(float)})
    scipy.io.savemat(tmp_path / "sparse.mat", {"X": scipy.sparse.csc_array(X), "y": y})
    assert open_dataset(tmp_path / "sparse.mat").sparse
    models = []
    for name in ("t.npz", "t.mat", "sparse.mat"):
        output = str(tmp_path / f"{name}-out")
        settings = {"methods": "m-pca0", "n_components": 2, "precision": "double", "output": output}
        run({"dataset": {"uri": str(tmp_path / name)}, **settings})
        models.append(load_model(output, "m-pca0").components_)
    np.testing.assert_array_equal(models[1], models[0])
    np.testing.assert_allclose(models[2], models[0], atol=1e-12)


def test_an_object_store_serves_it(bucket, tmp_path):
    X, y = arrays()
    scipy.io.savemat(tmp_path / "t.mat", {"X": X, "y": y})
    storage.write_bytes(f"{bucket}/t.mat", (tmp_path / "t.mat").read_bytes())
    np.testing.assert_array_equal(open_dataset(f"{bucket}/t.mat").read_rows(0, 60), X)


def test_what_is_no_table_is_refused_in_one_sentence(tmp_path):
    X, y = arrays()
    path = tmp_path / "t.mat"
    scipy.io.savemat(path, {"X": X, "labels": y, "words": np.asarray(["a", "b"], dtype=object)})
    with pytest.raises(InputError, match=r"has no variable 'y'; it holds X, labels, words"):
        open_dataset(path)
    with pytest.raises(InputError, match=r"'words' of .* is a cell; it must be a matrix of numbers"):
        open_dataset(path, label="words")
    with within(100, "the test's"), pytest.raises(InputError, match=r"takes 2.34 kiB once it is unpacked"):
        open_dataset(path, label="labels")
    data = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform".ljust(124) + b"\x00\x02IM" + bytes(400))
    with pytest.raises(InputError, match=r"of MATLAB 7\.3\. Save it again"):
        open_dataset(path)
    refused = 0
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        try:
            open_dataset(path, label="labels")
        except MmpcaError:
            refused += 1
    assert refused > 20

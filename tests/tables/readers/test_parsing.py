"""Headers of arrays are read again where Python's parser fails though they are sound."""

from __future__ import annotations

import ast
import io
import itertools

import numpy as np
import pytest
from helpers.evaluating import store

from mmpca_dist import open_dataset
from mmpca_dist.passes.serialization import decode, encode
from mmpca_dist.tables.readers.npy import READINGS, NpyHeader, read_again

MISMATCH = SystemError("AST constructor recursion depth mismatch (before=75, after=72)")


@pytest.fixture
def some_fail(monkeypatch):
    """Let some of NumPy's attempts to parse a header fail; return what counts them."""
    attempts, parse = itertools.count(), ast.literal_eval

    def literal_eval(text):
        if next(attempts) in (0, 2, 5):
            raise MISMATCH
        return parse(text)

    monkeypatch.setattr("ast.literal_eval", literal_eval)
    return attempts


def test_results_of_passes_are_not_damaged_for_that(some_fail):
    """Each time it gets further."""
    data = encode((np.arange(3.0), "text", np.arange(4)))
    floats, text, integers = decode(data)
    np.testing.assert_array_equal(floats, np.arange(3.0))
    np.testing.assert_array_equal(integers, np.arange(4))
    assert text == "text" and next(some_fail) > 6


@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_data_sets_are_opened_for_all_that(kind, tmp_path, some_fail):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    if kind == ".npy":
        np.save(tmp_path / "rows.npy", X)
        np.save(tmp_path / "labels.npy", y)
        dataset = open_dataset(str(tmp_path / "rows.npy"), label=str(tmp_path / "labels.npy"))
    else:
        dataset = open_dataset(str(store(tmp_path / "rows.npz", X, y)))
    rows, labels = dataset.read_rows(0, 6), dataset.read_labels(0, 6)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    assert next(some_fail) > 1


def test_a_stream_is_read_from_where_it_was(some_fail):
    stream = io.BytesIO()
    stream.write(b"before")
    np.save(stream, np.arange(4))
    stream.seek(6)
    header = NpyHeader.read(stream, "the stream")
    assert header.shape == (4,) and stream.read() == np.arange(4).tobytes()


def test_it_ends():
    """So often and no more; other errors at once."""
    asked = []

    @read_again
    def failing(error):
        asked.append(error)
        raise error

    with pytest.raises(SystemError, match="recursion depth mismatch"):
        failing(MISMATCH)
    assert len(asked) == READINGS
    asked.clear()
    with pytest.raises(ValueError, match="another"):
        failing(ValueError("another"))
    assert len(asked) == 1

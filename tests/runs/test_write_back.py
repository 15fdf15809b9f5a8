"""Projected rows go into the AnnData that they come from; nothing else of it changes, and a kill leaves it whole."""

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from helpers.h5ad_files import write_h5ad
from helpers.tables import labelled

from mmpca_dist import load_model, run, transform
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.stores.storage import names_in
from pipelines.cli import cli

X, Y = labelled(300, 7, 3, seed=1)
METHODS = ["pca", {"name": "m-pca0", "label": "standard"}, "fisher", "erase"]
KILL = """
import os, signal, sys
from mmpca_dist import transform
from mmpca_dist.runs import write_back

place = sys.argv[3]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
fill = write_back._fill

def half(rows, array):
    fill(rows, array)
    array[0] = 0
    getattr(getattr(array, "file", None), "flush", lambda: None)()
    die()

if place == "half":
    write_back._fill = half
if place == "before":
    write_back.os.fsync = die
    write_back.Path.rename = die
if place == "after":
    original = write_back.put
    def put(*arguments):
        original(*arguments)
        die()
    from mmpca_dist.runs import transform as transforming
    transforming.put = put
transform(sys.argv[1], sys.argv[2], into="obsm/X_pca", methods=["pca"])
"""


def write_anndata_zarr(path, format):
    """A group as AnnData writes it, with the copy of all metadata."""
    group = zarr.open_group(path, mode="w", zarr_format=format, attributes={"encoding-type": "anndata"})
    group.create_array("X", data=X, chunks=(50, 7))
    for name, index in {"obs": [f"cell{i}" for i in range(len(X))], "var": [f"g{i}" for i in range(7)]}.items():
        table = group.create_group(name, attributes={"encoding-type": "dataframe", "_index": "_index"})
        table.create_array("_index", data=np.asarray(index, "U8"))
    group["obs"].create_array("label", data=Y)
    group.create_group("obsm", attributes={"encoding-type": "dict", "encoding-version": "0.1.0"})
    zarr.consolidate_metadata(group.store)
    return str(path)


def written(path, form):
    return write_h5ad(path, X, {"label": (Y, "category")}, chunks=(50, 7)) if form == "h5ad" else write_anndata_zarr(
        path, int(form[-1])
    )  # fmt: skip


def array_at(path, into):
    if not Path(path).is_dir():
        with h5py.File(path) as file:
            return file[into][:], dict(file[into].attrs)
    array = zarr.open_group(path, mode="r", use_consolidated=True)[into]
    return array[:], dict(array.attrs)


def contents(path, but=()):
    """Every array and attribute of a file, or the bytes of every file of a group, but some."""
    if Path(path).is_dir():
        files = (file for file in sorted(Path(path).rglob("*")) if file.is_file())
        kept = (file for file in files if not any(name in str(file) for name in (*but, "zmetadata")))
        return {str(file): file.read_bytes() for file in kept if file != Path(path, "zarr.json") or not but}
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: _of(item)}) if name not in but else None)
    return found


def _of(item):
    values = item[()].tolist() if isinstance(item, h5py.Dataset) else None
    return values, {name: str(value) for name, value in item.attrs.items()}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    rows = write_h5ad(folder / "rows.h5ad", X, {"label": (Y, "category")})
    settings = {"dataset": {"uri": rows}, "methods": METHODS, "n_components": 3, "precision": "double"}
    return run({**settings, "n_components": 2, "output": str(folder / "run")}).folder


@pytest.mark.parametrize("form", ["h5ad", "zarr2", "zarr3"])
def test_nothing_else_changes(fitted, form, tmp_path):
    path = written(tmp_path / f"cells.{form[:4]}", form)
    before, mode = contents(path, ["obsm"]), Path(path).stat().st_mode
    for method in ("pca", "standard"):
        transform(fitted, path, into=f"obsm/X_{method}", methods=[method])
        Z, attributes = array_at(path, f"obsm/X_{method}")
        np.testing.assert_allclose(Z, load_model(fitted, method).transform(X), rtol=1e-12)
        assert attributes == {"encoding-type": "array", "encoding-version": "0.2.0"}
    now = contents(path, ["obsm", "obsm/X_pca", "obsm/X_standard"])
    assert {name: value for name, value in now.items() if "obsm" not in name} == before
    assert names_in(str(tmp_path)) == [Path(path).name] and Path(path).stat().st_mode == mode
    with pytest.raises(OutputError, match="has obsm/X_pca already: name another place"):
        transform(fitted, path, into="obsm/X_pca", methods=["pca"])


@pytest.mark.parametrize("method", ["pca", "standard", "fisher", "erase"])
def test_rebuilt_rows_are_those_of_inverse_transform(fitted, method, tmp_path):
    path, model = written(tmp_path / "cells.h5ad", "h5ad"), load_model(fitted, method)
    expected = model.inverse_transform(model.transform(X))
    transform(fitted, path, into="layers/rebuilt", methods=[method], inverse=True)
    np.testing.assert_allclose(array_at(path, "layers/rebuilt")[0], expected, rtol=1e-9, atol=1e-9)
    found = transform(fitted, path, str(tmp_path / "folder"), methods=[method], inverse=True).rows(method)
    np.testing.assert_allclose(found.to_numpy()[:, :7].astype(float), expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(OutputError, match="already holds a different run: its models have changed since"):
        transform(fitted, path, str(tmp_path / "folder"), methods=[method])


@pytest.mark.parametrize(
    ("form", "place"),
    [("h5ad", "half"), ("h5ad", "before"), ("zarr2", "after"), ("zarr3", "half"), ("zarr3", "before")],
)
def test_a_kill_leaves_it_whole(fitted, form, place, tmp_path):
    path = written(tmp_path / f"cells.{form[:4]}", form)
    before = contents(path)
    killed = subprocess.run([sys.executable, "-c", KILL, fitted, path, place], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if place == "after":
        with pytest.raises(OutputError, match="has obsm/X_pca already"):
            transform(fitted, path, into="obsm/X_pca", methods=["pca"])
    else:
        assert contents(path) == before
        transform(fitted, path, into="obsm/X_pca", methods=["pca"])
    np.testing.assert_allclose(array_at(path, "obsm/X_pca")[0], load_model(fitted, "pca").transform(X), rtol=1e-12)
    assert names_in(str(tmp_path)) == [Path(path).name], "what the killed process left is gone"


def test_what_cannot_be_written_is_refused(fitted, tmp_path):
    path = written(tmp_path / "cells.h5ad", "h5ad")
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    np.savez(tmp_path / "rows.npz", X=X)
    with pytest.raises(InputError, match="X_new is one array: name one of the methods pca, standard, fisher, erase"):
        transform(fitted, path, into="obsm/X_new")
    for rows in (str(tmp_path / "rows.npz"), "bundled:iris"):
        with pytest.raises(InputError, match=r"is no AnnData that rows are written into.*: name a destination"):
            transform(fitted, rows, into="obsm/X_new", methods=["pca"])
    with pytest.raises(InputError, match=r"layers of .* hold 7 columns, and the rows have 2: take obsm/NAME"):
        transform(fitted, path, into="layers/new", methods=["pca"])
    for into in ("obs/x", "obsm", "obsm/..", "obsm/a/b", "obsm/"):
        with pytest.raises(ConfigError, match="into must be obsm/NAME or layers/NAME"):
            transform(fitted, path, into=into, methods=["pca"])
    for place in ({}, {"into": "obsm/x", "destination": "there"}):
        with pytest.raises(ConfigError, match="name a destination, or a place of the dataset by into"):
            transform(fitted, path, **place)
    assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == digest
    assert names_in(str(tmp_path)) == ["cells.h5ad", "rows.npz"]


def test_the_command(fitted, tmp_path):
    path = written(tmp_path / "cells.h5ad", "h5ad")
    command = ["transform", fitted, path, "--into", "obsm/X_mpca", "--method", "standard"]
    said = CliRunner().invoke(cli, command, env={"MMPCA_PREFECT": "off"}, catch_exceptions=False)
    assert "300 rows projected into" in " ".join(said.output.split()), said.output
    assert array_at(path, "obsm/X_mpca")[0].shape == (300, 2)

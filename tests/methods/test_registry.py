"""Methods, solvers, classifiers and formats that other packages bring along."""

import logging
import sys
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
from helpers.tables import content_of, labelled, write_npz

from mmpca_dist import registry, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS
from mmpca_dist.errors import ConfigError
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.methods.base.registry import METHODS, Method
from mmpca_dist.predictors.specification import CLASSIFIERS
from mmpca_dist.registry import Registry
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.tables.readers.formats import FORMATS

PLUGIN = """
from mmpca_dist.methods.base.traits import Option
from mmpca_dist.methods.margin_pca import MarginPCA
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.traits import Traits

class Reversed(MarginPCA):
    traits = Traits({"times": Option(gt=0, example=2.0, description="What eigenvalues are multiplied by")})

    def __init__(self, n_components=None, *, times: float = 1.0, precision="single", standardize=False, solver="auto",
                 oversampling=10, passes=4, tolerance=1e-4, center=False, scratch=None):
        super().__init__(n_components, "pca", precision=precision, standardize=standardize, solver=solver,
                         oversampling=oversampling, passes=passes, tolerance=tolerance, center=center, scratch=scratch)
        self.times = times

METHOD = Method("reversed", "Reversed PCA", "elsewhere", "what PCA keeps", "d", Reversed, settable=("times",))
ANOTHER_PCA = Method("pca", "Not PCA", "elsewhere", "nothing", "d", Reversed)
"""
PARTS = """
from dataclasses import replace
import numpy as np
from mmpca_dist.tables.column import column_in_memory
from mmpca_dist.tables.readers.formats import Format
from mmpca_dist.tables.readers.memory import ArrayRows
from mmpca_dist.predictors.liblinear import SVM
from mmpca_dist.eigen.blocks.krylov import KRYLOV

SOLVER = replace(KRYLOV, name="again")
CLASSIFIER = replace(SVM, name="machine")

Y = np.arange(90) % 3

class Rows(ArrayRows):
    label = "y"

    def __init__(self, request):
        super().__init__(np.random.default_rng(0).standard_normal((90, 40)) + Y[:, None], request.uri)

    def column(self, name, setting):
        return column_in_memory(Y, "y")

FORMAT = Format("made", "rows made here", Rows, suffixes=(".made",))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return what makes the registries see entry points: groups, with names and where they lead."""
    (tmp_path / "some_plugin.py").write_text(PLUGIN)
    (tmp_path / "some_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget():
        for one in (METHODS, BLOCK_SOLVERS, CLASSIFIERS, FORMATS):
            one.__dict__.pop("_objects", None)

    def install(**groups):
        found = [
            EntryPoint(name, value, f"mmpca_dist.{group}")
            for group, points in groups.items()
            for name, value in points.items()
        ]
        monkeypatch.setattr(registry, "installed_points", lambda: EntryPoints(found))
        forget()

    yield install
    monkeypatch.undo()
    forget()
    for name in ("some_plugin", "some_parts"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("no_report")
def test_a_method_of_another_package_runs_like_any(installed, tmp_path):
    installed(methods={"reversed": "some_plugin:METHOD"})
    assert list(METHODS)[-1] == "reversed"
    output = str(tmp_path / "out")
    X, y = labelled(60, 4, 2, seed=1)
    methods = ["pca", {"name": "reversed", "times": 2}]
    run(content_of(output, write_npz(tmp_path / "rows.npz", X, y), methods=methods))
    model = load_model(output, "reversed")
    assert model.times == 2
    np.testing.assert_array_equal(model.components_, load_model(output, "pca").components_)


@pytest.mark.usefixtures("no_report")
def test_solvers_classifiers_and_formats_of_other_packages_work_like_any(installed, tmp_path):
    installed(
        solvers={"again": "some_parts:SOLVER"},
        classifiers={"machine": "some_parts:CLASSIFIER"},
        formats={"made": "some_parts:FORMAT"},
    )
    (tmp_path / "rows.made").write_text("")
    found = {}
    for name, solver, classifier in (("theirs", "again", "machine"), ("ours", "krylov", "svm")):
        output = str(tmp_path / name)
        config = {
            "dataset": {"uri": str(tmp_path / "rows.made")}, "methods": ["pca", "m-pca0"], "n_components": 2,
            "output": output, "solver": {"kind": solver},
            "evaluation": {"splits": "folds", "folds": 3, "classifiers": [classifier]},
        }  # fmt: skip
        run(config)
        assert load_model(output, "pca").certificate_["solver"] == solver
        evaluate({**config, "output": f"{output}-evaluated"})
        found[name] = [
            *(load_model(output, method).components_ for method in ("pca", "m-pca0")),
            [list(row.values())[-1] for row in result_in(f"{output}-evaluated/evaluation").rows],
        ]
    for theirs, ours in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_what_does_not_load_and_what_has_a_taken_name_is_left_aside(installed, caplog):
    with caplog.at_level(logging.WARNING, registry.__name__):
        installed(methods={"broken": "some_plugin:MISSING", "other": "some_plugin:ANOTHER_PCA"})
        assert METHODS["pca"].title == "PCA"
    assert "The entry point broken of mmpca_dist.methods does not load." in caplog.text
    assert "pca of some_plugin:ANOTHER_PCA is ignored: there is another pca." in caplog.text


def test_names_in_a_configuration_import_nothing(monkeypatch):
    with pytest.raises(ConfigError, match="unknown method 'some_plugin:METHOD'"):
        parse_config(
            {"dataset": {"uri": "bundled:iris"}, "methods": "some_plugin:METHOD", "n_components": 1, "output": "x"},
            "the test",
        )
    assert "some_plugin" not in sys.modules


def test_the_built_in_ones_are_those_of_the_modules():
    assert len(Registry(Method, "mmpca_dist.methods")) >= 13

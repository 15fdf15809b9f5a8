"""What it costs to choose numbers of components, and where it is refused."""

import numpy as np
import pytest
from helpers.tables import auto, clusters, config_of, labelled, write_npz

from mmpca_dist import run
from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.runs.fit import preview

pytestmark = pytest.mark.usefixtures("no_report")


def uneven(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).standard_normal((len(y), 3)) + y[:, None], y


@pytest.mark.parametrize(("counts", "changes", "expected"), [
    ([20, 4, 30], {}, r"have the label '1': set evaluation.folds to 4, or give n_components as numbers\.$"),
    ([20, 1, 3], {}, r"have the label '1', '2': leave out classes of one row, or give n_components as numbers\.$"),
    ([3, 4], {"evaluation": {"folds": 9}}, "set evaluation.folds to 3, or give"),
])  # fmt: skip
def test_classes_with_fewer_rows_than_folds_are_refused_before_a_row_is_read(counts, changes, expected, tmp_path):
    config = auto(tmp_path / "out", write_npz(tmp_path / "rows.npz", *uneven(counts)), **changes)
    with pytest.raises(InputError, match=expected):
        preview(config)
    with pytest.raises(InputError, match=expected):
        run(config)
    assert not (tmp_path / "out").exists()


def test_rows_too_many_to_be_in_memory_are_refused_where_moments_do_not_suffice(tmp_path, limits):
    limits.direct_bytes = 0
    uri = write_npz(tmp_path / "rows.npz", *labelled(40, 60, 2, seed=1))
    with pytest.raises(
        InputError,
        match=r"fewer than the columns \(60\)\. Evaluate a part of the rows or columns, or set solver.kind: krylov\.$",
    ):
        preview(auto(tmp_path / "out", uri))


@pytest.mark.parametrize(
    ("uri", "changes", "passes"),
    [
        ("synthetic:gaussian?n=200000&d=64", {"methods": ["pca", "m-pca0"]}, ["moments", "score"]),
        ("bundled:wine", {"methods": ["m-pca2"]}, ["moments", "sample", "cells", "score"]),
        ("bundled:iris", {"methods": ["m-pca2"], "evaluation": {"folds": 2}},
         ["moments", "sample", "cells", "sample", "cells", "score"]),
        ("wide", {"methods": ["pca", "m-pca2"]}, ["rows"]),
    ],
)  # fmt: skip
def test_the_passes_of_the_choice(uri, changes, passes, tmp_path, limits):
    limits.unit_bytes = 4 << 20
    if uri == "wide":
        uri = write_npz(tmp_path / "rows.npz", *labelled(60, 200, 2, seed=1))
    results = run(auto(tmp_path / "out", uri, **changes))
    names = [one["name"] for one in results["plan"]["passes"]]
    stages = [results[name] for name in ("choose", "reduce", "search", "project") if name in results]
    assert results["choose"]["passes"] == passes
    planned = [f"choose: {name}" for name in passes] if uri.startswith("synthetic") else []  # little has no pilot
    assert [name for name in names if name.startswith("choose: ")] == planned
    assert max(stage["memory"] for stage in stages) <= results["plan"]["memory"]


@pytest.mark.parametrize("merged", [True, False])
def test_memory_of_the_choice_is_within_the_plan(merged, tmp_path):
    """720 of 900 rows train, which are fewer than columns, as all rows are not."""
    rows, y = clusters() if merged else clusters(900, 800)
    results = run(auto(tmp_path / "out", write_npz(tmp_path / "rows.npz", rows, y), methods=["pca", "m-pca0"]))
    assert results["choose"]["passes"] == (["moments", "score"] if merged else ["rows"])
    assert results["choose"]["memory"] < results["plan"]["memory"] < 2.5 * results["choose"]["memory"]


def test_medians_of_folds_are_planned_for(tmp_path, limits):
    """Four medians for each class and column where one was: more values than are kept, and brackets for them."""
    limits.unit_bytes = 4 << 20
    plan = preview(auto(tmp_path / "out", "synthetic:gaussian?n=40000&d=128", methods=["m-pca1b"]))
    names = [one.name for one in plan.passes]
    assert names[:2] == ["choose: sample", "choose: moments"] and "medians" not in names
    assert names[-2:] == ["moments", "project"] and "sample" not in names


def test_a_refusal_for_memory_says_that_the_choice_needs_it(tmp_path):
    uri, compute = "synthetic:clusters?n=2000&d=300&k=20&classes=20", {"memory_limit": "300MiB"}
    plan = preview(auto(tmp_path / "out", uri, compute=compute))
    assert plan.memory > preview(config_of(tmp_path / "out", uri, compute=compute)).memory
    with pytest.raises(PlanError, match=r"fewer evaluation\.folds, n_components as numbers, or set solver"):
        plan.refuse_if_too_large()

"""``C: nested``: penalties chosen by cross-validation within the rows that train."""

import pytest
from helpers.by_hand import SPLITS, assert_as_by_hand
from helpers.evaluating import scored
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist.errors import InputError
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import choose_C
from mmpca_dist.runs.evaluate import preview_evaluation

NESTED = [{"name": "svm", "C": "nested"}, {"name": "logistic", "C": "nested", "bias": True}]


@pytest.mark.parametrize("splits", [pytest.param("shares", marks=pytest.mark.e2e), "folds"])
def test_every_method_size_and_split_has_a_penalty_of_its_own(splits, merging, tmp_path):
    """As by hand: of each reduction and each part held out, from rows in memory and by merging moments."""
    merging("merged")
    X, y = labelled(90, 5, 2, seed=6, separation=0.4)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    direct, merged = (
        config_of(
            tmp_path / name, uri, methods=["pca", "m-pca1a"], n_components=[1, 3],
            evaluation={**SPLITS[splits], "classifiers": NESTED, "margins": False},
        )
        for name in ("direct", "merged")
    )  # fmt: skip
    records = assert_as_by_hand(direct, X, y, merged)
    assert not any(record["notes"] for record in records)  # nothing held out takes part, so nothing is to be said


def test_what_was_chosen_is_in_the_records_and_named_in_tables(tmp_path):
    X, y = labelled(80, 4, 2, seed=3, separation=0.4)
    evaluation = {**SPLITS["folds"], "classifiers": [*NESTED, {"name": "svm", "label": "fixed"}], "margins": True}
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), evaluation=evaluation)
    records, splits, _ = scored(config)
    for record in records:
        train = splits.training(batch_of(y), record["split"])[0]
        lines = [line for line in record["errors"] if "C" in line]
        assert sorted((line["method"], line["classifier"]) for line in lines if line["method"] != "all-columns") == [
            ("pca", "logistic"), ("pca", "svm"),
        ]  # fmt: skip
        assert all(line["C"] in [10.0**power for power in range(-3, 3)] for line in lines)
        assert train.sum() == len(y) - record["rows"]
    assert {line["classifier"] for line in records[0]["margins"]} == {"svm", "logistic", "fixed"}


def test_the_choice_is_that_of_the_rows_that_train():
    X, y = labelled(120, 6, 2, seed=12, separation=0.7)
    nested, auto = (ClassifierSection.model_validate({"name": "svm", "C": C}) for C in ("nested", "auto"))
    assert choose_C([nested], X, y) == choose_C([auto], X, y)


def test_its_fits_are_planned(tmp_path):
    """Two methods, two numbers of components, three folds dealt twice: 24 parts, 6 of all columns, of 1 or 31 fits."""

    def planned(*classifiers):
        evaluation = {"folds": 3, "count": 2, "classifiers": list(classifiers)}
        return preview_evaluation(
            config_of(tmp_path, "bundled:iris", methods=["pca", "m-pca0"], n_components=[1, 2], evaluation=evaluation)
        )

    plain, nested = planned("svm", "fisher"), planned(NESTED[0], "fisher")
    assert dict(plain.rows())["classifiers fitted"] == "up to 30 times to rows"
    assert dict(nested.rows())["classifiers fitted"] == "up to 930 times to rows"
    assert nested.memory > plain.memory
    assert "classifiers fitted" not in dict(planned("fisher").rows())


def test_a_class_with_one_row_that_trains_is_refused_by_name(tmp_path):
    X, y = labelled(60, 3, 2, seed=1)
    y[:2] = 2  # of which one trains while the other is held out
    evaluation = {"splits": "folds", "folds": 2, "classifiers": NESTED[:1], "margins": False}
    config = config_of(tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), evaluation=evaluation)
    with pytest.raises(InputError, match=r"In split 0: C cannot be chosen by cross-validation: class 2 has one row"):
        scored(config)

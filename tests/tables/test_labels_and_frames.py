"""Labels of several types, and polars frames that are not read yet: one sentence, whatever takes them."""

import numpy as np
import pytest

import mmpca_dist
from mmpca_dist.errors import InputError
from mmpca_dist.tables.labels import normalize_labels

X, Y = np.random.default_rng(0).standard_normal((40, 4)), np.arange(40) % 2
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
            take(X, form(MIXED))


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
    frame = polars.DataFrame(X, schema=list("abcd"))
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

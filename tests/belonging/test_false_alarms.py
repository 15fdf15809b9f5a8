"""How often rows like those that trained are told not to belong: by each score, on generated and real rows."""

import numpy as np
import pytest
from helpers.tables import write_npz
from sklearn.datasets import load_breast_cancer, load_digits

from mmpca_dist import load_model, open_dataset, run

FITS, ALPHA = 20, 0.05


def synthetic(kind):
    data = open_dataset(f"synthetic:{kind}")
    return data.read_rows(0, data.n_rows).astype(float), data.read_labels(0, data.n_rows)


def heavy_tails():
    rng = np.random.default_rng(0)
    return rng.standard_t(4, (2000, 12)), rng.integers(3, size=2000)


def skewed():
    rng = np.random.default_rng(1)
    return rng.exponential(size=(2000, 10)) * np.geomspace(1, 100, 10), rng.integers(2, size=2000)


def means_of_cells():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :10], y


def mnist_in_32(path):
    arrays = np.load(path("mnist.npz"))
    X, y = arrays["X"][::20].astype(float), arrays["y"][::20].astype(int)
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:32].T, y


SETS = {
    "gaussian": lambda path: synthetic("gaussian?n=2000&d=10&seed=1"),
    "clusters": lambda path: synthetic("clusters?n=3000&d=8&k=6&classes=3&seed=1"),
    "unequal classes": lambda path: synthetic("gaussian?n=2000&d=10&imbalance=0.05&distance=3&seed=2"),
    "heavy tails": lambda path: heavy_tails(),
    "skewed": lambda path: skewed(),
    "breast cancer, means": lambda path: means_of_cells(),
    "digits": lambda path: load_digits(return_X_y=True),
    "MNIST": mnist_in_32,
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_each_score_fires_as_often_as_alpha_says(name, real_path, tmp_path):
    """Between 0.8 and 1.25 of alpha, on rows that no fit saw, as a mean over twenty fits to half of the rows."""
    X, y = SETS[name](real_path)
    rng, alarms = np.random.default_rng(0), []
    for number in range(FITS):
        order = rng.permutation(len(X))
        train, new = order[: len(X) // 2], order[len(X) // 2 :]
        folder = tmp_path / str(number)
        folder.mkdir()
        run({
            "dataset": {"uri": write_npz(folder / "rows.npz", X[train], y[train])}, "methods": "pca",
            "n_components": min(4, X.shape[1] - 1), "precision": "double", "belonging": {"alpha": ALPHA},
            "project": {"methods": []}, "output": str(folder / "run"),
        })  # fmt: skip
        found = load_model(str(folder / "run"), "pca").belongs(X[new])
        alarms.append([(found[f"{score}_p"] <= ALPHA).mean() for score in ("t2", "q", "distance")])
    means = np.mean(alarms, axis=0)
    print(f"{name}: t2 {means[0]:.2%}, q {means[1]:.2%}, distance {means[2]:.2%}")
    assert ((means >= 0.8 * ALPHA) & (means <= 1.25 * ALPHA)).all()


def patients(rng, n_patients, each=8, d=6):
    """Return rows whose patients differ as much as the rows of one do, and the patient of each row."""
    patient = np.repeat(np.arange(n_patients), each)
    return rng.standard_normal((n_patients, d))[patient] + rng.standard_normal((n_patients * each, d)), patient


@pytest.mark.slow
@pytest.mark.parametrize("by_patient", [True, False])
def test_rows_of_new_groups_fire_as_often_where_groups_are_held_out(by_patient, tmp_path):
    """With few patients, limits from folds of single rows are too low for patients that were never seen."""
    rng, alarms = np.random.default_rng(0), []
    for number in range(FITS):
        X, patient = patients(rng, 40)
        new, _ = patients(rng, 400)
        folder = tmp_path / str(number)
        folder.mkdir()
        np.save(folder / "patient.npy", patient)
        groups = {"groups": str(folder / "patient.npy")} if by_patient else {}
        run({
            "dataset": {"uri": write_npz(folder / "rows.npz", X, np.arange(len(X)) % 2)}, "methods": "pca",
            "n_components": 3, "precision": "double", "belonging": {"alpha": ALPHA, **groups},
            "project": {"methods": []}, "output": str(folder / "run"),
        })  # fmt: skip
        found = load_model(str(folder / "run"), "pca").belongs(new)
        alarms.append([(found[f"{score}_p"] <= ALPHA).mean() for score in ("t2", "q", "distance")])
    means = np.mean(alarms, axis=0)
    print(f"patients held out {by_patient}: t2 {means[0]:.2%}, q {means[1]:.2%}, distance {means[2]:.2%}")
    within = (means >= 0.8 * ALPHA) & (means <= 1.25 * ALPHA)
    assert within.all() if by_patient else means.max() > 1.1 * ALPHA

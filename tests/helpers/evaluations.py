"""Made-up evaluations, whose errors follow from simple rules."""

import dataclasses

import numpy as np
import yaml

from mmpca_dist.configuration.held_out_sections import EvaluationConfig
from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.methods.base import registry
from mmpca_dist.results.evaluation import Evaluation

CLASSIFIERS = {"svm": "linear SVM, C = 0.1", "logistic": "logistic regression, C = 1", "fisher": "Fisher"}


METHODS, SIZES = ("pca", "m-pca0", "m-pca2"), (2, 4, 8)
SETTINGS = ("standardize", "reference", "published", "count")
FOUR = {**CLASSIFIERS, "naive-bayes": "naive Bayes"}


def counted(method, size, classifier, split):
    """Errors that fall with the components and with the method's place, and differ from split to split."""
    return max(0, 30 - 3 * method - size // 2 + 4 * classifier + (7 * split + 3 * method) % 5)


def records(methods, sizes, classifiers, splits, rows=71, errors=counted, most=None):
    """Return a record for each split; ``most`` has the components that a method cannot exceed."""
    most = most or {}
    return [
        {
            "split": split,
            "rows": rows,
            "errors": [
                {
                    "method": method, "n_components": size, "used": min(size, most.get(method, size)),
                    "classifier": classifier, "errors": errors(m, min(size, most.get(method, size)), c, split),
                }
                for m, method in enumerate(methods)
                for size in sizes
                for c, classifier in enumerate(classifiers)
            ],
            "margins": [
                margin(method, size, classifier, split, m)
                for m, (method, kept) in enumerate([("", [40]), *((method, sizes) for method in methods)])
                for size in kept
                for classifier in classifiers[:1]
            ],
            "seconds": {method: 0.1 + m for m, method in enumerate(methods)},
        }
        for split in range(splits)
    ]  # fmt: skip


def margin(method, size, classifier, split, place):
    """Return the margins of 200 rows, spread evenly from below zero upwards."""
    distances = np.linspace(-0.5 - 0.1 * split, 4 - 0.3 * place, 200)
    low, high = float(distances.min()), float(distances.max())
    return {
        "method": method, "n_components": size, "classifier": classifier, "minimum": low,
        "quantiles": np.percentile(distances, [1, 5, 25, 50, 75, 95, 99]).tolist(),
        "histogram": np.histogram(distances, 20, (low, high))[0].tolist(), "edges": [low, high],
        "wasserstein": 0.15 * place,
    }  # fmt: skip


def flat_margins():
    """All rows at one distance, in either of two splits: bars without width."""
    one = {**margin("pca", 2, "svm", 0, 0), "edges": [1.0, 1.0], "quantiles": [1.0] * 7, "minimum": 1.0}
    return [{**one, "split": split, "method": method} for split in (0, 1) for method in ("", "pca", "m-pca0")]


def config_of(methods, sizes, standardize=False, **section):
    """Return the configuration of an evaluation; what is no method is the label of one."""
    named = [MethodSection.model_validate(name if name in registry.METHODS else "lol") for name in methods]
    sections = [one.model_copy(update={"label": label}) for one, label in zip(named, methods, strict=True)]
    return RunConfig.model_construct(
        methods=sections, n_components=list(sizes), standardize=standardize, compute=ComputeConfig(),
        evaluation=EvaluationConfig(splits="shares").model_copy(update={"reference": "pca", **section}),
    )  # fmt: skip


def evaluation(
    methods=METHODS,
    sizes=SIZES,
    classifiers=None,
    splits=6,
    classes=2,
    most=None,
    errors=counted,
    config=None,
    **changes,
):
    """Return an evaluation of such records."""
    settings = {name: changes.pop(name) for name in [*changes] if name in SETTINGS}
    labels = CLASSIFIERS if classifiers is None else classifiers
    found = records(list(methods), list(sizes), list(labels), splits, errors=errors, most=most)
    made = Evaluation(
        dataset={
            "uri": "s3://bucket/table.zarr", "n_rows": 351, "n_features": 40,
            "classes": [f"class {i}" for i in range(classes)], "counts": [351 // classes] * classes,
        },
        splits=f"{splits} stratified splits, four fifths of the rows train",
        config=config_of(methods, sizes, **settings) if config is None else config,
        classifiers=labels,
        table=ErrorTable.of(found, 351),
        baselines=[100 * (1 - 1 / classes)],
        margins=[{**one, "split": record["split"]} for record in found for one in record["margins"]],
        seconds={method: sum(record["seconds"][method] for record in found) for method in methods},
        bytes_read={method: 4 * 351 * 40 * (m + 1) for m, method in enumerate(methods)},
        notes=["Column 3 is constant."],
        stages={"moments": 1.25, "splits": 75.0},
        config_yaml=yaml.safe_dump({"methods": list(methods)}),
        versions={"numpy": "2.1"},
    )  # fmt: skip
    return dataclasses.replace(made, **changes)

"""Classifiers as configurations name them: what is accepted, and what is refused in a sentence."""

import pytest
from pydantic import BaseModel, ValidationError

from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import ConfigError
from mmpca_dist.predictors.classifiers import ClassifierSection, ClassifierSetting


class Holder(BaseModel):
    classifiers: list[ClassifierSetting]


def test_a_name_or_a_mapping():
    found = Holder(classifiers=["svm", {"name": "logistic", "C": "1e-3", "bias": False, "label": "LR"}]).classifiers
    assert [(one.name, one.C, one.bias, one.label) for one in found] == [
        ("svm", None, True, "svm"),
        ("logistic", 0.001, False, "LR"),
    ]
    assert Holder(**Holder(classifiers=found).model_dump(mode="json")).classifiers == found
    assert {"type": "string"} in Holder.model_json_schema()["properties"]["classifiers"]["items"]["anyOf"]


REFUSED = {
    "unknown classifier 'smv'; there are fisher, .* Did you mean 'svm'": "smv",
    "svm has no key 'option'. Did you mean 'options'": {"name": "svm", "option": {}},
    r"svm has no key 'colour'. There are name, C,": {"name": "svm", "colour": 1},
    "a classifier is a name, or a mapping": 3,
    r"or a mapping like {name: svm, C: 1} \(found {'C': 1}\)": {"C": 1},
    r"C of svm must be a positive number, auto or nested \(found 'automatic'\)": {"name": "svm", "C": "automatic"},
    r"C of svm must be a positive number, auto or nested \(found 0\)": {"name": "svm", "C": 0},
    r"C of svm must be a positive number, auto or nested \(found True\)": {"name": "svm", "C": True},
    "C is a setting of svm, .*; fisher has none": {"name": "fisher", "C": "nested"},
    "; sklearn.neighbors.KNeighborsClassifier has none": {"name": "sklearn.neighbors.KNeighborsClassifier", "C": 1},
    "bias is a setting of svm, .* sklearn.svm.SVC has none": {"name": "sklearn.svm.SVC", "bias": True},
    "bias\n  Input should be a valid boolean": {"name": "svm", "bias": "perhaps"},
    "options\n  Input should be a valid dictionary": {"name": "svm", "options": [1]},
    "svm has no option 'tl'. Did you mean 'tol'": {"name": "svm", "options": {"tl": 1}},
    "svm has no option 'penalty'. There are intercept_scaling,": {"name": "svm", "options": {"penalty": "l1"}},
    "fisher has no option 'tol'. There are threshold": {"name": "fisher", "options": {"tol": 1}},
    "threshold of fisher is 0.5; it must be midway or log-odds": {"name": "fisher", "options": {"threshold": 0.5}},
    "threshold of fisher is 'log odds'; .* Did you mean 'log-odds'": {
        "name": "fisher",
        "options": {"threshold": "log odds"},
    },
    "option reg_param of qda must be a number": {"name": "qda", "options": {"reg_param": "much"}},
    "reg_param of qda must be a number between 0 and 1": {"name": "qda", "options": {"reg_param": 2}},
    "ddof of naive-bayes must be 0 or 1": {"name": "naive-bayes", "options": {"ddof": 2}},
    "var_smoothing of naive-bayes must be a number, zero or more": {
        "name": "naive-bayes",
        "options": {"var_smoothing": float("nan")},
    },
    "option tol of lda must be a number, zero or more": {"name": "lda", "options": {"tol": -1}},
    "max_iter of dask-logistic must be .* at least 1": {"name": "dask-logistic", "options": {"max_iter": 0}},
    "tol of dask-logistic must be a number, zero or more": {"name": "dask-logistic", "options": {"tol": "small"}},
    "it learns block by block: give C as a number": {"name": "dask-logistic", "C": "nested"},
    "dask-logistic has no option 'solver'": {"name": "dask-logistic", "options": {"solver": "newton"}},
    "SVC has no option 'gama'. Did you mean 'gamma'": {"name": "sklearn.svm.SVC", "options": {"gama": 1}},
    "C of sklearn.svm.SVC is a setting of its own": {"name": "sklearn.svm.SVC", "options": {"C": 1}},
    "'sklearn.svm.SVM' is no class of classifiers .* Did you mean 'SVC'": "sklearn.svm.SVM",
    "'sklearn.svm.SVR' is no class of classifiers": "sklearn.svm.SVR",
    "'sklearn.base.clone' is no class of classifiers": "sklearn.base.clone",
    "'sklearn.nothing.SVC' cannot be imported here": "sklearn.nothing.SVC",
    "VotingClassifier does not start with these options": "sklearn.ensemble.VotingClassifier",
    "is of 'os', and a configuration may name classes of scikit-learn only": "os.system",
    "is of 'dask_ml', and .* set MMPCA_CLASSIFIERS=dask_ml in the environment": "dask_ml.naive_bayes.GaussianNB",
    "'sklearn.conftest.X' is of no public module": "sklearn.conftest.X",
    "'sklearn.svm._classes.SVC' is of no public module": "sklearn.svm._classes.SVC",
    "'sklearn.svm.tests.test_svm.X' is of no public module": "sklearn.svm.tests.test_svm.X",
    "is of 'subprocess', and": {"name": "subprocess.Popen", "options": {"args": "ls"}},
    "SVC has no partial_fit": {"name": "incremental", "options": {"estimator": "sklearn.svm.SVC"}},
    "estimator of incremental must be an import name": {"name": "incremental", "options": {"estimator": 1}},
    "SGDClassifier has no option 'alfa'. Did you mean 'alpha'": {"name": "incremental", "options": {"alfa": 1}},
}


def test_bad_specifications():
    for message, section in REFUSED.items():
        with pytest.raises(ValidationError, match=message):
            Holder(classifiers=[section])


def test_the_sentence_is_that_of_the_configuration():
    content = {
        "dataset": {"uri": "bundled:digits"},
        "methods": "pca",
        "n_components": 2,
        "output": "x",
        "evaluation": {"classifiers": ["fisher", {"name": "svm", "colour": "red"}]},
    }
    with pytest.raises(ConfigError, match=r"^my.yaml: evaluation.classifiers: svm has no key 'colour'. There are name"):
        parse_config(content, "my.yaml")


def test_only_packages_that_the_machine_allows_are_imported(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    for allowed in ("", "other, planted2"):
        monkeypatch.setenv("MMPCA_CLASSIFIERS", allowed)
        with pytest.raises(ValidationError, match="is of 'planted', and a configuration may name"):
            ClassifierSection(name="planted.Classifier")
    monkeypatch.setenv("MMPCA_CLASSIFIERS", "other, planted")
    with pytest.raises(SystemExit, match="was run"):
        ClassifierSection(name="planted.Classifier")

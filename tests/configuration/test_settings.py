"""Settings: mistakes are named with their place and an example, and the printed ones are those there are."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers import ROOT
from helpers.tables import write_npz

from mmpca_dist import load_config
from mmpca_dist.configuration.dataset_section import DatasetConfig, located
from mmpca_dist.configuration.parsing import settings_of
from mmpca_dist.configuration.reference import commented_yaml, page
from mmpca_dist.configuration.schema import SECTIONS, RunConfig, parse_config
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.settings import values_of

SOUND = {"dataset": {"uri": "bundled:digits"}, "methods": ["pca"], "n_components": [2], "output": "out"}


MISTAKES = [
    ("n_components", "abc", "must be whole numbers of at least 1, shares between 0 and 1, or auto, such as 'n_compon"),
    ("n_components", [True], "(found [True])."),
    (
        "n_components",
        0,
        "whole numbers of at least 1, shares between 0 and 1, or auto, such as 'n_components: [8, 16]' (fou",
    ),
    ("n_components", 1.5, "(found 1.5)."),
    ("n_components", [8, 0.9], "(found [8, 0.9])."),
    ("n_components", [], "(found [])."),
    ("n_components", "aut", "(found 'aut'). Did you mean 'auto'?"),
    ("n_components", ["auto"], "(found ['auto'])."),
    ("methods", "m-pca", "unknown method 'm-pca'; there are pca, m-pca0"),
    ("methods", [1], "a method is a name, or a mapping such as {name: ridge, alpha: 10} (found 1)"),
    (
        "methods",
        [{"name": "fisher", "shrinkage": 2}],
        "shrinkage=2.0 must be a number of at least 0 and at most 1, or 'auto'",
    ),
    ("methods", [{"name": "ridge", "alpha": -1}], "ridge: alpha must be a number of at least 0, such as 'alpha: 0.1'"),
    ("precision", "singel", "must be single or double, such as 'precision: double' (found 'singel'). Did you mean"),
    ("standardize", "perhaps", "standardize must be true or false"),
    ("compute.memory_limit", "2 gigs", "must be a size, or a number of bytes, such as 'memory_limit: 4GiB'"),
    ("compute.memory_limit", -1, "must be a size"),
    ("compute.workers", 0, "must be a whole number from 1 to 10000, such as 'workers: 4' (found 0)."),
    ("compute.cluster", "thread", "Did you mean 'threads'?"),
    ("compute.cluster", 5, "or a class of Dask clusters"),
    ("dataset.image_shape", [1], "dataset.image_shape must be two whole numbers, such as 'image_shape: [28, 28]'"),
    ("dataset", "x", "dataset must hold keys and values, such as 'dataset: {uri: bundled:digits}' (found 'x')."),
    ("dataset.uri", None, "dataset.uri must be text"),
    ("dataset.uri.x", 1, "uri has no keys within, so there is no dataset.uri.x."),
    ("compute.wokers", 2, "Unknown key 'compute.wokers'. Did you mean 'workers'?"),
    ("compute.adapt", {"maximum": 2, "minmum": 1}, "Unknown key 'compute.adapt.minmum'. Did you mean 'minimum'?"),
    ("compute.adapt", {"maximum": 2, "zzz": 1}, "Unknown key 'compute.adapt.zzz'. There are minimum, maximum."),
    ("dataset.target", {"column": "a", "slics": 3}, "Unknown key 'dataset.target.slics'. Did you mean 'slices'?"),
    ("zzz", 1, "Unknown key 'zzz'. There are dataset, methods,"),
    ("covariates", ["batch"], "Unknown key 'covariates'. There is dataset.covariates."),
    ("dataset.maps", [{"name": "normalize-total", "to": 0}], "to must be a number above 0, such as 'to: 1000000.0' (f"),
    ("dataset.maps", [{"name": "log1p", "base": 2}], "log1p: Unknown key 'base'. There are none."),
    ("project.methods", 5, "project.methods must be all, or the labels of some of the methods"),
    ("project.methods", "lol", "project.methods names 'lol', which is not among pca."),
    ("project.format", "xlsx", "project.format must be zarr or parquet or csv or arrow, one or several"),
]


def test_a_mistaken_setting_is_named_with_its_place_and_an_example(tmp_path):
    """Plain words, each said once, and --set is named in place of the file that is right."""
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(SOUND))
    for key, value, expected in MISTAKES:
        with pytest.raises(ConfigError) as caught:
            load_config(path, {key: value}, places={key: f"--set {key}"})
        message = str(caught.value)
        assert message.startswith(f"--set {key}: ") and expected in message, (key, value)
        assert message.endswith((".", "?")) and message.count("found") <= 1
        assert not re.search("my.yaml|Input should|Could not|valid (string|integer|list)|validation error", message)


def test_mistakes_in_a_file_and_in_a_change_are_told_apart(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({**SOUND, "precision": "half"}))
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"n_components": 0}, places={"n_components": "--set n_components=0"})
    assert re.search(r"--set n_components=0: n_components must .*my\.yaml: precision must", str(caught.value))


def test_a_key_that_is_there_twice(tmp_path):
    """YAML takes the last of them without a word."""
    (tmp_path / "my.yaml").write_text("methods: pca\nn_components: 2\nn_components: 3\noutput: out\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "my.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/my.yaml is not readable as YAML: the key 'n_components', of line 2, is there 2 times."
    )


def test_what_is_no_yaml_has_a_place(tmp_path):
    (tmp_path / "my.yaml").write_text("methods: [pca\nn_components: 2\n")
    with pytest.raises(ConfigError, match=r"not readable as YAML: line 2, column 13: expected .* but got ':'\.$"):
        load_config(tmp_path / "my.yaml")


def test_every_setting_is_explained_with_a_valid_example():
    for key, field in settings_of(RunConfig):
        (example,) = field.examples
        assert len(field.description) > 10, key
        assert values_of(field) and example is not None, key
        section, _, name = key.rpartition(".")
        sound = {**SOUND, "methods": ["pca", "m-pca0"]}
        given = {"splits": "given", "column": "part"}
        timed = {"splits": "time", "column": "date"}
        kinds = {  # go with one value of another only
            "column": given, "held_out": given, "train": {"splits": "shares"}, "splits": {"column": "part"},
            "windows": timed, "boundary": timed,
        }  # fmt: skip
        if section == "evaluation":
            sound["evaluation"] = kinds.get(name, {})
        if name == "published":
            sound["n_components"] = 5
        changed = {**sound, section: {**sound.get(section, {}), name: example}} if section else {
            **sound, name: example
        }  # fmt: skip
        parse_config(changed, "the test")


def test_the_printed_configuration_holds_all_settings_at_their_defaults():
    loaded = yaml.safe_load(commented_yaml())
    config = parse_config(loaded, "the printed configuration")
    required = {key: loaded[key] for key in ("methods", "n_components", "output")}
    assert config == parse_config({"dataset": {"uri": loaded["dataset"]["uri"]}, **required}, "the test")
    stored = config.model_dump()
    assert loaded.keys() == stored.keys()
    assert all(loaded[section].keys() == stored[section].keys() for section in SECTIONS)
    assert max(map(len, commented_yaml().splitlines())) <= 80


def test_the_page_of_settings_is_what_the_code_says():
    """Regenerate it with: mmpca config --markdown > docs/settings.md"""
    assert (ROOT / "docs" / "settings.md").read_text() == page()


def test_environment_variables_replace_settings_of_a_file_and_options_replace_them(tmp_path, monkeypatch):
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({**SOUND, "precision": "double", "compute": {"workers": 3, "wait": 5}}))
    for name, value in {
        "MMPCA_COMPUTE__WORKERS": "4", "MMPCA_N_COMPONENTS": "[2, 4]", "MMPCA_STANDARDIZE": "true",
        "MMPCA_DATASET__DROP": "[id, name]", "MMPCA_METHODS": "[pca, {name: ridge, alpha: 3}]", "MMPCA_DATA": "/data",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    found = load_config(path)
    assert (found.compute.workers, found.compute.wait, found.n_components) == (4, 5, [2, 4])
    assert (found.standardize, found.precision, found.dataset.drop) == (True, "double", ["id", "name"])
    assert found.labels == ["pca", "ridge"]
    assert load_config(path, {"compute.workers": 7}).compute.workers == 7
    assert parse_config(SOUND, "a dictionary").compute.workers == 2, "only files and the command line"


def test_a_mistaken_environment_variable_is_named(tmp_path, monkeypatch):
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(SOUND))
    for name, value, message in (
        ("MMPCA_COMPUTE__WORKERS", "many", "variable MMPCA_COMPUTE__WORKERS: compute.workers must be a"),
        ("MMPCA_COMPUTE__WOKERS", "4", "MMPCA_COMPUTE__WOKERS: Unknown key 'compute.wokers'. Did you mean 'workers'"),
        ("MMPCA_METHODS", "[pca", "The environment variable MMPCA_METHODS is not readable as YAML."),
        ("MMPCA_PRECISION", "half", "the environment variable MMPCA_PRECISION: precision must be single or double"),
    ):
        with monkeypatch.context() as patch, pytest.raises(ConfigError) as caught:
            patch.setenv(name, value)
            load_config(path)
        assert message in str(caught.value)


NAME = "rows.npz"


def section(folder, uri=NAME):
    return DatasetConfig(uri=uri, data_dir=str(folder))


@pytest.fixture
def data(tmp_path):
    """Return the bytes of a data set."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    return Path(write_npz(tmp_path / "source.npz", X, np.arange(40) % 2)).read_bytes()


@pytest.mark.parametrize("folder", ["$MMPCA_DATA_A", "${MMPCA_DATA_A}", "$MMPCA_DATA_A/inner", "${MMPCA_DATA_A}/inner"])
def test_folders_that_a_variable_names(folder, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MMPCA_DATA_A", str(tmp_path / "data"))
    place = tmp_path / "data" / folder.partition("/")[2] / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    assert located(section(folder)) == str(place)


@pytest.mark.parametrize("uri", ["../rows.npz", "a/../../rows.npz", "..", "%2e%2e/rows.npz", "a\\..\\..\\rows.npz"])
def test_a_data_set_stays_in_its_folder(uri, data, tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "rows.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"leaves the folder of dataset.data_dir"):
        located(section(tmp_path / "data", uri))


@pytest.mark.parametrize("variable", ["SECRET", "PATH", "AWS_SECRET_ACCESS_KEY", "XMMPCA_DATA", "HOMES", "MMPCA_KEY"])
def test_other_variables_stand_for_nothing(variable, monkeypatch):
    monkeypatch.setenv(variable, "hunter2")
    with pytest.raises(InputError, match=r"only HOME and those that begin with MMPCA_DATA") as caught:
        located(section(f"${variable}"))
    assert variable in str(caught.value) and "hunter2" not in str(caught.value)

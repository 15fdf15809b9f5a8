"""Configurations from strangers end in settings or in one sentence."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mmpca_dist import errors
from mmpca_dist.configuration import parsing
from mmpca_dist.configuration.schema import RunConfig, load_config, parse_config
from mmpca_dist.errors import ConfigError, MmpcaError

FINE = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 2, "output": "out"}
TEXT = "dataset: {uri: bundled:iris}\nmethods: [pca]\nn_components: 2\noutput: out\n"


def load(tmp_path, text):
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return load_config(path)


NO_CONFIGURATION = [
    ("a: &a [x]\nb: [*a, *a]", r"the alias \*a, of line 2, is not read"),
    ("a: &a [*a]", r"the alias \*a, of line 1, is not read"),
    ("a: " + "[" * 20_000, "not readable as YAML"),
    (TEXT + f"seed: {'9' * 5000}", "not readable as YAML"),
    (TEXT + "seed: !!timestamp x", "could not determine a constructor"),
    (TEXT + "seed: !!int ''", "not readable as YAML"),
    (TEXT + "seed: !!bool maybe", "not readable as YAML"),
    (TEXT + "seed: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    (TEXT + "compute: {options: {queue: !!binary CmxzCg==}}", "could not determine a constructor"),
    (TEXT + "compute: {options: {queue: !!set {a}}}", "could not determine a constructor"),
    ("#" * (1 << 20) + "\n" + TEXT, "characters, and configurations at most 1,048,576"),
    (TEXT + "seed: 1\nseed: 2", "the key 'seed', of line 5, is there 2 times"),
    (TEXT + "? [a, b]\n: 1", "unhashable"),
    (TEXT + "\0", "unacceptable character #x0000"),
    (TEXT.replace("[pca]", "[{name: ridge, alpha: .inf}]"), r"alpha must be a number .*\(found inf\)"),
    (TEXT + "compute: {wait: .nan}", "compute.wait must be"),
    (TEXT + "compute: {memory_limit: 1e400GB}", "compute.memory_limit must be a size"),
    ("dataset: s3://key:hunter2@bucket/x\nmethods: pca", "dataset must hold .*found an address with credentials"),
]


def test_what_no_configuration_is(tmp_path):
    for text, words in NO_CONFIGURATION:
        with pytest.raises(ConfigError, match=words) as caught:
            load(tmp_path, text)
        assert "hunter2" not in str(caught.value)
        assert len(str(caught.value)) < 2_000


def test_of_many_unknown_keys_some_are_looked_up(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(errors.difflib, "get_close_matches", lambda *a, **k: asked.append(a) or [])
    with pytest.raises(ConfigError, match=r"Unknown key 'key0'.* There are 19980 more such problems\.") as caught:
        load(tmp_path, TEXT + "".join(f"key{i}: 1\n" for i in range(20_000)))
    assert len(asked) == 20
    assert len(str(caught.value)) < 20_000


def test_a_key_of_any_length_is_refused_without_a_search(tmp_path):
    with pytest.raises(ConfigError, match="Unknown key"):
        parse_config({**FINE, "x" * 1_000_000: 1}, "the form")


KEYS = st.sampled_from(
    ["dataset", "uri", "methods", "n_components", "output", "compute", "cluster", "options", "evaluation", "train",
     "memory_limit", "classifiers", "name", "seed", "solver", "tolerance", "<<", "data_dir", "image_shape"]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["pca", "auto", "svm", "1/0", "1e999", "9" * 5000, "local", "a.B", "tcp://h:1", "${HOME}", "-1/3"]),
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


def outcome(action):
    """A user's configuration makes settings or one sentence, and no other exception."""
    try:
        found = action()
    except MmpcaError as error:
        assert "\n" not in str(error) and len(str(error)) < 20_000
    else:
        assert isinstance(found, RunConfig)
        json.dumps(found.model_dump(mode="json"))


@settings(max_examples=100)
@given(st.dictionaries(KEYS, TREES, max_size=8), st.booleans())
def test_any_form_ends_in_a_sentence(content, filled):
    outcome(lambda: parse_config({**FINE, **content} if filled else content, "the form"))


@settings(max_examples=100)
@given(st.lists(st.sampled_from([*TEXT.split(" "), *"[]{}:,-&*?!|>%@\"'#\n", "&a ", "*a", "<<: ", "!!int ", "\t"])))
def test_any_text_ends_in_a_sentence(tmp_path, words):
    outcome(lambda: load(tmp_path, "".join(words)))


@settings(max_examples=100)
@given(TREES)
def test_what_yaml_writes_is_read_as_it_is(tree):
    """Dates apart, which are text."""
    text = yaml.safe_dump({"x": tree})
    try:
        expected = yaml.safe_load(text)
    except Exception:
        return
    assert repr(parsing.read_yaml(text)) == repr(expected)

"""Configurations from strangers: of any size and form, they end in settings or in one sentence."""

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


LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGES = "".join(f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a0: &a0 [x]\n{LAUGHS}", "more than 100,000 keys and values, aliases written out"),
        (f"m0: &m0 {{x: 1}}\n{MERGES}", "more than 100,000 keys and values, aliases written out"),
        ("a: &a [*a]", "an alias stands within what it names"),
        ("a: &a {b: {c: *a}}", "an alias stands within what it names"),
        ("a: " + "[" * 20_000, "nested more than 30 deep"),
        ("a: " + "{b: " * 1_000, "nested more than 30 deep"),
        ("\n".join(" " * i + "a:" for i in range(1_000)), "nested more than 30 deep"),
        ("- " * 5_000, "nested more than 30 deep"),
        (TEXT + f"seed: {'9' * 5000}", "not readable as YAML"),
        (TEXT + f"seed: 0x{'f' * 5000}", "seed is a number of 6021 digits"),
        (TEXT + f"seed: {':'.join(['59'] * 1000)}", "seed is a number of"),
        (TEXT + "seed: !!timestamp x", "not readable as YAML"),
        (TEXT + "seed: !!int ''", "not readable as YAML"),
        (TEXT + "seed: !!bool maybe", "not readable as YAML"),
        (TEXT + "seed: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        (TEXT + 'compute: {options: {a: "x\\0y"}}', "compute.options.a holds a character that no name may hold"),
        (TEXT + 'compute: {options: {"x\\0y": 1}}', "a key of compute.options holds a character"),
        (TEXT.replace(": out", ': "\\ud800"'), "output holds a character"),
        (TEXT + f"x: [{'1,' * 60_000}]", "x has 60,000 items, and may have 50,000"),
        (TEXT + "".join(f"x{i}: [{'1,' * 1000}]\n" for i in range(110)), "more than 100,000"),
        ("#" * (1 << 20) + "\n" + TEXT, "characters, and configurations at most 1,048,576"),
        (TEXT + "seed: 1\nseed: 2", "the key 'seed', of line 5, is there 2 times"),
        (TEXT + "? [a, b]\n: 1", "unhashable"),
        (TEXT + "\0", "unacceptable character #x0000"),
        (TEXT.replace("[pca]", "[ridge]") + "alpha: .inf", r"alpha must be a number .*\(found inf\)"),
        (TEXT + "compute: {wait: .nan}", "compute.wait must be"),
        (TEXT + "compute: {memory_limit: 1e400GB}", "compute.memory_limit must be a size"),
        ("dataset: s3://key:hunter2@bucket/x\nmethods: pca", "dataset must hold .*found an address with credentials"),
    ],
)
def test_what_no_configuration_is(text, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, text)
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_aliases_serve_as_before(tmp_path):
    text = TEXT.replace("methods: [pca]", "methods: &names [pca, lol]\nproject: {methods: *names}")
    assert load(tmp_path, text).project.methods == ["pca", "lol"]


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


def test_forms_have_the_same_bounds():
    deep: dict = {}
    inner = deep
    for _ in range(5_000):
        inner["a"] = inner = {}
    for options in (deep, {"a": [0] * 60_000}, {"a": 10**400}, {"a": "x\0y"}, {"a": [[0] * 1_000] * 1_000}):
        with pytest.raises(ConfigError, match=r"^the form: "):
            parse_config({**FINE, "compute": {"options": options}}, "the form")


KEYS = st.sampled_from(
    ["dataset", "uri", "methods", "n_components", "output", "compute", "cluster", "options", "evaluation", "train",
     "memory_limit", "classifiers", "name", "seed", "solver", "tolerance", "<<", "download", "data_dir", "image_shape"]
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


@settings(max_examples=300)
@given(st.dictionaries(KEYS, TREES, max_size=8), st.booleans())
def test_any_form_ends_in_a_sentence(content, filled):
    outcome(lambda: parse_config({**FINE, **content} if filled else content, "the form"))


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*TEXT.split(" "), *"[]{}:,-&*?!|>%@\"'#\n", "&a ", "*a", "<<: ", "!!int ", "\t"])))
def test_any_text_ends_in_a_sentence(tmp_path, words):
    outcome(lambda: load(tmp_path, "".join(words)))


@settings(max_examples=100)
@given(TREES)
def test_what_yaml_writes_is_read_as_it_is(tree):
    """The bounds change nothing of what is within them."""
    text = yaml.safe_dump({"x": tree})
    try:
        expected = yaml.safe_load(text)
    except Exception:
        return
    assert repr(parsing.read_yaml(text)) == repr(expected)

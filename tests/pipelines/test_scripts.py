"""What scripts and shells meet: text tables in runs, exit codes, JSON, silence, completion, the schema, no server."""

import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from helpers import ROOT
from helpers.commands import in_process
from helpers.tables import content_of
from jsonschema import Draft202012Validator
from sklearn.datasets import dump_svmlight_file, load_iris

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.configuration import bundled
from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.errors import ClusterError, ConfigError, OutputError
from mmpca_dist.ingest import to_parquet
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.inputs import readable_rows
from mmpca_pipelines.cli import cli
from mmpca_pipelines.flows import refused

X, Y = load_iris(return_X_y=True)


class Stages(list, Callback):
    def on_stage_start(self, stage):
        self.append(stage)


def write_csv(path, rows=X):
    lines = [",".join(map(str, [*row, f"k{y}"])) for row, y in zip(rows.tolist(), Y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,label", *lines]))
    return path


def config_of(tmp_path, uri, output="runs/one", **more):
    return content_of(tmp_path / output, uri, dataset=more)


def stages(config):
    told = Stages()
    run(config, [told])
    return told


def test_a_csv_is_converted_once_and_again_where_it_changes(tmp_path):
    source, output = write_csv(tmp_path / "iris.csv"), str(tmp_path / "runs" / "one")
    assert "convert" in stages(config_of(tmp_path, source))
    np.testing.assert_allclose(load_model(output, "pca").components_, _components(X), atol=1e-6)
    for folder, rows, told in (("one", X, []), ("two", X, []), ("two", 2 * X, ["convert"]), ("one", 2 * X, [])):
        if told:
            write_csv(source, rows)
        heard = Stages()
        table = readable_rows(str(source), str(tmp_path / "runs" / folder), DatasetConfig(uri=str(source)), heard)
        assert list(heard) == told
        np.testing.assert_array_equal(open_dataset(table).read_rows(0, 150), rows)
    with pytest.raises(OutputError, match="its input has changed"):
        run(config_of(tmp_path, source))
    dump_svmlight_file(X, Y, str(tmp_path / "iris.libsvm"), zero_based=False)
    text = str(tmp_path / "iris.libsvm")
    sparse = open_dataset(readable_rows(text, output, DatasetConfig(uri=text), heard))
    np.testing.assert_array_equal(sparse.read_labels(0, 150), Y)


def _components(rows):
    """Return the first two eigenvectors of the covariance, as rows, with the signs of the models: the slow way."""
    vectors = np.linalg.eigh(np.cov(rows.T))[1][:, ::-1][:, :2].T
    return vectors * np.sign(vectors[np.arange(2), np.abs(vectors).argmax(axis=1)])[:, None]


def test_a_killed_conversion_starts_again_and_a_lost_one_is_made_as_it_was(tmp_path, monkeypatch):
    source, output = str(write_csv(tmp_path / "iris.csv")), str(tmp_path / "runs" / "one")
    asked = source, output, DatasetConfig(uri=source), Callback()
    written = to_parquet.write_tables

    def half(file, tables, opened):
        written(file, (table.slice(0, 20) for table in tables), opened)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(to_parquet, "write_tables", half)
        readable_rows(*asked)
    table = Path(readable_rows(*asked))
    before = open_dataset(table)
    assert before.n_rows == 150
    shutil.rmtree(table.parent)
    time.sleep(0.01)
    assert open_dataset(readable_rows(*asked)).fingerprint() == before.fingerprint()


@pytest.mark.e2e
def test_exit_codes_and_silence(tmp_path):
    """0 done, 2 refused, 75 an outage; 130 and 1 are tested where runs are stopped, and where errors are unforeseen."""
    config = tmp_path / "my.yaml"
    config.write_text(yaml.safe_dump(config_of(tmp_path, write_csv(tmp_path / "iris.csv"))))
    done = in_process("run", config, "--no-prefect", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for arguments in (("run", tmp_path / "none.yaml"), ("check", tmp_path / "none.csv"), ("plan", config, "--none")):
        ended = in_process(*arguments)
        assert ended.returncode == 2 and ended.stdout == "" and "Traceback" not in ended.stderr
    lost = in_process("run", config, "--no-prefect", "-q", "--output", tmp_path / "b", "--set", "compute.cluster=tcp://127.0.0.1:9",
                   "--set", "compute.wait=0.2")  # fmt: skip
    assert lost.returncode == 75 and "scheduler answers" in lost.stderr
    assert refused(ClusterError("")).name == "Unreachable"


def test_json_of_commands_without_a_run(tmp_path):
    source = write_csv(tmp_path / "iris.csv")
    outputs = {}
    for words in (["methods"], ["check", str(source)], ["plan", str(source), "--output", str(tmp_path / "x")]):
        result = CliRunner().invoke(cli, [*words, "--json"])
        assert result.exception is None, result.exception
        outputs[words[0]] = json.loads(result.output)
    assert {"name", "keeps", "limit"} == set(outputs["methods"][0])
    assert outputs["check"]["classes"] == {"k0": 50, "k1": 50, "k2": 50}
    assert [column["use"] for column in outputs["check"]["columns"]] == ["number"] * 4 + ["label"]
    assert outputs["plan"]["memory"] > 0


@pytest.mark.e2e
def test_quick_commands_start_no_server(tmp_path):
    """Prefect is not even imported."""
    source = write_csv(tmp_path / "iris.csv")
    run(config_of(tmp_path, source))
    code = (
        "import sys; from mmpca_pipelines.cli import cli\n"
        "try: cli(sys.argv[1:], standalone_mode=False)\nfinally: print('prefect' in sys.modules)"
    )
    for words in (
        ["ingest", source, tmp_path / "iris.zarr"],
        ["transform", tmp_path / "runs/one", source, tmp_path / "new"],
        ["plan", source],
    ):
        ended = in_process(*words, code=[sys.executable, "-c", code], cwd=tmp_path)
        assert ended.stdout.splitlines()[-1] == "False", ended.stdout + ended.stderr


def test_shells_complete_configurations_and_options():
    def offered(*words):
        shell = {"COMP_WORDS": " ".join(["mmpca", *words]), "COMP_CWORD": str(len(words))}
        return in_process(_MMPCA_COMPLETE="bash_complete", **shell).stdout.split()

    assert "file,my" in offered("run", "my")
    assert {"plain,--label", "plain,--json"} <= set(offered("plan", "--"))
    assert "complete" in in_process(_MMPCA_COMPLETE="bash_source").stdout


def test_the_published_schema_is_that_of_the_code_and_takes_every_bundled_configuration():
    result = CliRunner().invoke(cli, ["config", "--schema"])
    schema = json.loads(result.output)
    assert result.output == (ROOT / "docs" / "config.schema.json").read_text(), (
        "mmpca config --schema > docs/config.schema.json"
    )
    validator = Draft202012Validator(schema)
    for name in bundled.run_names():
        validator.validate(yaml.safe_load(bundled.path_of(name).read_text()))
    validator.validate(config_of(Path(), "x.csv", drop="id", label="y"))
    assert not validator.is_valid(config_of(Path(), "x.csv", lable="y"))


def test_what_is_no_configuration_is_told_from_a_table(tmp_path):
    other = tmp_path / "table.dat"
    other.write_text("1,2,3\n" * 400_000)
    with pytest.raises(ConfigError, match="Names of tables end with"):
        run(other)

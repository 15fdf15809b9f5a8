"""The tables of Zhang & Schneider are configurations; a mistake in one brings one message."""

import numpy as np
import pytest
import yaml
from helpers.zhang_schneider import PAPER, table
from mmpca_paper.zhang_schneider.__main__ import TABLES, load_table, main
from mmpca_paper.zhang_schneider.table import Figure, published

from mmpca_dist.configuration import bundled
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import ConfigError


@pytest.fixture
def written(tmp_path):
    """Write Boston's configuration with some keys changed; None removes one."""

    def write(**changes):
        content = yaml.safe_load((PAPER / "zhang-schneider-boston.yaml").read_text()) | changes
        path = tmp_path / "table.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
        return str(path)

    return write


@pytest.mark.parametrize("data", TABLES)
def test_each_data_set_has_a_bundled_configuration_with_the_grid_of_the_paper(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_table(f"paper/zhang-schneider-{data}")
    assert config == table(data)
    assert type(config) is TABLES[data]
    np.testing.assert_allclose(config.alphas, 10.0 ** np.arange(-8, 11, 2))
    assert config.runs < config.FULL


def test_every_bundled_configuration_is_for_one_command():
    assert set(bundled.TABLES) == {f"paper/zhang-schneider-{data}" for data in TABLES}
    assert set(bundled.TABLES) <= set(bundled.names())
    assert not set(bundled.TABLES) & set(bundled.run_names())


@pytest.mark.parametrize("data", TABLES)
def test_the_configuration_of_a_table_is_not_taken_for_that_of_a_run(data):
    with pytest.raises(
        ConfigError, match=r"yaml is the configuration of a table, not of a run\. Compute it with 'pyth"
    ):
        load_config(PAPER / f"zhang-schneider-{data}.yaml")


@pytest.mark.parametrize(("changes", "message"), [
    ({"colums": "raw"}, "Unknown key 'colums'. Did you mean 'columns'?"),
    ({"epsilon": None}, "The key 'epsilon' is missing. Add it, such as 'epsilon: 0.1'."),
    ({"weight": "abslute"}, "weight must be absolute or relative, .* Did you mean 'absolute'?"),
    ({"runs": 0}, "runs must be a whole number of at least 1, such as 'runs: 20' .found 0.."),
    ({"alphas": [1, -1]}, "alphas must be positive numbers, such as .* .found -1.."),
    ({"table": "bostn"}, "table' must be boston or newsgroups or yale .found 'bostn'.. Did you mean 'boston'?"),
    ({"data": "absent.parquet"}, "data: there is no .*absent.parquet. Set the environment variable MMPCA_DATA"),
])  # fmt: skip
def test_a_mistake_is_named(written, changes, message, tmp_path, monkeypatch):
    monkeypatch.setenv("MMPCA_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=message.replace("?", "[?]")) as stopped:
        main([written(**changes)])
    assert str(stopped.value).startswith("Error: ")


def test_what_is_no_configuration_of_a_table_is_named(written, tmp_path):
    for text in ("runs: 1\nruns: 2", "[1, 2", "just words", ""):
        (tmp_path / "none.yaml").write_text(text)
        with pytest.raises(ConfigError, match=r"none\.yaml"):
            load_table(str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match=r"There is no paper/zhang-schneider-bostn\. .* Did you mean '.*-boston'\?"):
        load_table("paper/zhang-schneider-bostn")
    assert load_table(written(), "7").runs == 7
    for runs in ("0", "many", "2.5"):
        with pytest.raises(ConfigError, match=f"^--runs: runs must be a whole number of at least 1, .*'{runs}'"):
            load_table(written(), runs)


def test_a_path_goes_before_a_name_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MMPCA_DATA", str(tmp_path / "folder"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "rows.parquet").touch()
    assert table("boston", data="rows.parquet").path == tmp_path / "folder" / "rows.parquet"
    (tmp_path / "rows.parquet").touch()
    assert table("boston", data="rows.parquet").path.resolve() == tmp_path / "rows.parquet"


def test_a_comparison_prints_the_number_of_runs_standard_errors_over_them_and_gains(capsys, monkeypatch):
    config = table("boston", runs=3, seed=5)
    scores = {model: 50.0 for _, model in published(config.NUMBERS)}
    monkeypatch.setattr(type(config), "load", lambda self: None)
    monkeypatch.setattr(type(config), "run", lambda self, data, amount, seed: scores | {"Proj-PCR": 46.0 + seed})
    config.compare()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 of the paper's 500 runs; standard errors (s.e.) are over 3 runs"
    # seeds 5, 6 and 7: values 51, 52 and 53, whose deviation is 1
    assert lines[5] == "  50  Proj-PCR      52.00 (0.58)   53.55 (0.68)"
    assert lines[7] == "      Proj-PCR less Ridge:   2.00 (0.58), published 4.02"
    differences = np.asarray([50 - 49.53, 50 - 52.93, 50 - 52.58, 52 - 53.55, 50 - 53.63])
    assert lines[-1] == f"root mean squared difference {np.sqrt(np.mean(differences**2)):.2f}"


def test_a_single_run_has_no_standard_error():
    assert str(Figure.of(np.asarray([52.0]))) == " 52.00 (nan)"

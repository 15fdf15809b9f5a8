"""The folder of a run against a model of it: start, die, go on, change settings or input, damage, clean."""

import shutil
import tempfile
from pathlib import Path

import pytest
from helpers.resuming import KILLS, Killed, Writes, no_report, results_hash, small_units
from helpers.tables import labelled, make_config, write_zarr
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mmpca_dist import run
from mmpca_dist.errors import OutputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.runs.listing import clean, state_of

SETTINGS = [
    {"methods": ["pca"], "n_components": 2},
    {"methods": ["m-pca0", "m-pca1b"], "n_components": 3},
    {"methods": ["m-pca2"], "n_components": 2, "project": {"methods": []}},
]


class RunFolder(RuleBasedStateMachine):
    """What is expected: the run that the folder holds, if any, and the results of each run undisturbed."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        small_units(self.patch)
        no_report(self.patch)
        self.writes = Writes(self.patch)
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.held, self.finished, self.expected = None, False, {}

    def teardown(self):
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self):
        self.chosen, self.version, self.written = 0, 0, 0
        self._write_input()

    def _write_input(self):
        X, y = labelled(150, 5, 2, self.version)
        self.uri = write_zarr(self.folder / "rows.zarr", X, y, 10)
        self.written += 1

    def _config(self, output="out"):
        return make_config(self.folder / output, self.uri, compute={"workers": 1}, **SETTINGS[self.chosen])

    @property
    def wanted(self):
        """What the run is about: settings, and the rows as they were last written."""
        return self.chosen, self.written

    def _undisturbed(self):
        """Return the hash of the wanted run's results, made once in a folder of its own."""
        content = self.chosen, self.version
        if content not in self.expected:
            config = self._config(f"whole-{self.chosen}-{self.version}")
            run(config)
            self.expected[content] = results_hash(config.output)
        return self.expected[content]

    def _refused(self):
        with pytest.raises(OutputError, match="already holds a different run"):
            run(self._config())

    @rule()
    def go(self):
        """Start or go on, to the end."""
        if self.held not in (None, self.wanted):
            self._refused()
            return
        expected = self._undisturbed()
        run(self._config())
        self.held, self.finished = self.wanted, True
        assert results_hash(self._config().output) == expected
        assert state_of(RunDirectory(self._config().output)).state == "finished"
        assert not (self.folder / "out" / "scratch").exists()

    @rule(kill_at=st.integers(1, 60), when=st.sampled_from(KILLS))
    def go_and_die(self, kill_at, when):
        if self.held not in (None, self.wanted):
            self._refused()
            return
        self.writes.from_now(kill_at, when=when)
        try:
            run(self._config())
            died = False
        except Killed:
            died = True
        self.writes.from_now(None)
        if RunDirectory(self._config().output).exists:
            self.held = self.wanted
        self.finished = self.finished or not died

    @rule(number=st.integers(0, len(SETTINGS) - 1))
    def change_settings(self, number):
        self.chosen = number

    @rule(version=st.integers(0, 1))
    def write_input_again(self, version):
        """Other rows, or the same: that is not known without reading them."""
        self.version = version
        self._write_input()

    @precondition(lambda self: self.held is not None)
    @rule()
    def clear_scratch(self):
        clean(str(self.folder / "out"))
        assert not (self.folder / "out" / "scratch").exists()

    @precondition(lambda self: self.finished)
    @rule(what=st.sampled_from(["model", "statistics.zarr", "records/solve.json", "projected", "run.json"]))
    def lose(self, what):
        """Someone removes a part; without run.json it is nobody's folder."""
        place = self.folder / "out" / what
        if place.is_dir():
            shutil.rmtree(place)
        elif place.exists():
            place.unlink()
        if what == "run.json":
            with pytest.raises(OutputError, match="holds other files"):
                run(self._config())
            shutil.rmtree(self.folder / "out")
            self.held = None
        self.finished = False

    @rule()
    def leave_a_half_written_file(self):
        """As a process leaves it that dies while it writes."""
        if self.held is not None:
            (self.folder / "out" / "records" / ".solve.json.123.partial").parent.mkdir(exist_ok=True)
            (self.folder / "out" / "records" / ".solve.json.123.partial").write_bytes(b'{"key"')


SOME = settings(
    max_examples=8, stateful_step_count=8, deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


class TestRunFolder(RunFolder.TestCase):
    settings = SOME


@pytest.mark.slow
class TestRunFolderLonger(RunFolder.TestCase):
    settings = settings(SOME, max_examples=60)

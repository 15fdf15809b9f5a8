"""Commands in a terminal without Unicode, and in a process with a limit of its memory."""

import io
import resource
import sys

import numpy as np
import pytest
from helpers.tables import write_config, write_npz

from mmpca_dist.errors import PlanError
from mmpca_dist.jobs.journal import UnforeseenError, traceback_kept
from mmpca_pipelines import cli
from mmpca_pipelines.__main__ import main


def said(monkeypatch, encoding, *words, code=0):
    """Return what a command writes to standard output and error in this encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        patch.setattr(sys, "argv", ["mmpca", *words])
        if code:
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == code
        else:
            main()
    for stream in streams:
        stream.flush()
    return [stream.buffer.getvalue().decode(encoding) for stream in streams]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Labels, the file and the output have letters that Latin-1 or ASCII lack."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    write_npz("日本.npz", rng.standard_normal((60, 4)), np.asarray(["é", "日", "c"])[np.arange(60) % 3])
    return write_config(tmp_path / "my.yaml", "läufe/x", "日本.npz", methods=["pca", "m-pca0"])


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_that_is_not_utf_8_is_drawn_in_ascii(encoding, config, monkeypatch):
    out, err = said(monkeypatch, encoding, "run", config, "--no-prefect")
    assert "+ reduce" in out and "\n+-----" in out and err == ""
    assert not set(out) & set("✓│─┏")
    assert r"\u65e5\u672c.npz" in out
    for words in (["show", "läufe/x"], ["runs", "läufe"]):
        out, err = said(monkeypatch, encoding, *words)
        assert "+-----" in out and err == ""
    out, err = said(monkeypatch, encoding, "show", "日本", code=2)
    assert r"\u65e5\u672c" in err and "UnicodeEncodeError" not in err


@pytest.mark.usefixtures("no_report")
def test_utf_8_is_drawn_as_before(config, monkeypatch):
    out, _ = said(monkeypatch, "utf-8", "run", config, "--no-prefect")
    assert "✓ reduce" in out and "┌" in out and "日本.npz" in out


LIMITS = {resource.RLIMIT_AS: "ulimit -v", resource.RLIMIT_DATA: "ulimit -d"}
LACK = [
    MemoryError("Unable to allocate 7.63 MiB"),
    RuntimeError("can't start new thread"),
    ImportError("libfoo.so: failed to map segment from shared object"),
    OSError(12, "Cannot allocate memory"),
    OSError("Could not find/load shared object file 'libllvmlite.so'"),
    SystemError("error return without exception set"),
]


@pytest.fixture
def limited(monkeypatch):
    """Let one limit be set, as the process finds it; a real one would hold for all tests."""

    def limit(which, size=700 << 20):
        sizes = {which: (size, size)}
        monkeypatch.setattr(resource, "getrlimit", lambda name: sizes.get(name, (resource.RLIM_INFINITY,) * 2))

    return limit


@pytest.mark.parametrize("which", LIMITS)
@pytest.mark.parametrize("error", LACK, ids=lambda error: type(error).__name__)
def test_what_a_limit_of_memory_explains_names_it(error, which, limited, monkeypatch):
    limited(which)
    with pytest.raises(PlanError, match=rf"limited to 700 MiB \({LIMITS[which]}\)\. Raise the limit"), traceback_kept():
        raise ValueError("of no matter") from error
    monkeypatch.setattr(cli, "cli", lambda **_: (_ for _ in ()).throw(error))
    _, err = said(monkeypatch, "utf-8", "config", code=2)
    assert f"limited to 700 MiB ({LIMITS[which]})" in err and str(error) in err
    assert "report" not in err and "Traceback" not in err


def test_other_errors_and_those_without_a_limit_are_unforeseen(limited):
    others = [ZeroDivisionError("0"), ModuleNotFoundError("No module named 'x'"), OSError("no")]
    for which, errors in ((None, LACK), (resource.RLIMIT_AS, others)):
        limited(which)
        for error in errors:
            with pytest.raises(UnforeseenError, match="please report it"), traceback_kept():
                raise error


def test_rows_that_do_not_fit_are_not_called_damaged():
    from mmpca_dist.tables.source import readable

    with pytest.raises(MemoryError), readable("rows 0 to 9"):
        raise MemoryError("Unable to allocate 7.63 MiB")

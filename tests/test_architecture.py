"""The library stands alone, and its layers import leftwards only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mmpca_dist

ROOT = Path(mmpca_dist.__file__).parent
LAYERS = (
    "datasets.stores", "datasets", "datasets.readers", "datasets.ingest", "statistics", "neighbors", "solvers",
    "methods", "kernels", "predictors", "evaluation", "planning", "configuration", "jobs", "report",
    "evaluation_runs", "runs", "refresh",
)  # fmt: skip
SHARED = ("errors", "blas", "registry", "settings", "durations", "limits", "finite", "jit", "compile_notice")
"""Below every layer; they import no layer themselves."""
SOURCES = sorted(ROOT.rglob("*.py"))


def imported_modules(path):
    """Return the absolute names of what a file imports, within functions too."""
    tree, found = ast.parse(path.read_text()), set()
    package = (ROOT.name, *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return found


def layer_of(module):
    """Return the layer of a module's name below the package, or None."""
    names = module.split(".")[1:] if module.split(".")[0] == ROOT.name else []
    nested = ".".join(names[:2])
    return nested if nested in LAYERS else names[0] if names else None


def test_the_scan_sees_imports():
    """Guards the tests below: an import that is known to be there is found."""
    found = imported_modules(ROOT / "statistics" / "scatters.py")
    assert "mmpca_dist.statistics.moments" in found
    assert len(SOURCES) > 20


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_names_prefect_or_the_pipelines(path):
    for module in imported_modules(path):
        assert module.split(".")[0] not in ("prefect", "pipelines", "mmpca_pipelines"), f"{path} imports {module}"


def test_importing_every_module_loads_neither_prefect_nor_the_pipelines():
    names = [".".join((ROOT.name, *p.relative_to(ROOT).with_suffix("").parts)) for p in SOURCES]
    modules = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    code = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'prefect', 'mmpca_pipelines', 'mmpca_dist'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "['mmpca_dist']", result.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers_import_leftwards_only(path):
    own = layer_of(".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)))
    if own == "__init__":
        return
    if own in SHARED:
        assert not {layer_of(m) for m in imported_modules(path)} & set(LAYERS), f"{path} is below the layers"
        return
    assert own in LAYERS, f"{own} is in no layer: give it its place in the order"
    for module in imported_modules(path):
        target = layer_of(module)
        if target in LAYERS:
            assert LAYERS.index(target) <= LAYERS.index(own), f"{path} imports {module}, to its right"


def test_whoever_does_not_search_does_not_wait_for_compiled_code():
    """The inner loops of the neighbour search are compiled, or loaded, when they are imported."""
    code = (
        "import sys\nfrom sklearn.datasets import load_iris\nimport mmpca_dist\n"
        "X, y = load_iris(return_X_y=True)\nkernels = 'mmpca_dist.neighbors.kernels'\n"
        "mmpca_dist.MarginPCA(2).fit(X, y)\nprint(kernels in sys.modules)\n"
        "mmpca_dist.MarginPCA(2, 'm-pca2').fit(X, y)\nprint(kernels in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["False", "True"], result.stderr


@pytest.mark.parametrize("module", ["mmpca_dist", "mmpca_pipelines.cli"])
def test_what_starts_quickly_loads_no_heavy_library(module):
    """``import mmpca_dist``, ``mmpca --help`` and completion in a shell load these only once they are needed."""
    heavy = {"dask", "distributed", "numba", "numpy", "prefect", "pyarrow", "pydantic", "scipy", "sklearn", "zarr"}
    code = f"import sys, {module}\nprint(sorted(sys.modules.keys() & {heavy!r}))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "[]", result.stderr

"""The library stands alone, and its layers import leftwards only."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import mmpca_dist
import mmpca_pipelines

ROOT = Path(mmpca_dist.__file__).parent
PIPELINES = Path(mmpca_pipelines.__file__).parent
LAYERS = (
    "stores", "tables", "ingest", "passes", "statistics", "neighbors", "eigen", "optimise", "pictures", "methods",
    "models", "predictors", "evaluation", "planning", "configuration", "jobs", "report", "runs",
)  # fmt: skip
SHARED = ("errors", "blas", "registry", "settings", "durations", "limits", "finite", "jit", "compile_notice")
"""Below every layer; they import no layer themselves."""
SOURCES = sorted(ROOT.rglob("*.py"))
FAMILIES = sorted(path.name for path in (ROOT / "models").iterdir() if (path / "__init__.py").exists())


def module_of(path):
    """Return the name of the module in a file of the library or of the pipelines, and of the package it lies in."""
    root, name = (PIPELINES, "mmpca_pipelines") if path.is_relative_to(PIPELINES) else (ROOT, ROOT.name)
    names = (name, *path.relative_to(root).with_suffix("").parts)
    package = ".".join(names[:-1])
    return (package, package) if names[-1] == "__init__" else (".".join(names), package)


@cache
def imported_modules(path):
    """Return the absolute names of what a file imports, within functions too."""
    tree, found = ast.parse(path.read_text()), set()
    package = module_of(path)[1].split(".")
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
    names = module.split(".")
    return names[1] if names[0] == ROOT.name and len(names) > 1 else None


def test_the_scan_sees_imports():
    """Guards the tests below: an import that is known to be there is found."""
    found = imported_modules(ROOT / "statistics" / "scatters.py")
    assert "mmpca_dist.statistics.moments" in found
    assert len(SOURCES) > 20
    assert len(FAMILIES) >= 2


def test_no_module_names_prefect_or_the_pipelines():
    for path, module in ((source, module) for source in SOURCES for module in imported_modules(source)):
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


def test_layers_import_leftwards_only():
    order = (*SHARED, *LAYERS)
    for path in SOURCES:
        own = layer_of(module_of(path)[0])
        assert own is None or own in order, f"{own} is in no layer: give it its place in the order"
        for module in imported_modules(path) if own else ():
            target = layer_of(module)
            if target in LAYERS:
                assert order.index(target) <= order.index(own), f"{path} imports {module}, to its right"


def test_no_module_imports_itself_by_way_of_others():
    """Neither in the library nor in the pipelines, imports within functions included."""
    paths = [*SOURCES, *sorted(PIPELINES.rglob("*.py"))]
    imports = {module_of(path)[0]: imported_modules(path) for path in paths}
    graph = {module: targets & imports.keys() - {module} for module, targets in imports.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_design_page_lists_every_module():
    listed = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "modules.py"))
    assert listed["page"]() == listed["PAGE"].read_text(), "run python docs/modules.py"
    assert len(listed["lines"]()) > 200


def test_only_a_familys_own_folder_names_it():
    for path in [*SOURCES, *sorted(PIPELINES.rglob("*.py"))]:
        for family in FAMILIES:
            if not path.is_relative_to(ROOT / "models" / family):
                names = [name for name in imported_modules(path) if name.startswith(f"{ROOT.name}.models.{family}")]
                assert not names, f"{path} imports {names}"


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

"""The library stands alone, and its layers import leftwards only."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import mmpca_dist
import mmpca_pipelines

ROOT = Path(mmpca_dist.__file__).parent
PIPELINES = Path(mmpca_pipelines.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
LAYERS = (
    "stores", "tables", "ingest", "passes", "statistics", "neighbors", "eigen", "optimise", "pictures", "methods",
    "models", "predictors", "evaluation", "belonging", "planning", "configuration", "jobs", "results", "report", "runs",
)  # fmt: skip
SHARED = ("faults", "errors", "blas", "registry", "settings", "durations", "limits", "finite", "jit", "compile_notice",
          "column_words", "dask_arrays")  # fmt: skip
"""Below every layer; they import no layer themselves."""
SOURCES = sorted(ROOT.rglob("*.py"))
FAMILIES = sorted(path.name for path in (ROOT / "models").iterdir() if (path / "__init__.py").exists())
CODE = [*SOURCES, *sorted(PIPELINES.rglob("*.py"))]
READS_PRIVATE = {"mmpca_dist/passes/dask_rows.py"}  # Dask's ``_chunks``, which a reader in tables/ has, too
"""Files that may still read names with an underscore that others define."""


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
    """Guards the tests below: an import, and a read of a name, that are known to be there are found."""
    found = imported_modules(ROOT / "statistics" / "scatters.py")
    assert "mmpca_dist.statistics.moments" in found
    read = private_names(ROOT / "methods" / "base" / "transform.py")[1]
    assert ("_kept", "fitted") in {(name, of) for name, of, _ in read}
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


def test_one_module_uses_dask_ml():
    used = {path.name: {name for name in imported_modules(path) if name.startswith("dask_")} for path in SOURCES}
    assert {name: modules for name, modules in used.items() if modules} == {
        "out_of_core.py": {"dask_ml.wrappers", "dask_ml.wrappers.Incremental"}
    }


def test_no_module_imports_itself_by_way_of_others():
    """Neither in the library nor in the pipelines, imports within functions included."""
    imports = {module_of(path)[0]: imported_modules(path) for path in CODE}
    graph = {module: targets & imports.keys() - {module} for module, targets in imports.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_only_a_familys_own_folder_names_it():
    for path in CODE:
        for family in FAMILIES:
            if not path.is_relative_to(ROOT / "models" / family):
                names = [name for name in imported_modules(path) if name.startswith(f"{ROOT.name}.models.{family}")]
                assert not names, f"{path} imports {names}"


def test_no_class_name_occurs_twice():
    nodes = (node for path in CODE for node in ast.walk(ast.parse(path.read_text())))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def is_own(node):
    return ast.unparse(node) in ("self", "cls", "super()")


@cache
def private_names(path):
    """Return the names with an underscore that a file defines, and what it reads of other objects: (name, of, line)."""
    defined, read = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Attribute(attr=name, value=of, ctx=context) if is_own(of):
                defined.update([name] if isinstance(context, ast.Store) else [])
            case ast.Attribute(attr=name, value=of):
                read.add((name, ast.unparse(of), node.lineno))
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[of, ast.Constant(value=name), *_]):
                read.add((name, ast.unparse(of), node.lineno))
            case ast.ImportFrom():
                read.update((alias.name, f"{node.module}", node.lineno) for alias in node.names)
    private = re.compile(r"_(?!_)\w+").fullmatch
    return set(filter(private, defined)), {one for one in read if private(one[0])}


def test_no_module_reads_a_name_with_an_underscore_that_another_file_defines():
    """Of itself an object may read what its bases define; names that no file here defines are those of libraries."""
    of_project = set().union(*(private_names(path)[0] for path in CODE))
    for path in CODE:
        defined, read = private_names(path)
        found = [f"{path}:{line} reads {name} of {of}" for name, of, line in read if name in of_project - defined]
        assert not found or str(path.relative_to(ROOT.parent)) in READS_PRIVATE, found


def test_names_of_libraries_with_an_underscore_are_on_their_page():
    of_project, page = set().union(*(private_names(path)[0] for path in CODE)), (DOCS / "patches.md").read_text()
    documented = {"_asdict", "_exit", "_fields", "_replace"}  # of tuples with names, and of os
    for path in CODE:
        read = {name for name, *_ in private_names(path)[1]} - of_project - documented
        read |= {part for module in imported_modules(path) for part in module.split(".") if re.match("_(?!_)", part)}
        assert not [name for name in read - of_project if f"{name}`" not in page], path


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

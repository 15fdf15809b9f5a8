"""Draft a configuration for a table that was checked, with a comment on each line that was chosen."""

from __future__ import annotations

import math
import re
from pathlib import PurePosixPath
from typing import Any

from mmpca_dist.configuration.parsing import comment, on_one_line
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.checked_table import GROUPS, INDICATORS, LEFT_OUT, NUMBER, TableCheck
from mmpca_dist.tables.column_scatter import dominant_columns

SIZES = (1, 2, 4, 8, 16)
SEARCHED = 1e11
"""Columns times pairs of rows, up to which a draft has a search: two busy cores took 2e9 to 9e9 a second of noise,
which is the worst."""
OUTPUT = "a run with other settings needs another one"
WIDE = 0.8
"""With more columns than this share of the rows, fewer rows train than there are columns."""
UNLIKE = 10
"""Columns are standardised where one standard deviation is more than so many times another."""


def suggested_yaml(checked: TableCheck) -> str:
    """Return a configuration for a table, with a comment on each line that was chosen."""
    classes = "no labels" if checked.classless else f"{len(checked.classes):,} classes"
    key, what = ("target", "numbers") if checked.predicts else ("label", classes)
    sizes = [size for size in SIZES if size <= checked.n_features]
    name = PurePosixPath(re.sub(r"[?#].*", "", checked.uri).replace("\\", "/")).name.partition(".")[0]
    left_out, groups = checked.of_use(LEFT_OUT, GROUPS), checked.of_use(GROUPS)
    wide = not (checked.predicts or checked.classless) and checked.n_features > WIDE * checked.n_rows
    lines = [
        f"# Of {checked.n_rows:,} rows a run makes {checked.n_features:,} features. All settings: mmpca config.",
        "dataset:",
        _line("  uri", checked.uri, checked.layout),
        _line("  features", checked.features, "a column of lists"),
        _line(f"  {key}", checked.label, f"{what}; {checked.why}"),
        _line("  unlabelled", "skip" if checked.n_unlabelled else None, f"{checked.n_unlabelled:,} lack a label"),
        _line("  missing", "mean" if checked.n_gaps else None, f"means stand for {checked.n_gaps:,} gaps"),
        _line("  decimal", checked.decimal, "numbers have a decimal comma"),
        _line("  missing_values", checked.missing_values or None, "other cells of columns of numbers"),
        "  drop:" if left_out else "",
        *(f"    - {on_one_line(use.column.name)}{comment(use.reason)}" for use in left_out),
        _line("methods", *_methods(checked)),
        _line("n_components", sizes, f"of {checked.n_features:,} features; an evaluation compares them"),
        _line("standardize", *_standardize(checked)),
        "evaluation:" if groups or wide else "",
        _line("  classifiers", ["fisher"] if wide else None, "lda cannot use more columns than rows"),
        _line("  splits", "groups" if groups else None, "rows of a group are held out together"),
        *(_line("  column", use.column.name, use.reason) for use in groups),
        _line("output", f"runs/{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or 'mine'}", OUTPUT),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _methods(checked: TableCheck) -> tuple[list[str], str]:
    if checked.predicts:
        return ["pca", "pls", "ridge", "lasso"], "methods for numbers to predict"
    if checked.classless:
        return ["pca", "random-projection"], "methods that need no labels"
    methods = ["pca", "m-pca0", "m-pca1a", *(["fisher"] if checked.n_features <= LIMITS.dense_columns else [])]
    different = math.prod(use.column.n_distinct for use in checked.uses if use.n_features)
    if checked.uses and different < checked.n_rows:
        return methods, "one pass for all; columns of so few values do not tell all rows apart, as m-pca2 needs"
    if checked.n_rows**2 * checked.n_features <= SEARCHED:
        return [*methods, "m-pca2"], "one pass for all, and a search for m-pca2"
    return methods, "one pass for all; mmpca plan tells what a search for m-pca2 would cost"


def _standardize(checked: TableCheck) -> tuple[bool, str]:
    if checked.squares is not None:
        heavy = bool(dominant_columns(checked.squares))
        return heavy, f"the scatter is in {'a few columns' if heavy else 'many columns'}"
    if checked.of_use(INDICATORS) and checked.of_use(NUMBER):
        return True, "indicators of text stand beside numbers"
    deviations = [use.column.deviation for use in checked.of_use(NUMBER) if use.column.n_distinct > 2] or [1.0]
    low, high = min(deviations), max(deviations)
    return high > UNLIKE * low, f"standard deviations of columns are {low:.3g} to {high:.3g}"


def _line(key: str, value: Any, reason: str = "") -> str:
    return "" if value is None else f"{key}: {on_one_line(value)}{comment(reason)}"

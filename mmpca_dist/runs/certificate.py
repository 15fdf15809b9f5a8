"""What is proved and measured of the search for nearest rows of other classes, in words."""

from __future__ import annotations

from typing import Any

from dask.utils import format_bytes

from mmpca_dist.runs.models import LEADING

ARBITRARY = 45
"""Degrees between subspaces beyond which their last directions are called arbitrary."""

Results = dict[str, dict[str, Any]]
"""What the stages of a run left, by name."""


def search_line(results: Results) -> str | None:
    """Return one line on the search of a run; None where there was none."""
    if "search" not in results:
        return None
    found = results["search"]["certificate"]
    recall = "" if found["recall"] is None else f"recall {_recall(found['recall'])}, "
    proved = f"{recall}{_share(found['proved_exact'])} of them proved exact"
    line = f"search: {_queries(results)} rows, {proved}; {found['refined_per_query']:,.0f} candidates refined a query"
    return line + _uncertainty(results)


def search_notes(results: Results) -> list[str]:
    """Return what a reader of components must know of the search behind them."""
    if "search" not in results:
        return []
    notes, found = [], results["search"]["certificate"]
    if found["recall"] is not None:
        notes.append(
            f"M-PCA2 comes from an approximate search: {_recall(found['recall'])} of the rows it takes for nearest "
            f"are as near as the nearest, and its components {_off(_recall_angle(results), 'an exact search')}."
        )
    error = _sampling_error(results)
    if error is not None:
        notes.append(
            f"M-PCA2 comes from a search for {_queries(results)} rows: the standard errors of its leading eigenvalues "
            f"are {_relative_errors(results, error)}, and its components {_off(error['angle'], 'all rows')}."
        )
    return notes


def search_rows(results: Results) -> list[tuple[str, str, str]]:
    """Return the certificate of the search as (what, found, what that means); empty where there was none."""
    if "search" not in results:
        return []
    record, n_rows = results["search"], results["count"]["n_rows"]
    found = record["certificate"]
    first, second = found["coordinates"]
    levels = f"{first}" + (f", then {second}" if second else "")
    rows = [
        ("rows searched for", _queries(results), "rows whose nearest row of another class was sought"),
        (
            "proved exact",
            _share(found["proved_exact"]),
            "share of them for which everything that was left out is proved to be farther away",
        ),
        _recall_row(found),
        (
            "candidates compared",
            f"{found['compared_per_query']:,.0f} a row, of {n_rows:,}",
            "rows of other classes (or of cells with such) met in matrix products, in a few coordinates",
        ),
        (
            "candidates refined",
            f"{found['refined_per_query']:,.1f} a row",
            "those that might have been nearer, whose distance in all columns was computed",
        ),
        (
            "cells",
            f"{found['cells']:,}",
            "groups of rows that lie near to one another; far ones are left out as a whole",
        ),
        (
            "coordinates",
            f"{levels}, of {results['count']['n_features']:,} columns",
            "numbers by which rows are compared first: principal axes, and the length of what they miss",
        ),
        ("bytes read", format_bytes(found["bytes_read"]), "of rows laid out by cell, all tasks together"),
        (
            "scratch",
            format_bytes(found["scratch_bytes"]) + (", in memory" if record["in_memory"] else ", on disk"),
            "rows laid out by cell, there twice while they were sorted; gone after the search",
        ),
    ]
    if found["recall"] is not None:
        rows.append(
            (
                "what was missed",
                f"{_recall_angle(results):.2g} degrees",
                "angle between the space of the components of M-PCA2 and that of an exact search, estimated to first "
                "order from the rows that the recall's sample missed; rather too large than too small",
            )
        )
    return rows + _sampling_rows(results)


def _recall_row(found: dict[str, Any]) -> tuple[str, str, str]:
    recall = found["recall"]
    if recall is None and found["proved_exact"] < 1:
        return "recall", "not measured", "share of rows found that are as near as the nearest"
    if recall is None:
        return "recall", "100%", "share of rows found that are as near as the nearest: it follows from the proof"
    meaning = (
        f"share of rows found that are as near as the nearest, with its 95% confidence interval, measured on "
        f"{recall['sampled']:,} that were searched for exactly as well"
    )
    return "recall", _recall(recall), meaning


def _sampling_rows(results: Results) -> list[tuple[str, str, str]]:
    error = _sampling_error(results)
    if error is None:
        return []
    return [
        (
            "uncertainty of eigenvalues",
            _relative_errors(results, error),
            f"standard errors of the {min(LEADING, len(error['eigenvalues']))} leading eigenvalues of M-PCA2, for "
            "having searched for some rows only",
        ),
        (
            "uncertainty of components",
            f"{error['angle']:.2g} degrees",
            "largest angle between the space of the components of M-PCA2 and that from all rows, root mean square to "
            f"first order; from {ARBITRARY} on the last components are arbitrary: take fewer, or search for more rows",
        ),
    ]


def _uncertainty(results: Results) -> str:
    error = _sampling_error(results)
    return "" if error is None else f"; components {_off(error['angle'], 'all rows')}"


def _sampling_error(results: Results) -> dict[str, Any] | None:
    """Return the standard errors of a search for some rows only."""
    model = results.get("solve", {}).get("models", {}).get("m-pca2")
    if model is None or results["search"]["certificate"]["queries"] >= results["count"]["n_rows"]:
        return None
    return model["certificate"]["sampling_error"]


def _relative_errors(results: Results, error: dict[str, Any]) -> str:
    values = results["solve"]["models"]["m-pca2"]["leading"]
    shares = [e / v for e, v in zip(error["eigenvalues"][:LEADING], values, strict=False) if v > 0]
    return ", ".join(f"{100 * share:.2g}%" for share in shares) or "unknown"


def _recall_angle(results: Results) -> float:
    """Return how many degrees the rows that an approximate search missed may turn the components."""
    return results["solve"]["models"]["m-pca2"]["certificate"]["recall_angle"]


def _off(angle: float, exact: str) -> str:
    """Return how far components are from those of ``exact``, as the end of a sentence about them."""
    if angle >= ARBITRARY:
        return f"may differ from those of {exact} altogether from some number on: take fewer, or look further"
    return f"are about {angle:.2g} degrees off those of {exact}"


def _queries(results: Results) -> str:
    searched, n_rows = results["search"]["certificate"]["queries"], results["count"]["n_rows"]
    return f"{searched:,}" if searched >= n_rows else f"{searched:,} of {n_rows:,}"


def _share(share: float) -> str:
    """Return a percentage that says 100% only where it is."""
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".")
    return ("99.99" if text == "100" and share < 1 else text) + "%"


def _recall(recall: dict[str, Any]) -> str:
    return f"{recall['share']:.1%} ({recall['low']:.1%} to {recall['high']:.1%})"

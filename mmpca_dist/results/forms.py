"""How each kind of number is written, on pages, in terminals, in notebooks and by Prefect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dask.utils import format_bytes, format_time

DASH = "-"
"""In the place of a number that is not known, or that there is not; consoles without UTF-8 show it, too."""
LEAST_P = 1e-16
"""Smaller p-values are shown as less than this: double precision does not tell them from 0."""


def _share(value: float) -> str:
    if 0 < value < 1e-5:
        return "<0.001%"
    return f"{100 * value:.1f}%" if value >= 0.001 or value <= 0 else f"{100 * value:.1g}%"


def _proved(value: float) -> str:
    text = f"{100 * value:.2f}".rstrip("0").rstrip(".")
    return ("99.99" if text == "100" and value < 1 else text) + "%"


def _p_value(value: float) -> str:
    if value >= 0.001:
        return f"p = {value:.2f}" if value >= 0.1 else f"p = {value:.3f}"
    return f"p = {value:.0e}".replace("e-0", "e-") if value > LEAST_P else f"p < {LEAST_P:.0e}"


FORMS: dict[str, Callable[[Any], str]] = {
    "count": "{:,}".format,
    "share": _share,
    "size": lambda size: f"K = {size}" if size >= 1 else f"share {size}",  # of components asked for
    "proved": _proved,  # 100% only where it is
    "reached": lambda share: f"{np.floor(1000 * share) / 10:.3g}%",  # never rounded up
    "eigenvalue": "{:.4g}".format,
    "value": lambda value: f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}",
    "residual": "{:.0e}".format,
    "rounding": "{:.2g}".format,
    "r2": "{:.3f}".format,
    "rmse": "{:.4g}".format,
    "auc": "{:.3f}".format,
    "average_precision": "{:.3f}".format,
    "angle": "{:.2g} degrees".format,
    "principal angle": "{:.1f}".format,
    "p": _p_value,
    "error": "{:.2f}".format,
    "setting": "{:.4g}".format,
    "margin": "{:.3g}".format,
    "apart": lambda value: f"{value:+.1f}" if abs(value) >= 0.05 else "0.0",
    "bytes": format_bytes,
    "time": format_time,
}  # fmt: skip
"""By kind of number."""


def written(kind: str, value: Any) -> str:
    """Return a number as its kind is written; a dash for None and for what is not finite."""
    return DASH if value is None or not np.isfinite(value) else FORMS[kind](value)


def with_deviation(mean: float, deviation: float, form: Callable[[Any], str]) -> str:
    """Return a mean with its standard deviation, "17.3 (3.0)"; the mean alone where no deviation is known."""
    return f"{form(mean)} ({form(deviation)})" if np.isfinite(deviation) else form(mean)

"""What a run of the benchmarks writes: ``results.json``, ``table.md`` and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, Any]
HEAD = ("case", "who", "seconds", "times ours", "passes", "GB read", "peak MiB", "accuracy", "times the floor")
COLOURS = {"ours": "#0072B2", "own": "#56B4E9", "peer": "#E69F00", "floor": "#999999"}


def write(results: Results, folder: Path) -> None:
    """Write all files of a run; cases of an earlier one on the same machine with the same versions stay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    if path.exists():
        results = _merged(json.loads(path.read_text()), results)
    path.write_text(json.dumps(results, indent=1) + "\n")
    (folder / "table.md").write_text(page(results))
    draw_ratios(results, folder / "ratios.png")
    draw_slopes(results, folder)


def _merged(before: Results, results: Results) -> Results:
    if any(before[key] != results[key] for key in ("machine", "versions")):
        return results
    new = {case["case"]: case for case in results["cases"]}
    old = {case["case"]: case for case in before["cases"]}
    return {**results, "cases": [{**old, **new}[name] for name in [*old, *(name for name in new if name not in old)]]}


def page(results: Results) -> str:
    """Return the table as a page in Markdown."""
    machine, versions = results["machine"], results["versions"]
    libraries = ", ".join(f"{name} {number}" for name, number in versions.items())
    lines = [
        "# Table of benchmarks", "",
        f"Written by `python -m benchmarks` on {results['date']}: {machine['processor']} ({machine['architecture']}), "
        f"{machine['cores']} cores, {machine['memory'] / 2**30:.0f} GiB, load {results['load']:.1f} at the start. "
        f"Medians of {results['rounds']} rounds. [Benchmarks](../benchmarks.md) explains the columns.", "",
        f"Versions: {libraries}.", "", "| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD),
    ]  # fmt: skip
    for case in results["cases"]:
        title = f"{case['case']} ({_shape(case['shape'])})"
        for row in case["rows"]:
            lines.append("| " + " | ".join([title, *_fields(row)]) + " |")
            title = ""
        lines += [f"| | *{who}* | {seconds:.3g} | | | | | {source} | |" for who, seconds, source in case["published"]]
    return "\n".join(lines) + "\n"


def _shape(shape: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value:,}" if type(value) is int else f"{key} {value}" for key, value in shape.items())


def _fields(row: Results) -> list[str]:
    name = {"ours": f"**{row['name']}**", "own": f"**{row['name']}**", "floor": f"*{row['name']}*"}
    shown = name.get(row["role"], row["name"])
    if "seconds" not in row:
        return [shown, row.get("status", "not run"), *[""] * (len(HEAD) - 3)]
    ratio, near = row.get("ratio"), row.get("times the floor")
    accuracy = ", ".join(f"{key} {value:.2g}" for key, value in (row.get("accuracy") or {}).items())
    return [
        shown, f"{row['seconds']:.3g}", f"{ratio:.2f}" if ratio else "", str(row.get("passes") or ""),
        f"{row['bytes'] / 1e9:.2f}" if "bytes" in row else "", f"{row['peak'] / 2**20:.0f}", accuracy,
        f"{near:.2f}" if near else "",
    ]  # fmt: skip


def draw_ratios(results: Results, path: Path) -> None:
    """Draw the seconds of all entries relative to ours, a line for each case."""
    from matplotlib.figure import Figure

    cases = [case for case in results["cases"] if any("ratio" in row for row in case["rows"])]
    sheet = Figure(figsize=(9, 1 + 0.32 * len(cases)), layout="constrained", dpi=110)
    axes = sheet.subplots()
    for height, case in enumerate(reversed(cases)):
        for row in case["rows"]:
            if row.get("ratio"):
                axes.plot(row["ratio"], height, "o", color=COLOURS[row["role"]], alpha=0.8)
    for role, label in (("ours", "ours"), ("own", "other forms of ours"), ("peer", "peers"), ("floor", "floors")):
        axes.plot([], [], "o", color=COLOURS[role], label=label)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), [case["case"] for case in reversed(cases)])
    axes.set_xlabel("seconds, as multiples of ours in the same run")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    sheet.savefig(path)


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the exponent of the power law that fits best."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def draw_slopes(results: Results, folder: Path) -> None:
    """Draw time and memory over rows of each case whose entries have ``rows`` of their own."""
    from matplotlib.figure import Figure

    for case in results["cases"]:
        series: dict[str, list[tuple[int, float, float]]] = {}
        for row in case["rows"]:
            if "rows" in row and "seconds" in row:
                series.setdefault(row["name"].partition(",")[0], []).append((row["rows"], row["seconds"], row["peak"]))
        if not series:
            continue
        sheet = Figure(figsize=(9, 3.4), layout="constrained", dpi=110)
        for number, (axes, label) in enumerate(zip(sheet.subplots(1, 2), ("seconds", "peak MiB"), strict=True)):
            for name, points in series.items():
                sizes = [point[0] for point in sorted(points)]
                values = [point[1 + number] / (1, 2**20)[number] for point in sorted(points)]
                axes.loglog(sizes, values, "o-", label=f"{name} (slope {slope(sizes, values):.2f})")
            axes.set_xlabel("rows")
            axes.set_ylabel(label)
            axes.legend(frameon=False, fontsize=8)
        sheet.savefig(folder / f"{case['case'].partition(': ')[2].replace(' ', '-')}.png")

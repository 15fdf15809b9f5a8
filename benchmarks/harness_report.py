"""The files of a run of the benchmarks: ``results.json``, ``table.md`` and pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

Results = dict[str, Any]
HEAD = (
    "case",
    "who",
    "seconds",
    "of the processor",
    "times ours",
    "passes",
    "GB read",
    "peak MiB",
    "accuracy",
    "times the floor",
)
ROLES = {"ours": ("#0072B2", "**"), "own": ("#56B4E9", "**"), "peer": ("#E69F00", ""), "floor": ("#999999", "*")}
"""Colours of pictures and marks of the table."""


def write(results: Results, folder: Path) -> None:
    """Write all files of a run; cases of an earlier one on the same machine with the same versions stay."""
    path, new = folder / "results.json", {case["case"]: case for case in results["cases"]}
    folder.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else results
    if all(before[key] == results[key] for key in ("machine", "versions")):
        results = {**results, "cases": list({**{case["case"]: case for case in before["cases"]}, **new}.values())}
    path.write_text(json.dumps(results, indent=1) + "\n")
    (folder / "table.md").write_text(page(results))
    draw_ratios(results, folder / "ratios.png")
    for case in results["cases"]:
        if any("rows" in row for row in case["rows"]):
            draw_slopes(case, folder / "slopes.png")


def page(results: Results) -> str:
    """Return the table as a page in Markdown."""
    machine, versions = results["machine"], results["versions"]
    lines = [
        "# Table of benchmarks", "",
        f"Written by `python -m benchmarks` on {results['date']}: {machine['processor']} ({machine['architecture']}), "
        f"{machine['cores']} cores, {machine['memory'] / 2**30:.0f} GiB, load {results['load']:.1f} at the start. "
        f"Medians of {results['rounds']} rounds. [Benchmarks](../benchmarks.md) explains the columns.", "",
        f"Versions: {', '.join(f'{name} {number}' for name, number in versions.items())}.", "",
        "| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD),
    ]  # fmt: skip
    for case in results["cases"]:
        title = f"{case['case']} ({', '.join(f'{key} {value}' for key, value in case['shape'].items())})"
        for row in case["rows"]:
            lines.append("| " + " | ".join([title, *_fields(row)]) + " |")
            title = ""
        lines += [f"| | *{who}, published* | {figure} | | | | | | {of} | |" for who, figure, of in case["published"]]
    return "\n".join(lines) + "\n"


def _fields(row: Results) -> list[str]:
    mark = ROLES[row["role"]][1]
    name = f"{mark}{row['name']}{mark}"
    if "seconds" not in row:
        return [name, row.get("status", "not run"), *[""] * (len(HEAD) - 3)]
    accuracy = ", ".join(f"{key} {value:.3g}" for key, value in row.get("accuracy", {}).items())
    numbers = {"ratio": ".2f", "passes": "", "bytes": ".2f", "peak": ".0f"}
    scaled = {**row, "bytes": row["bytes"] / 1e9 if "bytes" in row else None, "peak": row["peak"] / 2**20}
    shown = [format(scaled[key], form) if scaled.get(key) is not None else "" for key, form in numbers.items()]
    near = f"{row['times the floor']:.2f}" if "times the floor" in row else ""
    return [name, f"{row['seconds']:.3g}", f"{row['processor']:.3g}", *shown, accuracy, near]


def draw_ratios(results: Results, path: Path) -> None:
    """Draw the seconds of all entries relative to ours, a line for each case."""
    cases = results["cases"][::-1]
    sheet = Figure(figsize=(9, 1 + 0.32 * len(cases)), layout="constrained", dpi=110)
    axes = sheet.subplots()
    for role, (colour, _) in ROLES.items():
        axes.plot([], [], "o", color=colour, label=role)
        for height, case in enumerate(cases):
            ratios = [row["ratio"] for row in case["rows"] if row["role"] == role and row.get("ratio")]
            axes.plot(ratios, [height] * len(ratios), "o", color=colour, alpha=0.8)
    axes.set(xscale="log", xlabel="seconds, as multiples of ours in the same run")
    axes.set_yticks(range(len(cases)), [case["case"] for case in cases])
    axes.grid(axis="x", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    sheet.savefig(path)


def slope(sizes: Any, values: Any) -> float:
    """Return the exponent of the power law that fits best."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def draw_slopes(case: Results, path: Path) -> None:
    """Draw time and memory over rows, a line for each beginning of names."""
    rows = [row for row in case["rows"] if "seconds" in row]
    sheet = Figure(figsize=(9, 3.4), layout="constrained", dpi=110)
    for axes, key in zip(sheet.subplots(1, 2), ("seconds", "peak"), strict=True):
        for name in dict.fromkeys(row["name"].partition(",")[0] for row in rows):
            points = sorted((row["rows"], row[key]) for row in rows if row["name"].startswith(name + ","))
            axes.loglog(*np.transpose(points), "o-", label=f"{name} (slope {slope(*np.transpose(points)):.2f})")
        sizes = sorted({row["rows"] for row in rows})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        axes.minorticks_off()
        axes.set(xlabel="rows", ylabel="seconds" if key == "seconds" else "peak bytes")
        axes.legend(frameon=False, fontsize=8)
    sheet.savefig(path)

"""The report of a run: one HTML file that carries its pictures inside."""

from mmpca_dist.runs.report.contents import Choice, Margins, MethodResult, Reconstructions, ReportContents
from mmpca_dist.runs.report.drawing import Figure
from mmpca_dist.runs.report.figures import figures
from mmpca_dist.runs.report.page import render

__all__ = ["Choice", "Figure", "Margins", "MethodResult", "Reconstructions", "ReportContents", "figures", "render"]

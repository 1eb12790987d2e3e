"""Draws the folders of the package, bottom to top, with the way of a row and of a gradient.

python docs/figures/architecture.py
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from deepfls.inspection import new_figure

FOLDERS = [
    ("_checks, _files", "and metrics: checks, files, measures"),
    ("functional", "formulas in plain torch"),
    ("kernels", "compiled twin of functional and nn"),
    ("nn", "modules: T1FLS, IT2FLS, GT2FLS"),
    ("data", "tables, scaling, sources of rows"),
    ("training", "flat parameters, loop, checkpoints"),
    ("estimators", "fit pipeline, prediction, intervals"),
    ("inspection", "plain systems, rules, plots, page"),
    ("export", "C, ONNX, FLL, .fis"),
    ("engines", "clusters"),
    ("cli", "commands"),
]
ROW, GRADIENT = "#2a6f97", "#c1542d"
# Places on the way, as rows of FOLDERS.
WAY_OF_A_ROW = [(4, "read, scaled"), (6, "fit"), (5, "batches"), (2, "step"), (6, "predict"), (10, "result")]
WAY_OF_A_GRADIENT = [(2, "loss, gradient"), (5, "update"), (3, "parameters")]


def draw_way(axes: Any, way: list[tuple[int, str]], x: float, step: float, color: str, title: str) -> None:
    points = [(x + step * number, place + 0.5) for number, (place, _) in enumerate(way)]
    axes.text(x, len(FOLDERS) + 0.25, title, color=color, fontsize=10, fontweight="bold")
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        axes.annotate("", (x1, y1), (x0, y0), arrowprops={"arrowstyle": "->", "color": color, "lw": 1.6})
    for (px, py), (_, text) in zip(points, way, strict=True):
        axes.plot([px], [py], "o", color=color, markersize=5)
        axes.text(px + 0.09, py + 0.14, text, color=color, fontsize=8)


def main() -> None:
    figure = new_figure(9.5, 5.4)
    axes = figure.subplots()
    axes.set_axis_off()
    for place, (name, text) in enumerate(FOLDERS):
        axes.fill_between([0, 10.4], place + 0.06, place + 0.94, color="#eef2f5" if place % 2 else "#f7f9fa", lw=0)
        axes.text(0.1, place + 0.5, name, va="center", fontsize=10, fontweight="bold", color="#222222")
        axes.text(2.05, place + 0.5, text, va="center", fontsize=8.5, color="#555555")
    draw_way(axes, WAY_OF_A_ROW, 4.6, 0.6, ROW, "a row")
    draw_way(axes, WAY_OF_A_GRADIENT, 8.3, 0.5, GRADIENT, "a gradient")
    axes.set_xlim(0, 10.4)
    axes.set_ylim(-0.1, len(FOLDERS) + 0.7)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()

"""The picture of the idea, drawn from real calls: python docs/figures/footprint.py [PNG]

Left: fuzzy sets with a footprint turn one input into firing intervals. Right: the weighted means that weights from these
intervals can produce form the type-reduced set, and at each of its ends every rule weighs one end of its interval.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from deepfls.functional import interval_gaussian_grades, karnik_mendel

# Okabe and Ito's colours, told apart by colour-blind readers. Rules also differ in place and carry their number.
COLORS = ("#0072B2", "#D55E00", "#009E73")
INK, MUTED = "#222222", "#777777"
STYLE = {
    "font.size": 14,
    "axes.titlesize": 16,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 14,
    "axes.labelsize": 15,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

LEGEND = {"frameon": False, "handlelength": 1.6, "handletextpad": 0.5, "columnspacing": 1.4}

CENTERS = torch.tensor([[-2.0], [0.0], [2.0]])
UPPER_SIGMAS = torch.full((3, 1), 1.5)
LOWER_SIGMAS = torch.full((3, 1), 1.1)
HEIGHTS = torch.full((3, 1), 0.65)
CONSEQUENTS = torch.tensor([[[1.0], [4.0], [7.0]]])  # (batch, rules, outputs)
INPUT = 0.3


def draw_sets(ax: Axes, lower_firing: list[float], upper_firing: list[float]) -> None:
    """Three sets with their footprints, and the firing intervals of one input."""
    x = torch.linspace(-5.0, 5.0, 600).unsqueeze(1)
    lower, upper = (
        grades[..., 0].T for grades in interval_gaussian_grades(x, CENTERS, LOWER_SIGMAS, UPPER_SIGMAS, HEIGHTS)
    )
    ax.plot([INPUT, INPUT], [0, 0.98], color=INK, linewidth=1.5, linestyle=":", zorder=3)
    for p, color in enumerate(COLORS):
        ax.fill_between(x[:, 0], lower[p], upper[p], color=color, alpha=0.16, linewidth=0)
        ax.plot(x[:, 0], upper[p], color=color, linewidth=2)
        ax.plot(x[:, 0], lower[p], color=color, linewidth=2, linestyle=(0, (4, 2)))
        ax.text(CENTERS[p, 0], 1.04, f"rule {p + 1}", color=color, ha="center", weight="bold")
        # Side by side, so that the intervals of different rules at the same input never cover each other.
        place = INPUT + 0.2 * (p - 1)
        ax.plot(
            [place, place], [lower_firing[p], upper_firing[p]], color=color, linewidth=9, solid_capstyle="butt", zorder=4
        )
    ax.set(xlim=(-5, 5), ylim=(0, 1.12), ylabel="membership grade", yticks=[0, 0.5, 1])
    ax.set_xticks([-4, -2, INPUT, 2, 4], ["-4", "-2", f"x = {INPUT:g}", "2", "4"])
    ax.get_xticklabels()[2].set_fontweight("bold")
    ax.set_title("One input fires every rule with an interval")
    entries = [
        Line2D([], [], color=MUTED, linewidth=2, label="upper grade"),
        Line2D([], [], color=MUTED, linewidth=2, linestyle=(0, (4, 2)), label="lower grade"),
        Patch(color=MUTED, alpha=0.3, linewidth=0, label="footprint"),
        Line2D([], [], color=MUTED, linewidth=9, solid_capstyle="butt", label="firing interval at x"),
    ]
    ax.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=4, **LEGEND)


def draw_end(ax: Axes, lower_firing: list[float], upper_firing: list[float], end: float, name: str) -> None:
    """The weights chosen at one end of the set: upper ends on the outer side of the switch point, lower ends inside."""
    outer_is_left = name == "left"
    for p, (color, low, up) in enumerate(zip(COLORS, lower_firing, upper_firing, strict=True)):
        place = CONSEQUENTS[0, p, 0].item()
        weight = up if (place <= end if outer_is_left else place >= end) else low
        ax.plot([place, place], [low, up], color=color, linewidth=16, solid_capstyle="butt", alpha=0.3)
        ax.plot([place, place], [0, weight], color=color, linewidth=2.5)
        ax.scatter(place, weight, s=120, color=color, zorder=4)
        ax.text(place + 0.17, weight, f"{weight:.2f}", color=color, va="center", weight="bold")
    ax.axvline(end, color=INK, linewidth=1.5, linestyle=":")
    sides = ("upper ends", "lower ends") if outer_is_left else ("lower ends", "upper ends")
    ax.text(end - 0.1, 1.2, f"← {sides[0]}", ha="right", va="center", color=MUTED)
    ax.text(end + 0.1, 1.2, f"{sides[1]} →", ha="left", va="center", color=MUTED)
    ax.text(end + (-0.2 if outer_is_left else 0.2), 0.5, "switch point", ha="center", va="center", rotation=90, color=MUTED)
    ax.set(ylim=(-0.09, 1.32), yticks=[0, 0.5, 1], ylabel=f"weights\nat $y_{{{name}}}$")
    ax.tick_params(labelbottom=False)


def draw_set(ax: Axes, y_left: float, y_right: float) -> None:
    """The type-reduced set and its middle."""
    y = 0.5 * (y_left + y_right)
    for end in (y_left, y_right):
        ax.plot([end, end], [0, 1], color=INK, linewidth=1.5, linestyle=":")
    ax.plot([y_left, y_right], [0, 0], color=INK, linewidth=10, solid_capstyle="butt")
    ax.scatter(y, 0, s=170, color="white", edgecolor=INK, linewidth=2.5, zorder=5)
    ax.text(y_left - 0.1, 0, f"$y_{{left}}$ = {y_left:.2f}", ha="right", va="center")
    ax.text(y_right + 0.1, 0, f"$y_{{right}}$ = {y_right:.2f}", ha="left", va="center")
    ax.text(y, 0.3, f"y = {y:.2f}", ha="center", va="bottom", weight="bold")
    ax.set(ylim=(-0.6, 1), yticks=[], xlabel="consequent")
    ax.spines["left"].set_visible(False)


def main(path: Path) -> None:
    lower, upper = interval_gaussian_grades(torch.tensor([[INPUT]]), CENTERS, LOWER_SIGMAS, UPPER_SIGMAS, HEIGHTS)
    lower_firing, upper_firing = lower[..., 0], upper[..., 0]  # with one feature the grades are the firing
    y_left, y_right = (end.item() for end in karnik_mendel(lower_firing, upper_firing, CONSEQUENTS))
    intervals = (lower_firing[0].tolist(), upper_firing[0].tolist())
    with mpl.rc_context(STYLE):
        # A Figure without pyplot: no window system and no global state.
        figure = Figure(figsize=(16, 6.5), dpi=100, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
        left, right = figure.subfigures(1, 2)
        draw_sets(left.subplots(), *intervals)
        axes = right.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.5))
        draw_end(axes[0], *intervals, y_left, "left")
        draw_end(axes[1], *intervals, y_right, "right")
        draw_set(axes[2], y_left, y_right)
        axes[0].set_title("Weights from the intervals give a set of outputs")
        places = CONSEQUENTS[0, :, 0].tolist()
        axes[2].set_xlim(0.4, 7.9)
        axes[2].set_xticks(places, [f"rule {p + 1}\n{place:g}" for p, place in enumerate(places)])
        for label, color in zip(axes[2].get_xticklabels(), COLORS, strict=True):
            label.set(color=color, fontweight="bold")
        figure.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))

"""The base of all plots, in the manner of scikit-learn's displays: colours, labels, figures outside pyplot."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from deepfls._checks.values import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Self

# Distinguishable with any colour vision (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#666666")
# Reference lines and true values.
GREY = "#444444"
# More points than this are counted in hexagons instead of being drawn one by one.
_DENSE = 3_000


class Display:
    """A plot of the data in its fields.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
        Both are set by ``plot``.
    """

    ax_: Axes
    figure_: Figure

    def _finish(self, ax: Axes) -> Self:
        """Hide two spines, and store the axes and their figure."""
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, cast("Figure", ax.figure)
        return self


def label(name: object, width: int = 40) -> str:
    """A name as a label: one line, shortened, with "$" escaped so that no part is read as a formula."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """A figure outside pyplot, which keeps no list of it; width and height are in inches.

    Examples
    --------
    >>> from deepfls.inspection import new_figure
    >>> ax = new_figure(4.0, 3.0).subplots()
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1)  # inches, so that the last tick label is not cut off
    figure = Figure(figsize=(width, height), layout=layout, dpi=150)
    FigureCanvasAgg(figure)
    return figure


def new_axes(ax: Axes | None, width: float = 5.0, height: float = 4.0) -> Axes:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).subplots() if ax is None else ax


def draw_points(ax: Axes, x: Array, y: Array, *, color: str, alpha: float) -> None:
    """Points, or counts in hexagons for many points."""
    if len(x) > _DENSE:
        ax.hexbin(x, y, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0)
    else:
        ax.scatter(x, y, s=8, alpha=alpha, color=color, linewidths=0)

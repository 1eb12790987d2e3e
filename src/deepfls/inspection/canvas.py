"""What all displays share: colours, labels, figures that belong to nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls.inspection.plain import Array, PlainSystem

# Distinguishable with any colour vision (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#666666")


def label(name: object, width: int = 40) -> str:
    """A name as a label: shortened, on one line, and never read as a formula."""
    text = " ".join(str(name).split())
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to nobody else."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def new_axes(ax: Any | None, width: float = 5.0, height: float = 4.0) -> Any:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).subplots() if ax is None else ax


def plain(ax: Any) -> None:
    """Two spines are enough."""
    ax.spines[["top", "right"]].set_visible(False)


def place_of(name: int | str, names: Sequence[str], what: str) -> int:
    """The place of an input or output given by place or name."""
    from deepfls._checks import check_count, check_option

    if isinstance(name, str):
        return list(names).index(check_option(what, name, tuple(names)))
    return check_count(what, name, 0, len(names) - 1)


def input_span(plain: PlainSystem, feature: int) -> tuple[float, float]:
    """The range of an input to draw over: that of the training data, else that of the sets; never empty."""
    if plain.input_range is not None:
        low, high = plain.input_range[:, feature].tolist()
    else:
        centers, widths = plain.centers[:, feature], plain.upper_sigmas[:, feature]
        low, high = float((centers - widths).min()), float((centers + widths).max())
    if high > low:
        return low, high
    margin = max(abs(low), 1.0) * 0.1  # an input of one value
    return low - margin, high + margin


def middle(plain: PlainSystem) -> Array:
    """A row in the middle of the ranges of all inputs."""
    return np.array([sum(input_span(plain, m)) / 2.0 for m in range(plain.n_features)])

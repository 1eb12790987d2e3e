"""Starting points: centers, widths and consequents of a system from data, before the first gradient step.

The data are expected in scaled units (about zero mean and unit spread per column); constant columns are fine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks import check_magnitude_values, check_number, check_option
from deepfls.nn.constraints import MAX_SIGMA, MIN_SIGMA
from deepfls.nn.systems import IT2FLS, T1FLS

Array = np.ndarray[Any, np.dtype[Any]]

CENTERS = ("kmeans", "kmeans-per-input", "grid")
CONSEQUENTS = ("ridge", "random")

# Of tables larger than this, k-means sees a sample for a few rounds: docs/recipe.md has what more of both was worth.
_KMEANS_ROWS, _KMEANS_SAMPLE, _KMEANS_ROUNDS = 10_000, 5_000, 25
# Elements of one chunk of the design matrix, and unknowns of one linear solve, that a laptop takes in its stride.
_CHUNK_ELEMENTS = 2**24
_MAX_UNKNOWNS = 3_000


def initialize_system(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    centers: str = "kmeans",
    consequents: str = "ridge",
    width: float = 1.0,
    ridge: float = 1e-3,
    sample_weight: Tensor | None = None,
    random_state: np.random.RandomState,
    part: slice = slice(None),
    total: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Set the parameters of a system from data.

    Parameters
    ----------
    system : T1FLS or IT2FLS
        Changed in place.
    x : Tensor, shape (batch, features)
    y : Tensor, shape (batch, outputs)
    centers : {"kmeans", "kmeans-per-input", "grid"}
        Joint k-means over all inputs; one-dimensional k-means for each input (the paper); or points evenly spread over the
        range of the data.
    consequents : {"ridge", "random"}
        The linear part solved by ridge regression on the normalised firing, or U(0, 0.01) (the paper).
    width : float
        Widths of the sets in standard deviations of their input.
    ridge : float
        Weight of the penalty on the consequents, per training row.
    sample_weight : Tensor, shape (batch,), optional
    random_state : RandomState
        Source of all randomness.
    part : slice
        The rows whose normal equations this process adds up, where several do; all of them by default.
    total : callable, optional
        The sum of a tensor over these processes, in place.
    """
    check_option("centers", centers, CENTERS)
    check_option("consequents", consequents, CONSEQUENTS)
    check_number("width", width, above=0.0)
    check_number("ridge", ridge, above=0.0)
    check_magnitude_values("x", x)
    check_magnitude_values("y", y)
    rows = x.detach().cpu().double().numpy()
    system.centers = torch.from_numpy(start_centers(rows, system.n_rules, centers, random_state))
    sigmas = torch.from_numpy(start_sigmas(rows, width)).expand(system.n_rules, -1)
    seed = torch.Generator().manual_seed(int(random_state.randint(2**31 - 1)))
    shape = (system.n_rules, system.n_features)
    if isinstance(system, IT2FLS):
        # As in the paper: σ' ± |Δ| with Δ ~ U(0, 0.01), and h = sigmoid(U(0, 1)).
        # DIFF(paper): Δ is relative to the width, about 1 in the paper's units, so that narrow sets start valid too.
        delta = 0.01 * torch.rand(shape, generator=seed) if "s" in system.uncertainty else torch.zeros(shape)
        system.set_sigmas(sigmas - delta * sigmas, sigmas + delta * sigmas)
        if "h" in system.uncertainty:
            system.heights = torch.sigmoid(torch.rand(shape, generator=seed))
    else:
        system.sigmas = sigmas
    if consequents == "random":
        system.intercepts = 0.01 * torch.rand(system.n_rules, system.n_outputs, generator=seed)
        if system.order == 1:
            system.slopes = 0.01 * torch.rand(system.n_rules, system.n_outputs, system.n_features, generator=seed)
    else:
        weight = None if sample_weight is None else sample_weight[part]
        solve_consequents(system, x[part], y[part], ridge=ridge, sample_weight=weight, total=total)


def start_sigmas(rows: Array, width: float) -> Array:
    """Standard deviation of each input times ``width``, 1 where it is 0; (features,)."""
    deviation = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(rows.shape[1])
    deviation = np.where(deviation > 0, deviation, 1.0)
    # Room for the ± of the two widths.
    return np.clip(deviation * width, MIN_SIGMA * 2, MAX_SIGMA / 2)


def start_centers(rows: Array, n_rules: int, method: str, random_state: np.random.RandomState) -> Array:
    """Starting centers (rules, features) by one of :data:`CENTERS`."""
    max_iter = 300
    if len(rows) > _KMEANS_ROWS and method != "grid":
        max_iter = _KMEANS_ROUNDS
        size = min(max(_KMEANS_SAMPLE, 2 * n_rules), len(rows))
        rows = rows[np.sort(random_state.choice(len(rows), size, replace=False))]
    if method == "kmeans":
        return _kmeans(rows, n_rules, random_state, max_iter)
    if method == "kmeans-per-input":
        # k-means numbers its clusters in no order, so rules combine the sets of different inputs as they come.
        return np.concatenate(
            [_kmeans(rows[:, [m]], n_rules, random_state, max_iter) for m in range(rows.shape[1])], axis=1
        )
    return _grid(rows, n_rules, random_state)


def _kmeans(rows: Array, n_clusters: int, random_state: np.random.RandomState, max_iter: int) -> Array:
    """Cluster centers, repeated in turn where the rows have fewer distinct values than clusters."""
    from sklearn.cluster import KMeans  # here: slow to import
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # One column with enough different values is enough, and far quicker to sort than whole rows.
    if all(len(np.unique(column)) <= n_clusters for column in rows.T):
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= n_clusters:
            return distinct[np.arange(n_clusters) % len(distinct)]
    # One thread: several add up their sums in the order they arrive, and the same seed would not give the same bits.
    with threadpool_limits(1), warnings.catch_warnings():
        # Rows that differ by rounding only look alike to k-means: fewer clusters than asked for are fine here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(n_clusters, n_init=1, max_iter=max_iter, random_state=random_state).fit(rows)
    return np.asarray(found.cluster_centers_, dtype=np.float64)


def _grid(rows: Array, n_rules: int, random_state: np.random.RandomState) -> Array:
    """Points of a grid over the box of the data, finest where the box is longest; the rest are rows of the data."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    levels = np.ones(rows.shape[1], dtype=int)
    for _ in range(n_rules):  # every round adds a level, and with it a rule at least
        spacing = (high - low) / levels
        for m in np.argsort(-spacing, kind="stable"):
            if spacing[m] > 0 and levels.prod() // levels[m] * (levels[m] + 1) <= n_rules:
                levels[m] += 1
                break
        else:
            break
    axes = [
        np.linspace(lo, hi, k) if k > 1 else np.array([(lo + hi) / 2]) for lo, hi, k in zip(low, high, levels, strict=True)
    ]
    # Only inputs with several levels take part, so that thousands of inputs cost nothing.
    several = np.flatnonzero(levels > 1)
    points = np.tile(np.array([axis[0] for axis in axes]), (int(levels.prod()), 1))
    if len(several):
        mesh = np.meshgrid(*(axes[m] for m in several), indexing="ij")
        points[:, several] = np.stack([axis.ravel() for axis in mesh], axis=1)
    others = rows[random_state.choice(len(rows), n_rules - len(points))]
    return np.concatenate([points, others])


def solve_consequents(
    system: T1FLS | IT2FLS,
    x: Tensor,
    y: Tensor,
    *,
    ridge: float,
    sample_weight: Tensor | None = None,
    total: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Set the consequents to the ridge solution for the present sets: the linear half of hybrid learning.

    A Type-1 output is linear in its consequents, ``y = Σ_p f̂_p (a_p · x + a_p0)`` with normalised firing f̂; for IT2 systems
    the mean of lower and upper firing stands in, for which the solution is close to that of the exact reduction. The
    penalty pulls every rule towards one common linear model, which is fitted first: rules that hardly fire get
    that model instead of zeros or noise. The normal equations are sums over rows, so they may come in parts from several
    processes, whose ``total`` each of them solves.
    """
    n_rules, n_outputs, n_features = system.n_rules, system.n_outputs, system.n_features
    linear = system.order == 1
    common = _common_model(x, y, ridge, sample_weight, linear and n_features < _MAX_UNKNOWNS, total)
    ones = x.new_ones(len(x), 1).double()
    basis = torch.cat([x.double(), ones], dim=1) if linear else ones
    if linear and n_features >= _MAX_UNKNOWNS:
        common = torch.cat([common.new_zeros(n_features, n_outputs), common])
    weights = common.expand(n_rules, -1, -1).clone()  # (rules, features + 1, outputs)
    local = basis if n_rules * basis.shape[1] <= _MAX_UNKNOWNS else ones
    if n_rules * local.shape[1] <= _MAX_UNKNOWNS and n_rules > 1:
        residual = y.double() - basis @ common
        moments = _NormalEquations(n_rules * local.shape[1], n_outputs)
        rows = max(1, _CHUNK_ELEMENTS // (n_rules * local.shape[1]))
        for first in range(0, len(x), rows):
            part = slice(first, first + rows)
            firing = _normalised_firing(system, x[part]).double()
            design = (firing.unsqueeze(2) * local[part].unsqueeze(1)).flatten(1)
            moments.add(design, residual[part], None if sample_weight is None else sample_weight[part])
        found = moments.summed(total).solve(ridge).view(n_rules, local.shape[1], n_outputs)
        weights[:, -local.shape[1] :] += found
    system.intercepts = weights[:, -1]
    if linear:
        system.slopes = weights[:, :-1].transpose(1, 2)


class _NormalEquations:
    """Sums of a weighted least-squares problem, from chunks of rows."""

    def __init__(self, n_unknowns: int, n_outputs: int) -> None:
        self.gram = torch.zeros(n_unknowns, n_unknowns, dtype=torch.float64)
        self.moment = torch.zeros(n_unknowns, n_outputs, dtype=torch.float64)
        self.weight = torch.zeros(1, dtype=torch.float64)

    def add(self, design: Tensor, target: Tensor, sample_weight: Tensor | None) -> None:
        weighted = design if sample_weight is None else design * sample_weight.double().unsqueeze(1)
        self.gram += (weighted.t() @ design).cpu()
        self.moment += (weighted.t() @ target).cpu()
        self.weight += float(len(design)) if sample_weight is None else float(sample_weight.sum())

    def summed(self, total: Callable[[Tensor], Tensor] | None) -> _NormalEquations:
        """The equations of all processes together."""
        for part in (self.gram, self.moment, self.weight) if total is not None else ():
            total(part)  # type: ignore[misc]  # not None here
        return self

    def solve(self, ridge: float, free: int = 0) -> Tensor:
        """Minimiser with the penalty on all but the last ``free`` unknowns."""
        penalty = torch.full((len(self.gram),), ridge * max(float(self.weight), 1e-30), dtype=torch.float64)
        if free:
            penalty[-free:] = 0.0
        regular = self.gram + torch.diag(penalty)
        factor, failed = torch.linalg.cholesky_ex(regular)
        if failed:
            # Singular to the last digit, as equal columns are beside a tiny penalty: the smallest of the minimisers.
            return torch.linalg.lstsq(regular, self.moment, driver="gelsd").solution
        return torch.cholesky_solve(self.moment, factor)


def _common_model(
    x: Tensor,
    y: Tensor,
    ridge: float,
    sample_weight: Tensor | None,
    linear: bool,
    total: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """One ridge regression for all rules, its intercept free; (features + 1, outputs) or (1, outputs)."""
    ones = x.new_ones(len(x), 1).double()
    design = torch.cat([x.double(), ones], dim=1) if linear else ones
    moments = _NormalEquations(design.shape[1], y.shape[1])
    moments.add(design, y.double(), sample_weight)
    return moments.summed(total).solve(ridge, free=1).to(x.device)


def _normalised_firing(system: T1FLS | IT2FLS, x: Tensor) -> Tensor:
    """Firing as shares that add up to 1 over the rules, (batch, rules)."""
    with torch.no_grad():
        firing = sum(system.firing(x)) if isinstance(system, IT2FLS) else system.firing(x)
        assert isinstance(firing, Tensor)
        return firing / firing.sum(dim=1, keepdim=True)

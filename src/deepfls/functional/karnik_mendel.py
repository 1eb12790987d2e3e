"""End points of the type-reduced set of an interval type-2 system: the Karnik-Mendel problem.

For one sample, y_left and y_right are the smallest and the largest value of

    Σ_p w_p y_p / Σ_p w_p        over all  w_p in [f̲_p, f̄_p].

At the optimum every w_p sits at an end of its interval: at y_left the rules with y_p below it weigh f̄ and the others f̲, at
y_right the reverse. Four algorithms find the same switch points:

newton
    y <- y + Σ w(y) (y_p - y) / Σ w(y) is Newton's method on a piecewise-linear, monotone function: it moves one way and
    ends after few sweeps over the rules (2 to 6 as a rule), without sorting them. Compiled row by row on the CPU, tensor
    sweeps elsewhere.
sort
    Order the rules by consequent and take the best of the P + 1 switch points from two-sided cumulative sums. Plain tensor
    operations of fixed number: for torch.compile, export, vmap and other devices.
enumerate
    The paper's fKM: all 2^P choices in one matrix product. At most 20 rules.
iterative
    The classic Karnik-Mendel algorithm, one sample at a time: the paper's baseline.

The gradient is one formula for all of them, from inputs and end points alone (envelope theorem): with the chosen
weights w and s = Σ w, dy/dy_p = w_p / s and dy/dw_p = (y_p - y) / s for the bound in use, 0 for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.arguments import check_option
from deepfls._checks.tensors import check_firing_values, check_rule_tensors, is_traced
from deepfls.functional.constants import TOLERANCE, max_sweeps
from deepfls.functional.firing import relative_interval_firing

MAX_ENUMERATED_RULES = 20
# Candidates evaluated at a time by "enumerate", so that memory stays at about 256 MB whatever the batch.
_ENUMERATION_CHUNK = 2**25


class TypeReducedSet(NamedTuple):
    """End points of the type-reduced set, each (batch, outputs), ``y_left <= y_right``."""

    y_left: Tensor
    y_right: Tensor


def karnik_mendel(
    lower_firing: Tensor, upper_firing: Tensor, consequents: Tensor, algorithm: str = "auto", *, check: bool = True
) -> TypeReducedSet:
    """Exact end points of the type-reduced set, differentiable in all three arguments.

    Parameters
    ----------
    lower_firing, upper_firing : Tensor, shape (batch, rules)
        ``0 <= lower_firing <= upper_firing``, with at least one positive upper firing in every sample. Their common scale
        is irrelevant, so tiny and huge values are fine.
    consequents : Tensor, shape (batch, rules, outputs)
    algorithm : {"auto", "newton", "sort", "enumerate", "iterative"}
        All give the same end points. "auto" picks the fastest that is right for device, dtype and tracing.
    check : bool
        Whether to read the values and refuse NaN, negative or crossing firing. Turn off inside a training step.

    Returns
    -------
    TypeReducedSet
        Named tuple (y_left, y_right), each (batch, outputs).

    Notes
    -----
    Differentiable as often as needed. Where consequents tie with an end point, one of the one-sided derivatives is
    returned.

    Examples
    --------
    >>> import torch
    >>> lower = torch.tensor([[0.2, 0.1]])
    >>> upper = torch.tensor([[0.6, 0.4]])
    >>> y_left, y_right = karnik_mendel(lower, upper, torch.tensor([[[1.0], [2.0]]]))
    >>> round(y_left.item(), 4), round(y_right.item(), 4)  # (.6 + .1*2) / .7 and (.2 + .4*2) / .6
    (1.1429, 1.6667)
    """
    check_rule_tensors(consequents, lower_firing=lower_firing, upper_firing=upper_firing)
    check_option("algorithm", algorithm, ("auto", *ALGORITHMS))
    if check and not is_traced() and not consequents.is_meta:
        check_firing_values(lower_firing, upper_firing, consequents)
    # Only ratios of firing matter; relative to the largest they cannot overflow or vanish together.
    peak = upper_firing.detach().amax(dim=1, keepdim=True)
    return end_points(lower_firing / peak, upper_firing / peak, consequents, algorithm)


def end_points(lower_firing: Tensor, upper_firing: Tensor, consequents: Tensor, algorithm: str = "auto") -> TypeReducedSet:
    """:func:`karnik_mendel` without its checks, for firing whose largest upper value in each sample is about 1."""
    if consequents.dtype in (torch.float16, torch.bfloat16):
        wide = end_points(lower_firing.float(), upper_firing.float(), consequents.float(), algorithm)
        return TypeReducedSet(*(end.to(consequents.dtype) for end in wide))
    if algorithm in ("auto", "newton") and _can_compile(lower_firing, upper_firing, consequents):
        return _compiled_ends(lower_firing, upper_firing, consequents, logs=False)
    # "sort" is the one without data-dependent control flow; the end points are the same.
    if algorithm == "auto" or (algorithm != "enumerate" and (is_traced() or consequents.is_meta)):
        algorithm = "sort"
    with torch.no_grad():
        ends = ALGORITHMS[algorithm](lower_firing.detach(), upper_firing.detach(), consequents.detach())
    return _means_at_switch(lower_firing, upper_firing, consequents, ends)


def log_end_points(log_lower: Tensor, log_upper: Tensor, consequents: Tensor, algorithm: str = "auto") -> TypeReducedSet:
    """:func:`end_points` for firing given by its logarithm, as the rules produce it.

    The compiled kernel takes the exponentials itself, in float64. Firing that float32 could not hold keeps its place in the
    weighted means, and gradients are those of the logarithms, which cannot overflow.
    """
    if algorithm in ("auto", "newton") and _can_compile(log_lower, log_upper, consequents):
        return _compiled_ends(log_lower, log_upper, consequents, logs=True)
    return end_points(*relative_interval_firing(log_lower, log_upper), consequents, algorithm)


def _can_compile(*tensors: Tensor) -> bool:
    from deepfls.kernels.entrance import can_compile  # here: kernels lie above this folder

    return can_compile(*tensors)


def _compiled_ends(lower: Tensor, upper: Tensor, consequents: Tensor, *, logs: bool) -> TypeReducedSet:
    from deepfls.kernels.entrance import compiled_end_points  # here: kernels lie above this folder

    def plain(lower: Tensor, upper: Tensor, consequents: Tensor, y_left: Tensor, y_right: Tensor) -> TypeReducedSet:
        bounds = relative_interval_firing(lower, upper) if logs else (lower, upper)
        return _means_at_switch(*bounds, consequents, TypeReducedSet(y_left, y_right))

    return TypeReducedSet(*compiled_end_points(lower, upper, consequents, logs, plain))


def _means_at_switch(lower: Tensor, upper: Tensor, consequents: Tensor, ends: TypeReducedSet) -> TypeReducedSet:
    """The two weighted means with the weights that belong to ``ends``, in differentiable tensor operations.

    The weights are chosen, not differentiated: by the envelope theorem the gradient of this mean is the gradient of the
    end point.
    """
    low, up = lower.unsqueeze(-1), upper.unsqueeze(-1)
    # A rule whose consequent is an end up to rounding is on the inner side of it: it may carry all the weight there is.
    tolerance = TOLERANCE * torch.finfo(consequents.dtype).eps * consequents.detach().abs().sum(dim=1)
    left_weights = torch.where(consequents <= (ends.y_left + tolerance).unsqueeze(1), up, low)
    right_weights = torch.where(consequents >= (ends.y_right - tolerance).unsqueeze(1), up, low)
    y_left = (left_weights * consequents).sum(dim=1) / left_weights.sum(dim=1)
    y_right = (right_weights * consequents).sum(dim=1) / right_weights.sum(dim=1)
    return TypeReducedSet(torch.minimum(y_left, y_right), y_right)


# Each algorithm maps lower (batch, rules), upper (batch, rules), consequents (batch, rules, outputs) to the end points,
# without regard to gradients.


def _newton(lower: Tensor, upper: Tensor, consequents: Tensor) -> TypeReducedSet:
    """Newton's method on all rows together: sweeps end when the last row has converged."""
    low, up = lower.unsqueeze(-1), upper.unsqueeze(-1)
    start = (up * consequents).sum(dim=1) / up.sum(dim=1)
    y_left, y_right = start, start
    for _ in range(max_sweeps(consequents.shape[1])):
        from_left, from_right = consequents - y_left.unsqueeze(1), consequents - y_right.unsqueeze(1)
        left_weights = torch.where(from_left < 0, up, low)
        right_weights = torch.where(from_right > 0, up, low)
        new_left = y_left + (left_weights * from_left).sum(dim=1) / left_weights.sum(dim=1)
        new_right = y_right + (right_weights * from_right).sum(dim=1) / right_weights.sum(dim=1)
        # Comparisons with NaN (the weights on this side of an end are 0) are false: such rows do not move.
        if not ((new_left < y_left) | (new_right > y_right)).any():
            break
        y_left = torch.where(new_left < y_left, new_left, y_left)
        y_right = torch.where(new_right > y_right, new_right, y_right)
    return _within_consequents(upper, consequents, y_left, y_right)


def _sort(lower: Tensor, upper: Tensor, consequents: Tensor) -> TypeReducedSet:
    """The best of all P + 1 switch points of the ordered rules."""
    y, order = consequents.sort(dim=1)
    low = lower.unsqueeze(-1).expand_as(y).gather(1, order)
    up = upper.unsqueeze(-1).expand_as(y).gather(1, order)
    left_sums = _below(up) + _above(low)
    right_sums = _below(low) + _above(up)
    # At a switch point whose weights are all 0 the mean is undefined. Infinity excludes it.
    left_means = torch.where(left_sums > 0, (_below(up * y) + _above(low * y)) / left_sums, torch.inf)
    right_means = torch.where(right_sums > 0, (_below(low * y) + _above(up * y)) / right_sums, -torch.inf)
    return _within_consequents(upper, consequents, left_means.amin(dim=1), right_means.amax(dim=1))


def _below(ordered: Tensor) -> Tensor:
    """Sums of the first k rules for k = 0 ... P."""
    return torch.nn.functional.pad(ordered.cumsum(dim=1), (0, 0, 1, 0))


def _above(ordered: Tensor) -> Tensor:
    """Sums of the other rules for k = 0 ... P. Summed from the far side: "total minus prefix" cancels in float32."""
    return torch.nn.functional.pad(ordered.flip(1).cumsum(dim=1).flip(1), (0, 0, 0, 1))


def _within_consequents(upper: Tensor, consequents: Tensor, y_left: Tensor, y_right: Tensor) -> TypeReducedSet:
    """Ends that rounding pushed outside the consequents that fire, put back on the outermost one."""
    fires = upper.unsqueeze(-1) > 0
    smallest = torch.where(fires, consequents, torch.inf).amin(dim=1)
    largest = torch.where(fires, consequents, -torch.inf).amax(dim=1)
    y_left, y_right = torch.maximum(y_left, smallest), torch.minimum(y_right, largest)
    return TypeReducedSet(torch.minimum(y_left, y_right), torch.maximum(y_left, y_right))


def _enumerate(lower: Tensor, upper: Tensor, consequents: Tensor) -> TypeReducedSet:
    """The paper's fKM: X(u) = α0 + α u and Z(u) = β0 + β u for all binary u, then the extremes of X / Z."""
    batch, n_rules, n_outputs = consequents.shape
    if n_rules > MAX_ENUMERATED_RULES:
        gigabytes = 2.0**n_rules * batch * (1 + n_outputs) * consequents.element_size() / 1e9
        raise ValueError(
            f"algorithm='enumerate' takes at most {MAX_ENUMERATED_RULES} rules, got {n_rules}: 2^{n_rules} candidates for "
            f"{batch} samples would need {gigabytes:,.0f} GB; use algorithm='auto'."
        )
    choices = torch.arange(2**n_rules, device=consequents.device)
    u = (choices.unsqueeze(0) >> torch.arange(n_rules, device=consequents.device).unsqueeze(1)) & 1
    u = u.to(consequents.dtype)  # (rules, 2^rules)
    ends = TypeReducedSet(consequents.new_empty(batch, n_outputs), consequents.new_empty(batch, n_outputs))
    rows = max(1, _ENUMERATION_CHUNK // (2**n_rules * (1 + n_outputs)))
    for first in range(0, batch, rows):
        part = slice(first, first + rows)
        low, span = lower[part], upper[part] - lower[part]
        y = consequents[part].permute(2, 0, 1)  # (outputs, batch, rules)
        # One product for the denominator and the numerators of all outputs: (1 + outputs, batch, 2^rules).
        spans = torch.cat([span.unsqueeze(0), span * y])
        lows = torch.cat([low.sum(dim=1).unsqueeze(0), (low * y).sum(dim=2)])
        sums = torch.matmul(spans, u).add_(lows.unsqueeze(-1))
        means = sums[1:] / sums[0]
        empty = ~(sums[0] > 0)  # u = 0 with no lower firing at all
        ends.y_left[part] = means.masked_fill(empty, torch.inf).amin(dim=2).t()
        ends.y_right[part] = means.masked_fill(empty, -torch.inf).amax(dim=2).t()
    return _within_consequents(upper, consequents, ends.y_left, ends.y_right)


def _iterative(lower: Tensor, upper: Tensor, consequents: Tensor) -> TypeReducedSet:
    """The classic algorithm, sample by sample, in NumPy, whose calls have less overhead than those of torch."""
    # float64 for its sums: one sample's P numbers cost the same in either precision.
    lows, ups, ys = (t.detach().cpu().double().numpy() for t in (lower, upper, consequents))
    batch, _, n_outputs = ys.shape
    left, right = np.empty((batch, n_outputs)), np.empty((batch, n_outputs))
    for row in range(batch):
        for output in range(n_outputs):
            y = ys[row, :, output]
            order = np.argsort(y)
            y, low, up = y[order], lows[row, order], ups[row, order]
            left[row, output] = _classic_left_end(y, low, up)
            right[row, output] = -_classic_left_end(-y[::-1], low[::-1], up[::-1])
    y_left, y_right = (torch.from_numpy(end).to(consequents) for end in (left, right))
    return _within_consequents(upper, consequents, y_left, y_right)


def _classic_left_end(y: np.ndarray, low: np.ndarray, up: np.ndarray) -> float:
    """Karnik and Mendel's iteration for rules in ascending order: guess y, find its switch point, average again."""
    weights = 0.5 * (low + up)
    end = weights.dot(y) / weights.sum()
    for _ in range(max_sweeps(len(y))):
        switch = y.searchsorted(end)
        weights = np.concatenate((up[:switch], low[switch:]))
        total = weights.sum()
        if not total > 0.0:
            break
        # The average as a step from the guess: in the plain quotient one large weight would round the others away.
        mean = end + weights.dot(y - end) / total
        if not mean < end:
            break
        end = mean
    return float(end)


Algorithm = Callable[[Tensor, Tensor, Tensor], TypeReducedSet]

ALGORITHMS: dict[str, Algorithm] = {"newton": _newton, "sort": _sort, "enumerate": _enumerate, "iterative": _iterative}

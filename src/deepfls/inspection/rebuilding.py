"""From a PlainSystem back to a torch system, and to an estimator with fewer rules or conditions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from deepfls.functional.constants import MAX_SIGMA, MIN_RATIO, MIN_SIGMA
from deepfls.inspection.plain import Array, PlainSystem, shares_of
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS

if TYPE_CHECKING:
    from deepfls.estimators.base import FLSEstimator


def estimator_with(estimator: FLSEstimator, s: PlainSystem, numbers: Sequence[str], x: Array) -> FLSEstimator:
    """A copy of an estimator with the rules of a PlainSystem in scaled units.

    ``numbers`` are those of its rules in the original, from 1; rows x are in the units of the data.
    """
    fewer = copy.copy(estimator)
    fewer.__dict__ = {name: copy.copy(value) for name, value in vars(estimator).items() if name != "initial_sets_"}
    fewer.n_rules = s.n_rules
    fewer._structure_ = replace(estimator._structure_, n_rules=s.n_rules)
    # "auto" was decided when the system was made.
    system = replace(fewer._structure_, tnorm=estimator.system_.tnorm).new_system()
    system.to(device=estimator.system_.centers.device, dtype=torch.float64)
    system.missing = estimator.system_.missing
    if estimator.system_.antecedents.terms is not None:
        _take_sets(system, estimator.system_, s, [int(number) - 1 for number in numbers])
    else:
        bounds = estimator.system_.antecedents.bounds
        if bounds is not None:
            system.antecedents.bounds = bounds[:, :1].expand(-1, system.antecedents.n_sets, -1).clone()
        fill_system(system, s)
    fewer.system_ = system.requires_grad_(False)
    fewer.rule_shares_ = shares_of(s, estimator.x_scaling_.apply(x))
    return fewer


def _take_sets(system: T1FLS | IT2FLS, original: T1FLS | IT2FLS, s: PlainSystem, rules: list[int]) -> None:
    """Give a system the sets of some rules of another one whose rules choose theirs, where they are still conditions."""
    old, new = original.antecedents, system.antecedents
    assert old.terms is not None
    shared = old.n_sets != original.n_rules or new.n_sets == old.n_sets
    kept = slice(None) if shared else rules
    chosen = old.terms[rules].cpu().numpy()
    if not shared:
        chosen = np.where(chosen >= 0, np.arange(len(rules))[:, np.newaxis], -1)
    new.share_terms(np.where(np.isfinite(s.upper_sigmas), chosen, -1), new.n_sets)
    if old.bounds is not None:
        new.bounds = old.bounds[:, kept].clone()
    own = dict(new.named_parameters())
    with torch.no_grad():
        for name, parameter in old.named_parameters():
            own[name].copy_(parameter[kept])
    _fill_outputs(system, s)


def fill_system(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Assign the values of a PlainSystem to a torch system of the same settings."""

    def tensor(values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(system.centers)

    # Rounding may move merged widths and heights out of their range, and assignment checks the range.
    least, largest = MIN_SIGMA, MAX_SIGMA
    centers = s.centers
    bounds, limits = system.antecedents.bounds, system.antecedents.width_limits
    if bounds is not None and limits is not None:
        centers = np.clip(centers, *bounds[:2].cpu().numpy())
        least, largest = limits.cpu().numpy()
    upper = np.clip(s.upper_sigmas, least * (1 + 1e-12), largest * (1 - 1e-12))
    system.centers = tensor(centers)
    if isinstance(system, GT2FLS):
        primary = np.clip(s.lower_sigmas, least * (1 + 1e-12), largest * (1 - 1e-12))
        upper_spreads = np.clip(1.0 - np.square(s.lower_sigmas / s.upper_sigmas), 0.0, 1.0 - MIN_RATIO)
        lower_spreads = np.clip(1.0 - np.exp(s.log_heights), 0.0, 1.0 - 1e-12)
        if system.shared_spread:
            lower_spreads, upper_spreads = lower_spreads.mean(), upper_spreads.mean()
        system.sigmas, system.lower_spreads, system.upper_spreads = map(tensor, (primary, lower_spreads, upper_spreads))
    elif isinstance(system, IT2FLS):
        ratio = np.clip(s.lower_sigmas / s.upper_sigmas, MIN_RATIO * (1 + 1e-12), 1.0)
        system.set_sigmas(tensor(upper if s.uncertainty == "h" else upper * ratio), tensor(upper))
        system.heights = tensor(np.exp(np.clip(s.log_heights, -79.9, 0.0)))
    else:
        system.sigmas = tensor(upper)
    _fill_outputs(system, s)


def _fill_outputs(system: T1FLS | IT2FLS, s: PlainSystem) -> None:
    """Assign consequents and, for "bmm", the mix."""
    system.intercepts = torch.from_numpy(np.ascontiguousarray(s.intercepts)).to(system.intercepts)
    if s.order == 1:
        system.slopes = torch.from_numpy(np.ascontiguousarray(s.slopes)).to(system.slopes)
    if s.mix is not None and isinstance(system, IT2FLS):
        system.mix = torch.from_numpy(s.mix).to(system.intercepts)

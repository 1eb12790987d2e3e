"""The numbers of a system arranged for float32, so that nothing cancels far from zero.

With an origin o and a unit 2^k for every input, z = (x - o) 2^-k is exact wherever x is within a factor of two of o, and
small everywhere in the data. Sets and consequents are stated in z, and consequents relative to an offset per output:

    log f = -Σ_m w (z_m - d_m)²,  w = 2^2k / (2 σ²),  d = (c - o) 2^-k,    y_p = offset + b_p + Σ_m a_pm z_m .

The sums that cancel, a₀ + a·o - offset among them, are taken here in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks import check_holdable
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# An input further than this many units from the origin counts as this far: squares and sums stay finite for any input.
FARTHEST = 2.0**20
_LARGEST = 1e34


@dataclass(frozen=True)
class FloatTables:
    """Tables in float64, to be rounded once. Shapes as in a plain; weights and slopes are those of z."""

    origin: Array
    units: Array
    farthest: float
    centers: Array
    lower_weights: Array
    upper_weights: Array
    log_heights: Array
    offsets: Array
    intercepts: Array
    slopes: Array

    @classmethod
    def of(cls, plain: PlainSystem) -> FloatTables:
        """The tables of a system; an error where float32 cannot hold them."""
        check_holdable("The centers of the sets", plain.centers, 1e30)
        origin = plain.centers.mean(axis=0).astype(np.float32).astype(np.float64)
        from_origin = plain.centers - origin
        spread = np.maximum(np.abs(from_origin).max(axis=0), np.median(plain.upper_sigmas, axis=0))
        units = np.exp2(np.round(np.log2(spread)))
        share = 1.0 if plain.tnorm == "product" else 1.0 / plain.n_features
        upper = 0.5 * share * np.square(units / plain.upper_sigmas)
        lower = 0.5 * share * np.square(units / plain.lower_sigmas)
        at_origin = plain.intercepts + np.einsum("pkm,m->pk", plain.slopes, origin)
        slopes = plain.slopes * units
        check_holdable("The outputs of the rules", np.concatenate([at_origin.ravel(), slopes.ravel()]), 1e28)
        offsets = at_origin.mean(axis=0).astype(np.float32).astype(np.float64)
        check_holdable("The squares of the inverse widths", lower, 1e28)
        farthest = min(
            FARTHEST,
            0.25 * float(np.sqrt(_LARGEST / lower.sum(axis=1).max())),
            _LARGEST / max(float(np.abs(slopes).sum(axis=2).max()), 1.0),
        )
        return cls(
            origin=origin,
            units=units,
            farthest=2.0 ** np.floor(np.log2(farthest)),
            centers=from_origin / units,
            lower_weights=lower,
            upper_weights=upper,
            log_heights=share * plain.log_heights.sum(axis=1),
            offsets=offsets,
            intercepts=at_origin - offsets,
            slopes=slopes,
        )

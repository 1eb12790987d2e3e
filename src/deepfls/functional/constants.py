"""Numerical constants: one table for torch, compiled kernels, NumPy, JavaScript and C."""

from __future__ import annotations

import math

# Log-firing relative to a sample's largest is held above these floors, so that neither the firing nor a gradient divided
# by it leaves the normal numbers: denormals make elementwise work ten times slower, and overflow gives NaN.
# docs/maths.md describes the effect. Kernels, NumPy and JavaScript compute in float64.
LOG_FLOORS = {"float64": -600.0, "float32": -60.0, "bfloat16": -60.0, "float16": -9.0}
LOG_FLOOR = LOG_FLOORS["float64"]

# A consequent counts as equal to an end point if they differ by at most TOLERANCE * eps * Σ_p |y_p|, the rounding of the
# weighted mean. Such a rule takes its upper firing: it may carry all the weight there is.
TOLERANCE = 4.0


def max_sweeps(n_rules: int) -> int:
    """Bound of the Newton sweeps for an end point: rules + 1 in exact arithmetic; rounding may split a step."""
    return 2 * n_rules + 4


# Widths a set may take. Wider than any scaled data needs, and 1/σ² stays far from overflow in float32.
MIN_LOG_SIGMA, MAX_LOG_SIGMA = -18.0, 18.0
MIN_SIGMA, MAX_SIGMA = math.exp(MIN_LOG_SIGMA), math.exp(MAX_LOG_SIGMA)
# The lower width is at least this share of the upper one; exact in binary, so that the ratio never rounds above 1.
MIN_RATIO = 2.0**-10
# Raw heights are held above this: sigmoid(-80) is a normal number in float32, and so are its products with weights near 1.
MIN_LOGIT = -80.0
# Raw upper spreads of planes are held above this, a spread of 1e-13: the widths of their Gaussians stay far from overflow.
MIN_SPREAD_LOGIT = -30.0
# The level of the widest plane, as in the published systems.
SMALLEST_ALPHA = 0.01
# Levels of planes that a step trains as quantiles: two irrational rotations, over the rows of a batch and over the steps,
# fill (0, 1) evenly.
ROW_TURN, STEP_TURN, SMALLEST_LEVEL = 0.6180339887498949, 0.7548776662466927, 1e-6

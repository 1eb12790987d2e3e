"""The C of a calibrated interval."""

from __future__ import annotations

import numpy as np

from deepfls.export.c_text import documented_tables, filled
from deepfls.export.calibrated import CalibratedInterval
from deepfls.export.text import float_literal
from deepfls.inspection.plain import PlainSystem

_INTERVAL = """
/* Calibrated interval. NaN where an input is NaN or infinite. */
static inline void fls_predict_interval(const float x[FLS_INPUTS], float y_left[FLS_OUTPUTS],
                                        float y_right[FLS_OUTPUTS])
{
    float y[{n_crisp}]{own};
    int k;
{calls}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
{reach}
        const float left = y[k]{gain_left} - reach, right = y[k]{gain_right} + reach;
        y_left[k] = left < y[k] ? left : y[k];
        y_right[k] = right > y[k] ? right : y[k];
{held}    }
}
"""

# The scale is held within a factor of 4, and a part of it is common to all rows: local_scale. fls_exp
# takes no positive numbers: 1.38629436 is log 4.
_SCALED_REACH = """\
        const float log_scale = y[FLS_OUTPUTS + k] > 1.38629436f ? 1.38629436f : y[FLS_OUTPUTS + k];
        const float scale = 4.0f * fls_exp((log_scale < -1.38629436f ? -1.38629436f : log_scale) - 1.38629436f);
        const float reach = fls_reach[k] * (scale + 0.5f) / 1.5f;"""

_HELD = """\
        y_left[k] = y_left[k] < own[k] ? y_left[k] : own[k];
        y_right[k] = y_right[k] > own[k] ? y_right[k] : own[k];
"""


def calibrated_interval(plain: PlainSystem, calibrated: CalibratedInterval) -> str:
    """Tables and function of the interval; its system stands before them."""
    it2 = plain.kind == "it2"
    system = "fls" if calibrated.system is None else "fls_interval"
    calls = [f"{system}_reduce(x, y_left, y_right);"] if it2 else []
    calls.append(f"{system}_predict(x, y);")
    if calibrated.refitted:
        calls.append("fls_predict(x, own);")
    tables = {"gain": calibrated.gain} if it2 and calibrated.gain.any() else {}
    gains = bool(tables)
    tables["reach"] = np.asarray(calibrated.reach)
    if it2 and not gains:
        calls.pop(0)
    code = filled(
        _INTERVAL,
        n_crisp="2 * FLS_OUTPUTS" if calibrated.scaled else "FLS_OUTPUTS",
        own=", own[FLS_OUTPUTS]" if calibrated.refitted else "",
        calls="\n".join(f"    {call}" for call in calls),
        reach=_SCALED_REACH if calibrated.scaled else "        const float reach = fls_reach[k];",
        gain_left=" - fls_gain[k] * (y[k] - y_left[k])" if gains else "",
        gain_right=" + fls_gain[k] * (y_right[k] - y[k])" if gains else "",
        held=_HELD if calibrated.refitted else "",
    )
    return "\n".join([*documented_tables(tables, {}, "float", float_literal), code])

"""The C of a floating-point header, piece by piece, for a prefix ``fls``: a header holds only the pieces its system needs.

``fls_`` and ``FLS_`` at the beginning of a word become the prefix. Every loop has a bound, nothing is allocated, and no
value leaves the finite numbers: logarithms of firing are relative to the strongest rule, and held above a floor before exp.
"""

EXP_LIBM = """
/* exp of a logarithm relative to a peak. Held above e^-60, where a weighted mean no longer sees it: no denormal numbers. */
static inline float fls_exp(float x)
{
    return x < -60.0f ? 8.75651076e-27f : expf(x);
}
"""

# Coefficients: least squares of (e^r - 1 - r - r²/2) / r³ on |r| <= ln(2) / 2, reweighted until the errors were level.
# ln 2 in two parts: the first has 15 bits, so n times it is exact.
EXP_BUILTIN = """
/* exp of a logarithm relative to a peak, for -60 <= x <= 0, without libm: e^x = 2^n e^r with |r| <= ln(2) / 2.
 * Relative error below 1.5e-7. Held above e^-60, where a weighted mean no longer sees it: no denormal numbers. */
static inline float fls_exp(float x)
{
    float r, power;
    uint32_t bits;
    int32_t n;
    if (x < -60.0f) {
        return 8.75651076e-27f;
    }
    n = (int32_t)(x * 1.44269502f - 0.5f);
    r = x - (float)n * 0.693145752f - (float)n * 1.42860677e-06f;
    r = 1.0f + (r + r * r * (0.5f + r * (0.166665331f + r * (0.0416672379f + r * (0.00836751238f + r * 0.00138637703f)))));
    bits = (uint32_t)(n + 127) << 23; /* 2^n, a normal number: n >= -87 */
    memcpy(&power, &bits, sizeof power);
    return r * power;
}
"""

SCALED = """
/* Inputs as multiples of their unit from their origin, held within +-FLS_FARTHEST; 0 where one of them is NaN. */
static inline int fls_scaled(const float x[FLS_INPUTS], float z[FLS_INPUTS])
{
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
        const float units = (x[m] - fls_origin[m]) * fls_per_unit[m];
        if (units != units) {
            return 0;
        }
        z[m] = units > FLS_FARTHEST ? FLS_FARTHEST : units < -FLS_FARTHEST ? -FLS_FARTHEST : units;
    }
    return 1;
}
"""

FIRING_T1 = """
/* Firing of the rules relative to the strongest one. */
static inline void fls_fire(const float z[FLS_INPUTS], float firing[FLS_RULES])
{
    float peak = 0.0f;
    int p, m;
    for (p = 0; p < FLS_RULES; ++p) {
        float exponent = 0.0f;
        for (m = 0; m < FLS_INPUTS; ++m) {
            const float distance = z[m] - fls_center[p][m];
            exponent -= distance * distance * fls_weight[p][m];
        }
        firing[p] = exponent;
        if (p == 0 || exponent > peak) {
            peak = exponent;
        }
    }
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p] = fls_exp(firing[p] - peak);
    }
}
"""

# {sets}: what differs between uncertain widths and an uncertain height alone.
FIRING_IT2 = """
/* Logarithms of lower and upper firing relative to the largest upper one. Returns the largest lower one. */
static inline float fls_fire(const float z[FLS_INPUTS], float lower[FLS_RULES], float upper[FLS_RULES])
{
    float peak = 0.0f, lower_peak = 0.0f;
    int p, m;
    for (p = 0; p < FLS_RULES; ++p) {
{sets}
        lower[p] = log_lower;
        upper[p] = log_upper;
        if (p == 0 || log_upper > peak) {
            peak = log_upper;
        }
        if (p == 0 || log_lower > lower_peak) {
            lower_peak = log_lower;
        }
    }
    for (p = 0; p < FLS_RULES; ++p) {
        lower[p] -= peak;
        upper[p] -= peak;
    }
    return lower_peak - peak;
}
"""

SETS_TWO_WIDTHS = """\
        float log_lower = {height}, log_upper = 0.0f;
        for (m = 0; m < FLS_INPUTS; ++m) {
            const float distance = z[m] - fls_center[p][m];
            const float square = distance * distance;
            log_lower -= square * fls_lower_weight[p][m];
            log_upper -= square * fls_upper_weight[p][m];
        }
        if (log_lower > log_upper) {
            log_lower = log_upper; /* equal sets may round apart */
        }"""

SETS_ONE_WIDTH = """\
        float log_lower, log_upper = 0.0f;
        for (m = 0; m < FLS_INPUTS; ++m) {
            const float distance = z[m] - fls_center[p][m];
            log_upper -= distance * distance * fls_upper_weight[p][m];
        }
        log_lower = log_upper + {height};"""

CONSEQUENTS = """
/* Output k of every rule, relative to fls_offset[k]. */
static inline void fls_rule_outputs(const float z[FLS_INPUTS], int k, float value[FLS_RULES])
{
    int p, m;
    for (p = 0; p < FLS_RULES; ++p) {
        value[p] = fls_intercept[p][k];
        for (m = 0; m < FLS_INPUTS; ++m) {
            value[p] += fls_slope[p][k][m] * z[m];
        }
    }
}
"""

CONSEQUENTS_ORDER_0 = """
/* Output k of every rule, relative to fls_offset[k]. */
static inline void fls_rule_outputs(int k, float value[FLS_RULES])
{
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        value[p] = fls_intercept[p][k];
    }
}
"""

MEAN = """
/* Mean of the rules' outputs with the given weights. */
static inline float fls_mean(const float value[FLS_RULES], const float weight[FLS_RULES])
{
    float sum = 0.0f, total = 0.0f;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        sum += weight[p] * value[p];
        total += weight[p];
    }
    return sum / total;
}
"""

KARNIK_MENDEL = """
/* One end of the type-reduced set: the left one for sign 1; for sign -1 the left end of the mirrored values, mirrored back.
 *
 * Newton steps on the residual sum w (value - end): w is the upper firing of rules beyond the end, the lower firing of the
 * others. From a mean that can be attained the end only moves outwards, past at least one rule a step: no sort, and no more
 * than FLS_SWEEPS sweeps. Where `wide`, firing is given as logarithms, because the floats that a sweep needs span more than
 * one scale holds; each sweep then takes them relative to its own largest. */
static inline float fls_end(const float value[FLS_RULES], const float lower[FLS_RULES], const float upper[FLS_RULES],
                            int wide, float start, float sign)
{
    float end = sign * start;
    int sweep, p;
    for (sweep = 0; sweep < FLS_SWEEPS; ++sweep) {
        float residual = 0.0f, sum = 0.0f, peak = -600.0f, next;
        for (p = 0; wide && p < FLS_RULES; ++p) {
            const float log_weight = sign * value[p] < end ? upper[p] : lower[p];
            peak = log_weight > peak ? log_weight : peak;
        }
        for (p = 0; p < FLS_RULES; ++p) {
            const float gap = sign * value[p] - end;
            float weight = gap < 0.0f ? upper[p] : lower[p];
            if (wide) {
                weight = fls_exp((weight > -600.0f ? weight : -600.0f) - peak);
            }
            residual += weight * gap;
            sum += weight;
        }
        next = end + residual / sum;
        if (!(next < end)) {
            break;
        }
        end = next;
    }
    return sign * end;
}

/* The type-reduced set of every output. Returns 0, and NaN everywhere, where an input is NaN. */
static inline int fls_reduce(const float x[FLS_INPUTS], float y_left[FLS_OUTPUTS], float y_right[FLS_OUTPUTS])
{
    float z[FLS_INPUTS], lower[FLS_RULES], upper[FLS_RULES], value[FLS_RULES];
    int wide, p, k;
    if (!fls_scaled(x, z)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y_left[k] = y_right[k] = NAN;
        }
        return 0;
    }
    wide = fls_fire(z, lower, upper) < -40.0f;
    for (p = 0; !wide && p < FLS_RULES; ++p) {
        lower[p] = fls_exp(lower[p]);
        upper[p] = fls_exp(upper[p]);
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        float sum = 0.0f, total = 0.0f, start, left, right;
        fls_rule_outputs({z}k, value);
        for (p = 0; p < FLS_RULES; ++p) {
            const float weight = wide ? fls_exp(upper[p]) : upper[p];
            sum += weight * value[p];
            total += weight;
        }
        start = sum / total;
        left = fls_end(value, lower, upper, wide, start, 1.0f);
        right = fls_end(value, lower, upper, wide, start, -1.0f);
        y_left[k] = fls_offset[k] + left;
        y_right[k] = fls_offset[k] + (right < left ? left : right);
    }
    return 1;
}
"""

OUTPUTS_T1 = """
/* {what}. NaN where an input is NaN. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    float z[FLS_INPUTS], firing[FLS_RULES], value[FLS_RULES];
    int k;
    if (!fls_scaled(x, z)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y[k] = NAN;
        }
        return;
    }
    fls_fire(z, firing);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs({z}k, value);
        y[k] = fls_offset[k] + fls_mean(value, firing);
    }
}
"""

OUTPUTS_KM = """
/* {what}: the middle of the type-reduced set. NaN where an input is NaN. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    float y_right[FLS_OUTPUTS];
    int k;
    fls_reduce(x, y, y_right);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = 0.5f * (y[k] + y_right[k]);
    }
}
"""

# {weights}: firing, given as logarithms, to the weights of one or two means; {mean}: those means.
OUTPUTS_DIRECT = """
/* {what}: {method}. NaN where an input is NaN. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    float z[FLS_INPUTS], lower[FLS_RULES], upper[FLS_RULES], value[FLS_RULES];
    int p, k;
    if (!fls_scaled(x, z)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y[k] = NAN;
        }
        return;
    }
{weights}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs({z}k, value);
        y[k] = fls_offset[k] + {mean};
    }
}
"""

WEIGHTS_NT = """\
    (void)fls_fire(z, lower, upper);
    for (p = 0; p < FLS_RULES; ++p) {
        upper[p] = fls_exp(lower[p]) + fls_exp(upper[p]);
    }"""

# The lower mean relative to its own peak: lower firing may lie far below the upper one.
WEIGHTS_TWO_MEANS = """\
    {
        const float lower_peak = fls_fire(z, lower, upper);
        for (p = 0; p < FLS_RULES; ++p) {
            lower[p] = fls_exp(lower[p] - lower_peak);
            upper[p] = fls_exp(upper[p]);
        }
    }"""

INTERVAL_IT2 = """
/* {what}. NaN where an input is NaN. */
static inline void fls_predict_interval(const float x[FLS_INPUTS], float y_left[FLS_OUTPUTS],
                                        float y_right[FLS_OUTPUTS])
{
{body}
}
"""

CLASSES = """
/* Probabilities of the classes, in the order above; they add up to 1. NaN where an input is NaN. */
static inline void fls_predict(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    float peak, total = 0.0f;
    int k;
    fls_logits(x, y);
    peak = y[0];
    for (k = 1; k < FLS_OUTPUTS; ++k) {
        peak = y[k] > peak ? y[k] : peak;
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        if (y[k] == y[k]) {
            y[k] = fls_exp(y[k] - peak);
        }
        total += y[k];
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] /= total;
    }
}

/* Index of the most probable class, 0 to FLS_OUTPUTS - 1; -1 where an input is NaN. */
static inline int fls_classify(const float x[FLS_INPUTS])
{
    float logit[FLS_OUTPUTS];
    int best = 0, k;
    fls_logits(x, logit);
    if (logit[0] != logit[0]) {
        return -1;
    }
    for (k = 1; k < FLS_OUTPUTS; ++k) {
        best = logit[k] > logit[best] ? k : best;
    }
    return best;
}
"""

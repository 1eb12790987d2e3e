"""The C of a fixed-point header, piece by piece, for a prefix ``fls``; ``fixed_point.py`` does the same in NumPy.

Only integers: 32 bits for values, 64 for products and sums. Negative numbers are multiplied, never shifted to the left.
"""

EXP = """
/* e^-exponent with FLS_WEIGHT_BITS bits behind the point: 2^-n times a power of two from a table times a cubic. */
static inline int32_t fls_exp(int32_t exponent)
{
    const int64_t t = ((int64_t)(exponent < FLS_FLOOR ? exponent : FLS_FLOOR) * {log2_e}) >> 26; /* 24 bits: log2 */
    const int32_t shift = (int32_t)(t >> 24) + (30 - FLS_WEIGHT_BITS);
    const int64_t a = ((t & 0x7FFFF) * {ln_2}) >> 24; /* 30 bits, below ln(2) / 32 */
    const int64_t square = (a * a) >> 30;
    const int64_t cube = (((square * a) >> 30) * {sixth}) >> 30;
    const int64_t power = (fls_power[(t >> 19) & 31] * (1073741824 - a + (square >> 1) - cube)) >> 30;
    return shift > 30 ? 0 : (int32_t)(power >> shift);
}
"""

SUMS = """
/* Sum of the squares of (z - center) times an inverse width, with 20 bits behind the point, saturated. */
static inline int32_t fls_exponent(const int32_t z[FLS_INPUTS], const fls_q center[FLS_INPUTS],
                                   const fls_q inverse[FLS_INPUTS])
{
    int64_t sum = 0;
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
        const int32_t distance = z[m] - (int32_t)center[m] * {center_factor};
        int64_t step = ((int64_t)distance * inverse[m]) >> {step_shift};
        step = step > INT32_MAX ? INT32_MAX : step < -INT32_MAX ? -INT32_MAX : step;
        sum += (step * step) >> {square_shift};
    }
    return sum > INT32_MAX ? INT32_MAX : (int32_t)sum;
}
"""

SCALED = """
/* Inputs with {z_bits} bits behind the point. */
static inline void fls_scaled(const fls_q x[FLS_INPUTS], int32_t z[FLS_INPUTS])
{
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
        z[m] = {scaled};
    }
}
"""

FIRING_T1 = """
/* Firing of the rules relative to the strongest one. */
static inline void fls_fire(const int32_t z[FLS_INPUTS], int32_t firing[FLS_RULES])
{
    int32_t peak = INT32_MAX;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p] = fls_exponent(z, fls_center[p], fls_inverse[p]);
        peak = firing[p] < peak ? firing[p] : peak;
    }
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p] = fls_exp(firing[p] - peak);
    }
}
"""

FIRING_IT2 = """
/* Exponents of lower and upper firing above the smallest upper one. Returns the smallest lower one. */
static inline int32_t fls_fire(const int32_t z[FLS_INPUTS], int32_t lower[FLS_RULES], int32_t upper[FLS_RULES])
{
    int32_t peak = INT32_MAX, lower_peak = INT32_MAX;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        int64_t sum;
        upper[p] = fls_exponent(z, fls_center[p], fls_upper_inverse[p]);
        sum = {lower};
        sum = sum > INT32_MAX ? INT32_MAX : sum;
        lower[p] = sum < upper[p] ? upper[p] : (int32_t)sum;
        peak = upper[p] < peak ? upper[p] : peak;
        lower_peak = lower[p] < lower_peak ? lower[p] : lower_peak;
    }
    for (p = 0; p < FLS_RULES; ++p) {
        lower[p] -= peak;
        upper[p] -= peak;
    }
    return lower_peak - peak;
}
"""

CONSEQUENTS = """
/* Output k of every rule with {value_bits} bits behind the point. */
static inline void fls_rule_outputs(const int32_t z[FLS_INPUTS], int k, int32_t value[FLS_RULES])
{
    int p, m;
    for (p = 0; p < FLS_RULES; ++p) {
        int64_t sum = (int64_t)fls_intercept[p][k] * {intercept_factor};
        for (m = 0; m < FLS_INPUTS; ++m) {
            sum += ((int64_t)z[m] * fls_slope[p][k][m]) >> {slope_shift};
        }
        value[p] = (int32_t)sum;
    }
}
"""

CONSEQUENTS_ORDER_0 = """
/* Output k of every rule with {value_bits} bits behind the point. */
static inline void fls_rule_outputs(int k, int32_t value[FLS_RULES])
{
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        value[p] = (int32_t)fls_intercept[p][k] * {intercept_factor};
    }
}
"""

MEAN = """
/* Mean of the rules' outputs with the given weights. */
static inline int32_t fls_mean(const int32_t value[FLS_RULES], const int32_t weight[FLS_RULES])
{
    int64_t sum = 0;
    int32_t total = 0;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        sum += (int64_t)weight[p] * value[p];
        total += weight[p];
    }
    return (int32_t)(sum / total);
}
"""

NARROWED = """
/* A value as an output, saturated. */
static inline fls_q fls_narrowed(int64_t value)
{
    value = {narrowed};
    return value > FLS_MAX ? FLS_MAX : value < FLS_MIN ? FLS_MIN : (fls_q)value;
}
"""

KARNIK_MENDEL = """
/* One end of the type-reduced set: the left one for sign 1; for sign -1 the left end of the mirrored values, mirrored back.
 *
 * Newton steps on the residual sum w (value - end): w is the upper firing of rules beyond the end, the lower firing of the
 * others. From a mean that can be attained the end only moves outwards, past at least one rule a step: no sort, and no more
 * than FLS_SWEEPS sweeps. Where `wide`, firing is given as exponents, because the integers that a sweep needs span more
 * than one scale holds; each sweep then takes them relative to its own smallest, and before it stops short of a rule, whose
 * weight may have rounded the others away, it tries the place of that rule. */
static inline int32_t fls_end(const int32_t value[FLS_RULES], const int32_t lower[FLS_RULES],
                              const int32_t upper[FLS_RULES], int wide, int32_t start, int32_t sign)
{
    int32_t end = sign * start, kept = end;
    int trial = 0, sweep, p;
    for (sweep = 0; sweep < FLS_SWEEPS; ++sweep) {
        int64_t residual = 0;
        int32_t sum = 0, peak = FLS_FLOOR, nearest = INT32_MIN;
        for (p = 0; wide && p < FLS_RULES; ++p) {
            const int32_t exponent = sign * value[p] < end ? upper[p] : lower[p];
            peak = exponent < peak ? exponent : peak;
        }
        for (p = 0; p < FLS_RULES; ++p) {
            const int32_t gap = sign * value[p] - end;
            int32_t weight = gap < 0 ? upper[p] : lower[p];
            if (wide) {
                weight = fls_exp((weight < FLS_FLOOR ? weight : FLS_FLOOR) - peak);
            }
            if (gap < 0 && sign * value[p] > nearest) {
                nearest = sign * value[p];
            }
            residual += (int64_t)weight * gap;
            sum += weight;
        }
        if (residual < 0) {
            end -= (int32_t)((sum - 1 - residual) / sum); /* rounded outwards */
            trial = 0;
        } else if (wide && !trial && nearest > INT32_MIN) {
            kept = end;
            end = nearest;
            trial = 1;
        } else {
            break;
        }
    }
    return sign * (trial ? kept : end);
}

/* The type-reduced set of every output with {value_bits} bits behind the point. */
static inline void fls_reduce(const fls_q x[FLS_INPUTS], int32_t left[FLS_OUTPUTS], int32_t right[FLS_OUTPUTS])
{
    int32_t z[FLS_INPUTS], lower[FLS_RULES], upper[FLS_RULES], value[FLS_RULES];
    int wide, p, k;
    fls_scaled(x, z);
    wide = fls_fire(z, lower, upper) > FLS_WIDE;
    for (p = 0; !wide && p < FLS_RULES; ++p) {
        lower[p] = fls_exp(lower[p]);
        upper[p] = fls_exp(upper[p]);
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        int64_t sum = 0;
        int32_t total = 0, start;
        fls_rule_outputs({z}k, value);
        for (p = 0; p < FLS_RULES; ++p) {
            const int32_t weight = wide ? fls_exp(upper[p]) : upper[p];
            sum += (int64_t)weight * value[p];
            total += weight;
        }
        start = (int32_t)(sum / total);
        left[k] = fls_end(value, lower, upper, wide, start, 1);
        right[k] = fls_end(value, lower, upper, wide, start, -1);
        right[k] = right[k] < left[k] ? left[k] : right[k];
    }
}
"""

OUTPUTS_T1 = """
/* Outputs of the system with {value_bits} bits behind the point. */
static inline void fls_outputs(const fls_q x[FLS_INPUTS], int32_t y[FLS_OUTPUTS])
{
    int32_t z[FLS_INPUTS], firing[FLS_RULES], value[FLS_RULES];
    int k;
    fls_scaled(x, z);
    fls_fire(z, firing);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs({z}k, value);
        y[k] = fls_mean(value, firing);
    }
}
"""

OUTPUTS_KM = """
/* Outputs of the system with {value_bits} bits behind the point: the middle of the type-reduced set. */
static inline void fls_outputs(const fls_q x[FLS_INPUTS], int32_t y[FLS_OUTPUTS])
{
    int32_t right[FLS_OUTPUTS];
    int k;
    fls_reduce(x, y, right);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = (y[k] + right[k]) >> 1;
    }
}
"""

OUTPUTS_DIRECT = """
/* Outputs of the system with {value_bits} bits behind the point: {method}. */
static inline void fls_outputs(const fls_q x[FLS_INPUTS], int32_t y[FLS_OUTPUTS])
{
    int32_t z[FLS_INPUTS], lower[FLS_RULES], upper[FLS_RULES], value[FLS_RULES];
    int p, k;
    fls_scaled(x, z);
{weights}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs({z}k, value);
        y[k] = {mean};
    }
}
"""

WEIGHTS_NT = """\
    (void)fls_fire(z, lower, upper);
    for (p = 0; p < FLS_RULES; ++p) {
        upper[p] = (fls_exp(lower[p]) + fls_exp(upper[p])) >> 1;
    }"""

WEIGHTS_TWO_MEANS = """\
    {
        const int32_t lower_peak = fls_fire(z, lower, upper);
        for (p = 0; p < FLS_RULES; ++p) {
            lower[p] = fls_exp(lower[p] - lower_peak);
            upper[p] = fls_exp(upper[p]);
        }
    }"""

MEAN_TWO = """\
(int32_t)(((int64_t)fls_mean(value, lower) * fls_mix[k] +
                          (int64_t)fls_mean(value, upper) * (1073741824 - fls_mix[k])) >> 30)"""

PREDICT = """
/* Crisp outputs. */
static inline void fls_predict(const fls_q x[FLS_INPUTS], fls_q y[FLS_OUTPUTS])
{
    int32_t value[FLS_OUTPUTS];
    int k;
    fls_outputs(x, value);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = fls_narrowed(value[k]);
    }
}
"""

INTERVAL = """
/* {what}. */
static inline void fls_predict_interval(const fls_q x[FLS_INPUTS], fls_q y_left[FLS_OUTPUTS], fls_q y_right[FLS_OUTPUTS])
{
    int32_t left[FLS_OUTPUTS]{right};
    int k;
    {call}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y_left[k] = fls_narrowed((int64_t)left[k]{minus});
        y_right[k] = fls_narrowed((int64_t){other}[k]{plus});
    }
}
"""

CLASSES = """
/* Logits of the classes, whose softmax are the probabilities. */
static inline void fls_logits(const fls_q x[FLS_INPUTS], fls_q y[FLS_OUTPUTS])
{
    int32_t value[FLS_OUTPUTS];
    int k;
    fls_outputs(x, value);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = fls_narrowed(value[k]);
    }
}

/* Index of the most probable class, 0 to FLS_OUTPUTS - 1. */
static inline int fls_classify(const fls_q x[FLS_INPUTS])
{
    int32_t value[FLS_OUTPUTS];
    int best = 0, k;
    fls_outputs(x, value);
    for (k = 1; k < FLS_OUTPUTS; ++k) {
        best = value[k] > value[best] ? k : best;
    }
    return best;
}

/* Probabilities of the classes, in the order above, as fractions of FLS_MAX + 1. */
static inline void fls_predict(const fls_q x[FLS_INPUTS], fls_q y[FLS_OUTPUTS])
{
    int32_t value[FLS_OUTPUTS], peak;
    int64_t total = 0;
    int k;
    fls_outputs(x, value);
    peak = value[0];
    for (k = 1; k < FLS_OUTPUTS; ++k) {
        peak = value[k] > peak ? value[k] : peak;
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        const int64_t exponent = ((int64_t)(peak - value[k]) * {logit_factor}) >> {logit_shift};
        value[k] = fls_exp(exponent < FLS_FLOOR ? (int32_t)exponent : FLS_FLOOR);
        total += value[k];
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        const int64_t probability = ((int64_t)value[k] * ((int64_t)FLS_MAX + 1)) / total;
        y[k] = probability > FLS_MAX ? FLS_MAX : (fls_q)probability;
    }
}
"""

FLOAT_HELPERS = """
/* Conversions for a host or a test: the functions above use no floating point. Define FLS_WITH_FLOAT to have them. */
#ifdef FLS_WITH_FLOAT
static const float fls_input_middle[FLS_INPUTS] = {input_middle};
static const float fls_input_half[FLS_INPUTS] = {input_half};
static const float fls_output_middle[FLS_OUTPUTS] = {output_middle};
static const float fls_output_half[FLS_OUTPUTS] = {output_half};

/* Input m from its value; saturated, and the smallest for NaN. */
static inline fls_q fls_quantized(int m, float value)
{
    const float share = (value - fls_input_middle[m]) / fls_input_half[m];
    if (!(share > -1.0f)) {
        return FLS_MIN;
    }
    return share >= 1.0f ? FLS_MAX : (fls_q)((double)share * ((double)FLS_MAX + 1.0) + (share < 0.0f ? -0.5 : 0.5));
}

/* Value of output k. */
static inline float fls_value(int k, fls_q y)
{
    return fls_output_middle[k] + fls_output_half[k] * (float)((double)y / ((double)FLS_MAX + 1.0));
}
#endif
"""

"""The C of a floating-point header from the firing of its rules to its outputs, piece by piece, for a prefix ``fls``."""

MEAN = """
/* Mean of the rules' outputs with the given weights. */
static inline float fls_mean(const float value[FLS_RULES], const fls_firing firing[FLS_RULES])
{
    float sum = 0.0f, total = 0.0f;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        sum += firing[p].weight * value[p];
        total += firing[p].weight;
    }
    return sum / total;
}
"""

KARNIK_MENDEL = """
/* One end of the type-reduced set: the left one for sign 1; for sign -1 the left end of the mirrored values, mirrored back.
 *
 * Newton steps on the residual sum w (value - end): w is the upper firing of rules beyond the end, the lower firing of the
 * others. From the largest value the first step leads to the mean under upper firing, and the next ones outwards, past at
 * least one rule each: no sort, and no more than FLS_SWEEPS sweeps. Where `wide`, firing is given as depths, because the
 * weights that a sweep needs span more than one scale holds; each sweep then takes them relative to its own largest. */
static inline float fls_end(const float value[FLS_RULES], const fls_firing lower[FLS_RULES],
                            const fls_firing upper[FLS_RULES], int wide, float sign)
{
    float end = sign * value[0];
    int sweep, p;
    for (p = 1; p < FLS_RULES; ++p) {
        end = sign * value[p] > end ? sign * value[p] : end;
    }
    for (sweep = 0; sweep < FLS_SWEEPS; ++sweep) {
        float residual = 0.0f, sum = 0.0f, next;
        uint32_t peak = FLS_DEEPEST;
        for (p = 0; wide && p < FLS_RULES; ++p) {
            const uint32_t depth = sign * value[p] < end ? upper[p].depth : lower[p].depth;
            peak = depth < peak ? depth : peak;
        }
        for (p = 0; p < FLS_RULES; ++p) {
            const float gap = sign * value[p] - end;
            const fls_firing *firing = gap < 0.0f ? &upper[p] : &lower[p];
            const float weight = wide ? fls_weight(firing->depth - peak) : firing->weight;
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

/* Ends of the type-reduced set of every output; where y_right is a null pointer, its middle in y_left. */
static inline void fls_reduce(const float x[FLS_INPUTS], float *y_left, float *y_right)
{
    fls_inputs in;
    fls_firing firing[FLS_SETS];
    const fls_firing *const lower = firing, *const upper = firing + FLS_RULES;
    float value[FLS_RULES], ends[2];
    uint32_t nearest = FLS_DEEPEST;
    int wide, p, k;
    if (!fls_scaled(x, &in)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y_left[k] = NAN;
            if (y_right) {
                y_right[k] = NAN;
            }
        }
        return;
    }
    fls_fire(&in, firing);
    fls_sink(firing, FLS_SETS, fls_peak(upper), in.near);
    for (p = 0; p < FLS_RULES; ++p) {
        nearest = lower[p].depth < nearest ? lower[p].depth : nearest;
    }
    wide = nearest > 40 * FLS_ONE;
    if (!wide) {
        fls_weigh(firing, FLS_SETS);
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        int side;
        fls_rule_outputs(&in, k, value);
        for (side = 0; side < 2; ++side) {
            ends[side] = fls_end(value, lower, upper, wide, side ? -1.0f : 1.0f);
        }
        if (ends[1] < ends[0]) {
            ends[1] = ends[0];
        }
        y_left[k] = fls_output(&in, k, y_right ? ends[0] : 0.5f * (ends[0] + ends[1]));
        if (y_right) {
            y_right[k] = fls_output(&in, k, ends[1]);
        }
    }
}
"""

OUTPUTS_T1 = """
/* {what}. NaN where an input is NaN or infinite. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    fls_inputs in;
    fls_firing firing[FLS_RULES];
    float value[FLS_RULES];
    int k;
    if (!fls_scaled(x, &in)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y[k] = NAN;
        }
        return;
    }
    fls_fire(&in, firing);
    fls_sink(firing, FLS_SETS, fls_peak(firing), in.near);
    fls_weigh(firing, FLS_SETS);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs(&in, k, value);
        y[k] = fls_output(&in, k, fls_mean(value, firing));
    }
}
"""

OUTPUTS_KM = """
/* {what}: the middle of the type-reduced set. NaN where an input is NaN or infinite. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    fls_reduce(x, y, NULL);
}
"""

# {weights}: firing to the weights of one or two means; {mean}: those means.
OUTPUTS_DIRECT = """
/* {what}: {method}. NaN where an input is NaN or infinite. */
static inline void {name}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    fls_inputs in;
    fls_firing firing[FLS_SETS], *const lower = firing, *const upper = firing + FLS_RULES;
    float value[FLS_RULES];
    int {p}k;
    if (!fls_scaled(x, &in)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y[k] = NAN;
        }
        return;
    }
    fls_fire(&in, firing);
{weights}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs(&in, k, value);
        y[k] = fls_output(&in, k, {mean});
    }
}
"""

WEIGHTS_NT = """\
    fls_sink(firing, FLS_SETS, fls_peak(upper), in.near);
    fls_weigh(firing, FLS_SETS);
    for (p = 0; p < FLS_RULES; ++p) {
        upper[p].weight += lower[p].weight;
    }"""

# The lower mean relative to its own peak: lower firing may lie far below the upper one.
WEIGHTS_TWO_MEANS = """\
    fls_sink(lower, FLS_RULES, fls_peak(lower), in.near);
    fls_sink(upper, FLS_RULES, fls_peak(upper), in.near);
    fls_weigh(firing, FLS_SETS);"""

INTERVAL_IT2 = """
/* {what}. NaN where an input is NaN or infinite. */
static inline void fls_predict_interval(const float x[FLS_INPUTS], float y_left[FLS_OUTPUTS],
                                        float y_right[FLS_OUTPUTS])
{
{body}
}
"""

CLASSES = """
/* Probabilities of the classes, in the order above; they add up to 1. NaN where an input is NaN or infinite. */
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

/* Index of the most probable class, 0 to FLS_OUTPUTS - 1; -1 where an input is NaN or infinite. */
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

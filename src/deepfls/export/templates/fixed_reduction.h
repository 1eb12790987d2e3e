{# Firing, type reduction and outputs of a system in fixed point. #}
{% set z = "z, " if linear else "" %}
{% if not it2 %}
/* Firing of the rules relative to the strongest one. */
static inline void fls_fire(const int32_t z[FLS_INPUTS], int32_t firing[FLS_RULES])
{
    int32_t peak = INT32_MAX;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p] = fls_exponent(z, fls_center[p], fls_upper_inverse[p]);
        peak = firing[p] < peak ? firing[p] : peak;
    }
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p] = fls_exp(firing[p] - peak);
    }
}

{% else %}
/* Exponents of lower and upper firing, relative to the smallest upper one. Returns the smallest lower one. */
static inline int32_t fls_fire(const int32_t z[FLS_INPUTS], int32_t lower[FLS_RULES], int32_t upper[FLS_RULES])
{
    int32_t peak = INT32_MAX, lower_peak = INT32_MAX;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        int64_t sum;
        upper[p] = fls_exponent(z, fls_center[p], fls_upper_inverse[p]);
{% if "lower_inverse" in tables %}
        sum = fls_exponent(z, fls_center[p], fls_lower_inverse[p]);
{% else %}
        sum = upper[p];
{% endif %}
{% if "height" in tables %}
        sum += fls_height[p];
{% endif %}
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

/* One end point of the type-reduced set: the left one for sign 1. For sign -1 it is the left end of the mirrored values,
 * mirrored back.
 *
 * Newton steps on the residual sum w (value - end), where w is the upper firing of rules beyond the end and the lower firing
 * of the others. From a mean that can be attained the end moves outwards only, past at least one rule per step: no sort. If
 * `wide`, firing is given as exponents, because the weights of a sweep span more than 32 bits; each sweep then takes them
 * relative to its own smallest exponent. The weight of a rule just beyond the end may round the others away. So before the
 * sweeps stop, the position of that rule is tried as the end. FLS_SWEEPS bounds steps and trials together. */
static inline int32_t fls_end(const int32_t value[FLS_RULES], const int32_t lower[FLS_RULES],
                              const int32_t upper[FLS_RULES], int wide, int32_t start, int32_t sign)
{
    int32_t end = sign * start, kept = end;
    int trial = 0, sweep, p;
    for (sweep = 0; sweep < FLS_SWEEPS; ++sweep) {
        int64_t residual = 0;
        int32_t sum = 0, peak = FLS_MAX_EXPONENT, nearest = INT32_MIN;
        for (p = 0; wide && p < FLS_RULES; ++p) {
            const int32_t exponent = sign * value[p] < end ? upper[p] : lower[p];
            peak = exponent < peak ? exponent : peak;
        }
        for (p = 0; p < FLS_RULES; ++p) {
            const int32_t gap = sign * value[p] - end;
            int32_t weight = gap < 0 ? upper[p] : lower[p];
            if (wide) {
                weight = fls_exp((weight < FLS_MAX_EXPONENT ? weight : FLS_MAX_EXPONENT) - peak);
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

/* The type-reduced set of every output with {{ fixed.value_bits }} fraction bits. */
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
        fls_rule_outputs({{ z }}k, value);
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

{% endif %}
{% if plain.type_reduction == "km" %}
/* Outputs of the system with {{ fixed.value_bits }} fraction bits: the midpoint of the type-reduced set. */
static inline void fls_outputs(const fls_q x[FLS_INPUTS], int32_t y[FLS_OUTPUTS])
{
    int32_t right[FLS_OUTPUTS];
    int k;
    fls_reduce(x, y, right);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = (y[k] + right[k]) >> 1;
    }
}
{% else %}
/* Mean of the rule outputs with the given weights. */
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

{% set method = {"": "", "nt": ": Nie-Tan"}.get(plain.type_reduction, ": a mix of the means under lower and upper firing") %}
/* Outputs of the system with {{ fixed.value_bits }} fraction bits{{ method }}. */
static inline void fls_outputs(const fls_q x[FLS_INPUTS], int32_t y[FLS_OUTPUTS])
{
    int32_t z[FLS_INPUTS], {% if it2 %}lower[FLS_RULES], upper[FLS_RULES]{% else %}firing[FLS_RULES]{% endif %}, value[FLS_RULES];
{% if "mix" in tables %}
    int32_t lower_peak;
{% endif %}
    int {{ "p, " if it2 else "" }}k;
    fls_scaled(x, z);
{% if not it2 %}
    fls_fire(z, firing);
{% elif plain.type_reduction == "nt" %}
    (void)fls_fire(z, lower, upper);
    for (p = 0; p < FLS_RULES; ++p) {
        upper[p] = (fls_exp(lower[p]) + fls_exp(upper[p])) >> 1;
    }
{% else %}
    lower_peak = fls_fire(z, lower, upper);
    for (p = 0; p < FLS_RULES; ++p) {
        lower[p] = fls_exp(lower[p] - lower_peak);
        upper[p] = fls_exp(upper[p]);
    }
{% endif %}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs({{ z }}k, value);
{% if "mix" in tables %}
        y[k] = (int32_t)(((int64_t)fls_mean(value, lower) * fls_mix[k] +
                          (int64_t)fls_mean(value, upper) * (1073741824 - fls_mix[k])) >> 30);
{% else %}
        y[k] = fls_mean(value, {{ "upper" if it2 else "firing" }});
{% endif %}
    }
}
{% endif %}

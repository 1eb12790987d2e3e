{# Type reduction and crisp outputs of a system in float32, from the firing and the outputs of its rules. #}
{% set classifier = plain.classes is not none %}
{% set crisp = "logits" if classifier else "predict" %}
{% set crisp_text = "Logits of the classes" if classifier else "Crisp outputs" %}
{% if it2 %}
/* One end point of the type-reduced set: the left one for sign 1. For sign -1 it is the left end of the mirrored values,
 * mirrored back.
 *
 * Newton steps on the residual sum w (value - end), where w is the upper firing of rules beyond the end and the lower firing
 * of the others. From the largest value the first step leads to the mean under upper firing. The next steps move outwards,
 * past at least one rule each; they need no sort, and FLS_SWEEPS bounds them. A rule at the end point adds nothing to the
 * residual, so the choice of its firing needs no tolerance. If `wide`, firing is given as depths, because the weights of a
 * sweep span more than the range of one scale; each sweep then takes them relative to its own largest. */
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
        uint32_t peak = FLS_MAX_DEPTH;
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

/* End points of the type-reduced set of every output. If y_right is a null pointer, y_left receives the midpoint. */
static inline void fls_reduce(const float x[FLS_INPUTS], float *y_left, float *y_right)
{
    fls_inputs in;
    fls_firing firing[FLS_SETS];
    const fls_firing *const lower = firing, *const upper = firing + FLS_RULES;
    float value[FLS_RULES], ends[2];
    uint32_t nearest = FLS_MAX_DEPTH;
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
    fls_to_depths(firing, FLS_SETS, fls_peak(upper), in.near);
    for (p = 0; p < FLS_RULES; ++p) {
        nearest = lower[p].depth < nearest ? lower[p].depth : nearest;
    }
    wide = nearest > 40 * FLS_ONE;
    if (!wide) {
        fls_to_weights(firing, FLS_SETS);
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

{% endif %}
{% if plain.type_reduction == "km" %}
/* {{ crisp_text }}: the midpoint of the type-reduced set. NaN if an input is {{ unusable }}. */
static inline void fls_{{ crisp }}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    fls_reduce(x, y, NULL);
}
{% else %}
/* Mean of the rule outputs with the given weights. */
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

{% set method = {
    "": "",
    "nt": ": Nie-Tan, the mean under the sum of lower and upper firing",
    "sm": ": the midpoint of the means under lower and upper firing",
    "bmm": ": a mix of the means under lower and upper firing",
}[plain.type_reduction] %}
/* {{ crisp_text }}{{ method }}. NaN if an input is {{ unusable }}. */
static inline void fls_{{ crisp }}(const float x[FLS_INPUTS], float y[FLS_OUTPUTS])
{
    fls_inputs in;
    fls_firing firing[FLS_SETS]{% if it2 %}, *const lower = firing, *const upper = firing + FLS_RULES{% endif %};
    float value[FLS_RULES];
    int {{ "p, " if plain.type_reduction == "nt" else "" }}k;
    if (!fls_scaled(x, &in)) {
        for (k = 0; k < FLS_OUTPUTS; ++k) {
            y[k] = NAN;
        }
        return;
    }
    fls_fire(&in, firing);
{% if plain.type_reduction in ("sm", "bmm") %}
    /* The lower mean is relative to its own peak: lower firing may be far below the upper one. */
    fls_to_depths(lower, FLS_RULES, fls_peak(lower), in.near);
    fls_to_depths(upper, FLS_RULES, fls_peak(upper), in.near);
{% else %}
    fls_to_depths(firing, FLS_SETS, fls_peak({{ "upper" if it2 else "firing" }}), in.near);
{% endif %}
    fls_to_weights(firing, FLS_SETS);
{% if plain.type_reduction == "nt" %}
    for (p = 0; p < FLS_RULES; ++p) {
        upper[p].weight += lower[p].weight;
    }
{% endif %}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        fls_rule_outputs(&in, k, value);
{% if plain.type_reduction == "bmm" %}
        y[k] = fls_output(&in, k, fls_mix[k] * fls_mean(value, lower) + (1.0f - fls_mix[k]) * fls_mean(value, upper));
{% elif plain.type_reduction == "sm" %}
        y[k] = fls_output(&in, k, 0.5f * (fls_mean(value, lower) + fls_mean(value, upper)));
{% else %}
        y[k] = fls_output(&in, k, fls_mean(value, {{ "upper" if it2 else "firing" }}));
{% endif %}
    }
}
{% endif %}
{% if classifier %}
{% with exp_name = prefix ~ "_exp" %}
{% include "float_classes.h" %}
{% endwith %}
{% endif %}

{# A system in fixed point, and its interval; fixed_point.py computes the same integers in NumPy.

   Only integers: 32 bits for values, 64 for products and sums. Negative numbers are multiplied, never shifted to the left. #}
{% extends "header.h" %}
{% block arithmetic %} in fixed point, {{ fixed.number }}{% endblock %}
{% block conversion %}
{% set scale = "2^" ~ fixed.bits %}
 * Inputs and outputs are integers q. Their values are midpoint + half range * q / {{ scale }}:
{% for middle in fixed.input_middle %}
 *   x[{{ loop.index0 }}]  {{ "%.9g + %.9g" % (middle, fixed.input_half[loop.index0]) }} * q / {{ scale }}
{% endfor %}
{% for middle in fixed.output_middle %}
 *   y[{{ loop.index0 }}]  {{ "%.9g + %.9g" % (middle, fixed.output_half[loop.index0]) }} * q / {{ scale }}
{% endfor %}
{% if plain.classes is not none %}
 * These outputs are the logits; the probabilities of fls_predict are q / {{ scale }}.
{% endif %}
 *
{% endblock %}
{% block cost %}
 * Error on {{ measured.n_rows | thousands }} {{ "given rows" if measured.given else "rows drawn from the range of the training data" }}, against float64:
{% for largest in measured.largest %}
{% set k = loop.index0 %}
 *   y[{{ k }}]  {{ "at most %.2g (%.2g %% of its range), root mean square %.2g" % (largest, 100 * largest / measured.ranges[k], measured.rms[k]) }}
{% endfor %}
 *
 * Flash  {{ table_bytes | thousands }} bytes of tables, and about {{ code_bytes | thousands }} bytes of code, the division of
 *        64-bit integers not included (gcc 12 -O2, Cortex-M3).
 * RAM    none static; about {{ ram_bytes | thousands }} bytes of stack.
{% if plain.type_reduction == "km" %}
 * Work   at most {{ 2 * plain.n_outputs * sweeps }} sweeps over {{ plain.n_rules | counted("rule") }} ({{ sweeps }} per end point), usually 3 per end point; a sweep
 *        takes one division and at most {{ plain.n_rules | counted("exponential") }}. No sort, no enumeration.
{% else %}
{% set divisions = plain.n_outputs * (2 if plain.type_reduction in ("bmm", "sm") else 1) %}
{% set exponentials = plain.n_rules * (1 if plain.kind == "t1" else 2) %}
 * Work   of one prediction: {{ divisions | counted("division") }}, {{ exponentials | counted("exponential") }}.
{% endif %}
 *
 * Inputs outside the range above saturate at its ends. Only the functions under FLS_WITH_FLOAT use floating point. Right
 * shifts of negative numbers must be arithmetic, as they are in every common compiler.
{% endblock %}
{% block code %}
{% set it2 = plain.kind == "it2" %}
{% set linear = plain.order == 1 %}
#include <stdint.h>

typedef {{ "int16_t" if fixed.number == "q15" else "int32_t" }} fls_q;

#define FLS_INPUTS {{ plain.n_features }}
#define FLS_RULES {{ plain.n_rules }}
#define FLS_OUTPUTS {{ plain.n_outputs }}
#define FLS_MIN {{ "INT16_MIN" if fixed.number == "q15" else "INT32_MIN" }}
#define FLS_MAX {{ "INT16_MAX" if fixed.number == "q15" else "INT32_MAX" }}
#define FLS_WEIGHT_BITS {{ fixed.weight_bits }}
#define FLS_MAX_EXPONENT {{ constants.MAX_EXPONENT }} /* larger exponents count as this one: e^{{ log_floor }} */
{% if it2 %}
#define FLS_SWEEPS {{ sweeps }}
#define FLS_WIDE {{ constants.WIDE }} /* exponent of e^-2 */
{% endif %}

/* 2^(-i/32) with 30 fraction bits. */
static const int32_t fls_power{{ tables.power.text }};
/* Centers of the sets relative to the midpoint of the input: [rule][input]. */
static const fls_q fls_center{{ tables.center.text }};
{% if "lower_inverse" in tables %}
/* 1 / (sqrt(2) width) of the lower sets: [rule][input]. */
static const fls_q fls_lower_inverse{{ tables.lower_inverse.text }};
{% endif %}
/* 1 / (sqrt(2) width) of the {{ "upper " if it2 else "" }}sets: [rule][input]. */
static const fls_q fls_upper_inverse{{ tables.upper_inverse.text }};
{% if "height" in tables %}
/* Minus the logarithm of the height of the lower firing: [rule]. */
static const int32_t fls_height{{ tables.height.text }};
{% endif %}
/* Rule outputs at the midpoint of the inputs, minus the midpoint of the output: [rule][output]. */
static const fls_q fls_intercept{{ tables.intercept.text }};
{% if linear %}
/* Slopes of the rule outputs: [rule][output][input]. */
static const fls_q fls_slope{{ tables.slope.text }};
{% endif %}
{% if "mix" in tables %}
/* Share of the mean under lower firing, with 30 fraction bits: [output]. */
static const int32_t fls_mix{{ tables.mix.text }};
{% endif %}
{% if "margin" in tables %}
/* Margin of the interval: [output]. */
static const int32_t fls_margin{{ tables.margin.text }};
{% endif %}

/* e^-exponent with FLS_WEIGHT_BITS fraction bits: 2^-n times a power of two from a table times a cubic polynomial. */
static inline int32_t fls_exp(int32_t exponent)
{
    const int32_t limited = exponent < FLS_MAX_EXPONENT ? exponent : FLS_MAX_EXPONENT;
    const int64_t t = ((int64_t)limited * {{ constants.LOG2_E }}) >> 26; /* base-2 logarithm, 24 fraction bits */
    const int32_t shift = (int32_t)(t >> 24) + (30 - FLS_WEIGHT_BITS);
    const int64_t a = ((t & 0x7FFFF) * {{ constants.LN_2 }}) >> 24; /* 30 fraction bits, below ln(2) / 32 */
    const int64_t square = (a * a) >> 30;
    const int64_t cube = (((square * a) >> 30) * {{ constants.SIXTH }}) >> 30;
    const int64_t power = (fls_power[(t >> 19) & 31] * (1073741824 - a + (square >> 1) - cube)) >> 30;
    return shift > 30 ? 0 : (int32_t)(power >> shift);
}

/* Inputs with {{ fixed.z_bits }} fraction bits. */
static inline void fls_scaled(const fls_q x[FLS_INPUTS], int32_t z[FLS_INPUTS])
{
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
{% if fixed.z_bits >= fixed.bits %}
        z[m] = (int32_t)x[m] * {{ 2 ** (fixed.z_bits - fixed.bits) }};
{% else %}
        z[m] = x[m] >> {{ fixed.bits - fixed.z_bits }};
{% endif %}
    }
}

/* Sum of the squares of (z - center) times an inverse width, with 20 fraction bits, saturated. */
static inline int32_t fls_exponent(const int32_t z[FLS_INPUTS], const fls_q center[FLS_INPUTS],
                                   const fls_q inverse[FLS_INPUTS])
{
    int64_t sum = 0;
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
        const int32_t distance = z[m] - (int32_t)center[m] * {{ 2 ** (fixed.z_bits - fixed.center_bits) }};
        int64_t step = ((int64_t)distance * inverse[m]) >> {{ fixed.z_bits + fixed.inverse_bits - fixed.step_bits }};
        step = step > INT32_MAX ? INT32_MAX : step < -INT32_MAX ? -INT32_MAX : step;
        sum += (step * step) >> {{ 2 * fixed.step_bits - constants.EXPONENT_BITS }};
    }
    return sum > INT32_MAX ? INT32_MAX : (int32_t)sum;
}

/* Output k of every rule with {{ fixed.value_bits }} fraction bits. */
static inline void fls_rule_outputs({{ "const int32_t *z, " if linear else "" }}int k, int32_t value[FLS_RULES])
{
    int p{{ ", m" if linear else "" }};
    for (p = 0; p < FLS_RULES; ++p) {
{% set factor = 2 ** (fixed.value_bits - fixed.intercept_bits) %}
{% if linear %}
        int64_t sum = (int64_t)fls_intercept[p][k] * {{ factor }};
        for (m = 0; m < FLS_INPUTS; ++m) {
            sum += ((int64_t)z[m] * fls_slope[p][k][m]) >> {{ fixed.slope_bits + fixed.z_bits - fixed.value_bits }};
        }
        value[p] = (int32_t)sum;
{% else %}
        value[p] = (int32_t)fls_intercept[p][k] * {{ factor }};
{% endif %}
    }
}

{% include "fixed_reduction.h" %}

{% set narrow = fixed.value_bits - fixed.bits %}
/* A value as an output, saturated. */
static inline fls_q fls_narrowed(int64_t value)
{
{% if narrow > 0 %}
    value = (value + {{ 2 ** (narrow - 1) }}) >> {{ narrow }};
{% else %}
    value = value * {{ 2 ** -narrow }};
{% endif %}
    return value > FLS_MAX ? FLS_MAX : value < FLS_MIN ? FLS_MIN : (fls_q)value;
}

{% set classifier = plain.classes is not none %}
/* {{ "Logits of the classes; the probabilities are their softmax" if classifier else "Crisp outputs" }}. */
static inline void fls_{{ "logits" if classifier else "predict" }}(const fls_q x[FLS_INPUTS], fls_q y[FLS_OUTPUTS])
{
    int32_t value[FLS_OUTPUTS];
    int k;
    fls_outputs(x, value);
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] = fls_narrowed(value[k]);
    }
}

{% if classifier %}
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
        /* Half ranges of the logits to units of the exponent. */
        const int64_t exponent = ((int64_t)(peak - value[k]) * {{ logit_factor }}) >> {{ logit_shift }};
        value[k] = fls_exp(exponent < FLS_MAX_EXPONENT ? (int32_t)exponent : FLS_MAX_EXPONENT);
        total += value[k];
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        const int64_t probability = ((int64_t)value[k] * ((int64_t)FLS_MAX + 1)) / total;
        y[k] = probability > FLS_MAX ? FLS_MAX : (fls_q)probability;
    }
}

{% endif %}
{% if interval_text %}
{% set margin = "margin" in tables %}
/* The {{ interval_text }}. */
static inline void fls_predict_interval(const fls_q x[FLS_INPUTS], fls_q y_left[FLS_OUTPUTS],
                                        fls_q y_right[FLS_OUTPUTS])
{
    int32_t left[FLS_OUTPUTS]{% if it2 %}, right[FLS_OUTPUTS]{% endif %};
    int k;
{% if it2 %}
    fls_reduce(x, left, right);
{% else %}
    fls_outputs(x, left);
{% endif %}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y_left[k] = fls_narrowed((int64_t)left[k]{% if margin %} - fls_margin[k]{% endif %});
        y_right[k] = fls_narrowed((int64_t){{ "right" if it2 else "left" }}[k]{% if margin %} + fls_margin[k]{% endif %});
    }
}

{% endif %}
/* Conversions for a host or a test: the functions above use no floating point. Define FLS_WITH_FLOAT to have them. */
#ifdef FLS_WITH_FLOAT
static const float fls_input_middle{{ conversion.input_middle.text }};
static const float fls_input_half{{ conversion.input_half.text }};
static const float fls_output_middle{{ conversion.output_middle.text }};
static const float fls_output_half{{ conversion.output_half.text }};

/* Input m from its value; saturated, and FLS_MIN for NaN. */
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
{% endblock %}

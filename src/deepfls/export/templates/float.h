{# A system in float32, and its interval. #}
{% extends "header.h" %}
{% block cost %}
{% if parts | length > 1 %}
 * The output is a mean of {{ parts | length }} systems, each with its own tables: {{ prefix ~ parts[0].suffix }}, {{ prefix ~ parts[1].suffix }} and so on.
 *
{% endif %}
{% if interval_parts %}
 * The interval is computed by a second system, fls_interval, with its own tables: the system that was trained without the
 * held-out rows, or the same system with a local scale.
 *
{% endif %}
{% set without = ", expf not included" if exp == "libm" else "" %}
 * Flash  {{ table_bytes | thousands }} bytes of tables, and about {{ code_bytes | thousands }} bytes of code{{ without }} (gcc 12 -O2, Cortex-M4).
 * RAM    none static; about {{ ram_bytes | thousands }} bytes of stack{{ without }}.
 * Work   of fls_predict, at most: {{ worst.simple | thousands }} additions, multiplications and comparisons of integers and
 *        floats, {{ worst.divisions | counted("division") }}, {{ worst.exponentials | counted("exponential") }}.
{% if worst != usual %}
 *        With 4 sweeps per end point, which is usual: {{ usual.simple | thousands }}, {{ usual.divisions | thousands }} and {{ usual.exponentials | thousands }}. The bound is
 *        {{ max_sweeps(parts | map(attribute="plain") | map(attribute="n_rules") | max) }} sweeps per end point. No sort, no enumeration.
{% endif %}
 *
{% if plain.missing %}
 * NaN is an input that is not known, as in the training table.
{% endif %}
 * If an input is {{ unusable }}, every output is NaN. For any other input the outputs are within 1e-5 of the float64 result,
 * relative to the output or, near zero, to its spread; an output that float cannot hold is infinite. The header does not
 * compile with -ffast-math, which assumes that no number is NaN.
{% endblock %}
{% block code %}
#ifdef __FAST_MATH__
#error "-ffast-math removes the handling of NaN and reorders sums: compile without it"
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

{% for part in parts + interval_parts %}
{% with prefix = prefix ~ part.suffix, plain = part.plain, integers = part.integers, tables = part.tables %}
{% include "float_system.h" %}
{% endwith %}
{% endfor %}
{% macro mean(suffix, all) %}
{% set name = prefix ~ suffix %}

#define {{ name | upper }}_INPUTS {{ plain.n_features }}
#define {{ name | upper }}_OUTPUTS {{ all[0].plain.n_outputs }}

/* {{ "Logits of the classes" if plain.classes is not none else "Crisp outputs" }}: the weighted mean over the systems. NaN if an input is {{ unusable }}. */
static inline void {{ name }}_{{ "logits" if plain.classes is not none else "predict" }}(const float x[FLS_INPUTS], float y[{{ name | upper }}_OUTPUTS])
{
    float part[{{ name | upper }}_OUTPUTS];
    int k;
    for (k = 0; k < {{ name | upper }}_OUTPUTS; ++k) {
        y[k] = 0.0f;
    }
{% for part in all %}
    {{ prefix ~ part.suffix }}_predict(x, part);
    for (k = 0; k < {{ name | upper }}_OUTPUTS; ++k) {
        y[k] += {{ part.share | literal("float") }} * part[k];
    }
{% endfor %}
}
{% if plain.kind != "t1" %}

/* End points of the type-reduced set: the weighted means over the systems. */
static inline void {{ name }}_reduce(const float x[FLS_INPUTS], float *y_left, float *y_right)
{
    float left[{{ name | upper }}_OUTPUTS], right[{{ name | upper }}_OUTPUTS];
    int k;
    for (k = 0; k < {{ name | upper }}_OUTPUTS; ++k) {
        y_left[k] = y_right[k] = 0.0f;
    }
{% for part in all if part.set_share > 0 %}
{% if part.plain.kind == "t1" %}
    {{ prefix ~ part.suffix }}_predict(x, left);
    {{ prefix ~ part.suffix }}_predict(x, right);
{% else %}
    {{ prefix ~ part.suffix }}_reduce(x, left, right);
{% endif %}
    for (k = 0; k < {{ name | upper }}_OUTPUTS; ++k) {
        y_left[k] += {{ part.set_share | literal("float") }} * left[k];
        y_right[k] += {{ part.set_share | literal("float") }} * right[k];
    }
{% endfor %}
}
{% endif %}
{% endmacro %}
{% if parts | length > 1 %}
{{ mean("", parts) }}
{% with exp_name = prefix ~ parts[0].suffix ~ "_exp" %}
{% if plain.classes is not none %}
{% include "float_classes.h" %}
{% endif %}
{% endwith %}
{% endif %}
{% if interval_parts | length > 1 %}
{{ mean("_interval", interval_parts) }}
{% endif %}
{% if columns is not none %}

#define FLS_COLUMNS {{ columns.names | length }} /* columns of the table, of which fls_encode makes the inputs */

/* Inputs from the columns of the table. A category is given as its index:
{% for column, values in columns.categories.items() %}
 *   column {{ column }}, {{ columns.names[column] | quoted }}: {% for value in values %}{{ loop.index0 }} {{ value | quoted }}{{ ", " if not loop.last }}{% endfor %}

{% endfor %}
 * NaN{{ " is a category that is not known" if plain.missing else " gives NaN in every output" }}. */
static inline void fls_encode(const float column[FLS_COLUMNS], float x[FLS_INPUTS])
{
    static const int16_t source[FLS_INPUTS] = { {{- columns.sources.tolist() | join(", ") -}} };
    static const int16_t code[FLS_INPUTS] = { {{- columns.codes.tolist() | join(", ") -}} };
    int m;
    for (m = 0; m < FLS_INPUTS; ++m) {
        const float value = column[source[m]];
        x[m] = code[m] < 0 || value != value ? value : value == (float)code[m] ? 1.0f : 0.0f;
    }
}
{% endif %}
{% if "margin" in interval_tables %}

/* Margin of the interval: [output]. */
static const float fls_margin{{ interval_tables.margin.text }};
{% endif %}
{% if "gain" in interval_tables %}

/* Factor of the distances from the crisp output to the ends of the type-reduced set: [output]. */
static const float fls_gain{{ interval_tables.gain.text }};
{% endif %}
{% if "reach" in interval_tables %}

/* Distance that is added on both sides: [output]. */
static const float fls_reach{{ interval_tables.reach.text }};
{% endif %}
{% if interval_text %}

/* The {{ interval_text }}. NaN if an input is {{ unusable }}. */
static inline void fls_predict_interval(const float x[FLS_INPUTS], float y_left[FLS_OUTPUTS],
                                        float y_right[FLS_OUTPUTS])
{
{% if calibrated is not none %}
{% set other = "interval_" if interval_parts else "" %}
    float y[{{ "2 * " if calibrated.scaled else "" }}FLS_OUTPUTS]{% if calibrated.refitted %}, own[FLS_OUTPUTS]{% endif %};
    int k;
{% if "gain" in interval_tables %}
    fls_{{ other }}reduce(x, y_left, y_right);
{% endif %}
    fls_{{ other }}predict(x, y);
{% if calibrated.refitted %}
    fls_predict(x, own);
{% endif %}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
{% if calibrated.scaled %}
        /* The local scale lies between 1/4 and 4: 1.38629436 is log 4. fls_exp takes no positive argument. */
        const float log_scale = y[FLS_OUTPUTS + k] > 1.38629436f ? 1.38629436f : y[FLS_OUTPUTS + k];
        const float scale = 4.0f * {{ prefix ~ parts[0].suffix }}_exp((log_scale < -1.38629436f ? -1.38629436f : log_scale) - 1.38629436f);
        const float reach = fls_reach[k] * (scale + 0.5f) / 1.5f;
{% else %}
        const float reach = fls_reach[k];
{% endif %}
{% if "gain" in interval_tables %}
        const float left = y[k] - fls_gain[k] * (y[k] - y_left[k]) - reach;
        const float right = y[k] + fls_gain[k] * (y_right[k] - y[k]) + reach;
{% else %}
        const float left = y[k] - reach, right = y[k] + reach;
{% endif %}
        y_left[k] = left < y[k] ? left : y[k];
        y_right[k] = right > y[k] ? right : y[k];
{% if calibrated.refitted %}
        /* The interval also contains the prediction of the system that was trained on all rows. */
        y_left[k] = y_left[k] < own[k] ? y_left[k] : own[k];
        y_right[k] = y_right[k] > own[k] ? y_right[k] : own[k];
{% endif %}
    }
{% else %}
{% set margin = "margin" in interval_tables %}
{% if margin %}
    int k;
{% endif %}
{% if plain.kind != "t1" %}
    fls_reduce(x, y_left, y_right);
{% else %}
    fls_{{ "predict" if plain.classes is none else "logits" }}(x, y_left);
{% endif %}
{% if margin %}
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y_right[k] = {{ "y_left" if plain.kind == "t1" else "y_right" }}[k] + fls_margin[k];
        y_left[k] -= fls_margin[k];
    }
{% endif %}
{% endif %}
}
{% endif %}
{% endblock %}

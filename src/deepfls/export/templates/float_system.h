{# Constants, tables and functions of one system in float32: here up to the firing and the outputs of the rules.

   Every loop is bounded and nothing is allocated. Log-firing and rule outputs are integer forms (centered.py). They become
   float only relative to the strongest rule and to the scale of the inputs, so no intermediate value overflows. #}
{% set it2 = plain.kind == "it2" %}
#define FLS_INPUTS {{ plain.n_features }}
#define FLS_RULES {{ plain.n_rules }}
#define FLS_OUTPUTS {{ plain.n_outputs }}
#define FLS_SETS {{ (2 if it2 else 1) * plain.n_rules }} /* firing strengths: one per rule, or a lower and an upper one */
{% if it2 %}
#define FLS_SWEEPS {{ max_sweeps(plain.n_rules) }}
{% endif %}
#define FLS_BITS {{ integers.bits }} /* of half an integer of the tables */
#define FLS_LAST {{ (2.0 ** -integers.bits) | literal("float") }} /* 2^-FLS_BITS */
#define FLS_ONE ({{ integers.depth_one }}) /* the integer for a depth of 1; a depth is log(firing of the strongest rule / firing) */
#define FLS_DEPTH_UNIT {{ (1.0 / integers.depth_one) | literal("float") }}
#define FLS_DEPTH_SHIFT ({{ integers.depth_shift }})
#define FLS_MAX_DEPTH ((int64_t){{ -log_floor * integers.depth_one }}) /* larger depths count as this one: e^{{ log_floor }} */

typedef struct { int32_t high, low; } fls_halves; /* high 2^FLS_BITS + low, with 0 <= low < 2^FLS_BITS */

/* Origin of every input. It is subtracted first, so that nothing cancels far from zero. */
static const float fls_origin{{ tables.origin.text }};
/* Powers of two that are the units of the inputs. */
static const int16_t fls_unit{{ tables.unit.text }};
/* Coefficients of the squares and then of the inputs in minus the log-firing; lower sets first: [set][term]. */
static const fls_halves fls_form{{ tables.form.text }};
/* Minus the log-firing at the origin: [set]. */
static const int64_t fls_constant{{ tables.constant.text }};
{% if "height" in tables %}
/* Minus the logarithm of the height of the lower firing: [rule]. */
static const int64_t fls_height{{ tables.height.text }};
{% endif %}
/* Offset of every output, added last. */
static const float fls_offset{{ tables.offset.text }};
/* Powers of two that are the scales of the outputs. */
static const int16_t fls_exponent{{ tables.exponent.text }};
/* Rule outputs at the origin, minus the offset: [rule][output]. */
static const int64_t fls_intercept{{ tables.intercept.text }};
{% if "slope" in tables %}
/* Slopes of the rule outputs: [rule][output][input]. */
static const fls_halves fls_slope{{ tables.slope.text }};
{% endif %}
{% if plain.missing %}
/* What an input that is not known takes off minus the log-firing at the origin: [set][input]. */
static const int64_t fls_unknown{{ tables.unknown.text }};
{% if "unknown_height" in tables %}
/* What it takes off minus the logarithm of the height: [rule][input]. */
static const int64_t fls_unknown_height{{ tables.unknown_height.text }};
{% endif %}
{% if "fill" in tables %}
/* What a rule adds to its output for an input that is not known: [rule][output][input]. */
static const int64_t fls_fill{{ tables.fill.text }};
{% endif %}
{% endif %}
{% if "low" in tables %}
/* Bounds of the inputs; values beyond are clipped. */
static const float fls_low{{ tables.low.text }};
static const float fls_high{{ tables.high.text }};
{% endif %}
{% if "mix" in tables %}
/* Share of the mean under lower firing: [output]. */
static const float fls_mix{{ tables.mix.text }};
{% endif %}

/* Inputs relative to their origins, below 1 in magnitude, in units of 2^exponent. `term` holds what the forms of firing are
 * multiplied with: the squares of z, and z on the scale of the squares, whose exponent is `near`. */
typedef struct { fls_halves z[FLS_INPUTS], term[2 * FLS_INPUTS]; int exponent, near;{% if plain.missing %} uint8_t unknown[FLS_INPUTS];{% endif %} } fls_inputs;

/* Firing of a rule in three successive forms: minus its logarithm, its depth in units of 1 / FLS_ONE, its weight. */
typedef union { int64_t exact; uint32_t depth; float weight; } fls_firing;

static inline uint32_t fls_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x in units of 2^last, rounded towards zero, modulo 2^64. */
static inline uint64_t fls_integer(float x, int last)
{
    const uint32_t bits = fls_bits(x), field = bits >> 23 & 255;
    const int shift = (field ? (int)field : 1) - 150 - last;
    uint64_t size = (bits & 0x7FFFFF) | (field ? 0x800000 : 0);
    size = shift >= 64 || shift <= -24 ? 0 : shift >= 0 ? size << shift : size >> -shift;
    return bits >> 31 ? 0 - size : size;
}

static inline fls_halves fls_split(int64_t value)
{
    fls_halves halves;
    halves.high = (int32_t)(value >> FLS_BITS);
    halves.low = (int32_t)(value & (((int64_t)1 << FLS_BITS) - 1));
    return halves;
}

/* Sum of n products of a coefficient and a number below 1. The error is below n units of the coefficients. Products of
 * halves are added in 64 bits, which takes one cycle on a Cortex-M4. */
static inline int64_t fls_dot(const fls_halves *a, const fls_halves *b, int n)
{
    int64_t sum = 0, cross = 0;
    int m;
    for (m = 0; m < n; ++m) {
        sum += (int64_t)a[m].high * b[m].high;
        cross += (int64_t)a[m].high * b[m].low;
        cross += (int64_t)a[m].low * b[m].high;
    }
    return sum + (cross >> FLS_BITS);
}

/* The inputs as fixed-point numbers on a common scale. Returns 0 if an input is {{ unusable }}, else 1. */
{% if "low" in tables or plain.missing %}
static inline int fls_scaled(const float given[FLS_INPUTS], fls_inputs *in)
{
    float x[FLS_INPUTS];
    int m;
    in->exponent = 0;
    for (m = 0; m < FLS_INPUTS; ++m) {
        x[m] = given[m];
{% if plain.missing %}
        /* NaN is an input that is not known: it has no part in the forms. */
        in->unknown[m] = x[m] != x[m];
        x[m] = in->unknown[m] ? fls_origin[m] : x[m];
{% endif %}
{% if "low" in tables %}
        if ((fls_bits(given[m]) & 0x7FFFFFFF) != 0x7F800000) { /* infinity stays */
            x[m] = x[m] < fls_low[m] ? fls_low[m] : x[m] > fls_high[m] ? fls_high[m] : x[m];
        }
{% endif %}
    }
    for (m = 0; m < FLS_INPUTS; ++m) {
{% else %}
static inline int fls_scaled(const float x[FLS_INPUTS], fls_inputs *in)
{
    int m;
    in->exponent = 0;
    for (m = 0; m < FLS_INPUTS; ++m) {
{% endif %}
        const int exponent = (int)(fls_bits(x[m] - fls_origin[m]) >> 23 & 255) - 126 - fls_unit[m];
        if ((fls_bits(x[m]) >> 23 & 255) == 255) {
            return 0;
        }
        in->exponent = exponent > in->exponent ? exponent : in->exponent;
    }
    /* Beyond 2^31 units the firing is that of 2^31 units in the same direction: the order of the rules is the same. */
    in->near = in->exponent < 31 ? in->exponent : 31;
    for (m = 0; m < FLS_INPUTS; ++m) {
        /* The difference fits 64 bits. It is therefore exact modulo 2^64, for any distance of the origin from zero. */
        const int last = fls_unit[m] + in->exponent - 2 * FLS_BITS;
        const int64_t difference = (int64_t)(fls_integer(x[m], last) - fls_integer(fls_origin[m], last));
        const fls_halves z = fls_split(difference);
        in->z[m] = z;
        in->term[m] = fls_split((int64_t)z.high * z.high + ((2 * (int64_t)z.high * z.low) >> FLS_BITS));
        in->term[m + FLS_INPUTS] = fls_split(difference >> in->near);
    }
    return 1;
}

{% if exp == "libm" %}
/* exp(x) for a logarithm x <= 0 relative to the strongest rule. Results below e^{{ log_floor_float }} are replaced by that value: it
 * does not change a weighted mean in float, and there are no denormal numbers. */
static inline float fls_exp(float x)
{
    return x < {{ log_floor_float | literal("float") }} ? {{ smallest_weight | literal("float") }} : expf(x);
}
{% else %}
{# Coefficients: least squares of (e^r - 1 - r - r²/2) / r³ on |r| <= ln(2) / 2, reweighted until the errors were level.
   ln 2 is split in two: the first part has 15 bits, so n times it is exact. #}
/* exp(x) for a logarithm x <= 0 relative to the strongest rule, without libm: e^x = 2^n e^r with |r| <= ln(2) / 2.
 * Relative error below 1.5e-7. Results below e^{{ log_floor_float }} are replaced by that value: it does not change a weighted mean in
 * float, and there are no denormal numbers. */
static inline float fls_exp(float x)
{
    float r, power;
    uint32_t bits;
    int32_t n;
    if (x < {{ log_floor_float | literal("float") }}) {
        return {{ smallest_weight | literal("float") }};
    }
    n = (int32_t)(x * 1.44269502f - 0.5f);
    r = x - (float)n * 0.693145752f - (float)n * 1.42860677e-06f;
    r = 1.0f + (r + r * r * (0.5f + r * (0.166665331f + r * (0.0416672379f + r * (0.00836751238f + r * 0.00138637703f)))));
    bits = (uint32_t)(n + 127) << 23; /* 2^n, a normal number: n >= -87 */
    memcpy(&power, &bits, sizeof power);
    return r * power;
}
{% endif %}

/* Replaces minus the logarithms of n firing strengths by their depths. `peak` is minus the logarithm of the strongest. */
static inline void fls_to_depths(fls_firing *firing, int n, int64_t peak, int near)
{
    const int shift = FLS_DEPTH_SHIFT - 2 * near;
    int p;
    for (p = 0; p < n; ++p) {
        int64_t depth = firing[p].exact - peak;
        if (shift > 0) {
            depth = (depth + ((int64_t)1 << (shift - 1))) >> shift;
        } else if (depth > (FLS_MAX_DEPTH >> (shift > -32 ? -shift : 32))) {
            depth = FLS_MAX_DEPTH;
        } else if (depth) {
            depth <<= -shift;
        }
        firing[p].depth = (uint32_t)(depth < FLS_MAX_DEPTH ? depth : FLS_MAX_DEPTH);
    }
}

/* The smallest of minus the log-firing over the rules. */
static inline int64_t fls_peak(const fls_firing firing[FLS_RULES])
{
    int64_t peak = firing[0].exact;
    int p;
    for (p = 1; p < FLS_RULES; ++p) {
        peak = firing[p].exact < peak ? firing[p].exact : peak;
    }
    return peak;
}

/* e^-depth. The upper 24 bits of a depth fit a float; the lower 8 are so small that e^-x is 1 - x. */
static inline float fls_weight(uint32_t depth)
{
    const float rest = (float)(depth & 255) * FLS_DEPTH_UNIT;
    return fls_exp(-FLS_DEPTH_UNIT * (float)(depth & ~(uint32_t)255)) * (1.0f - rest);
}

/* Replaces n depths by their weights. */
static inline void fls_to_weights(fls_firing *firing, int n)
{
    int p;
    for (p = 0; p < n; ++p) {
        firing[p].weight = fls_weight(firing[p].depth);
    }
}

{# Lower sets that differ from the upper ones by a height only have no form of their own. #}
{% set own_widths = "s" in plain.uncertainty %}
/* Minus the log-firing of the rules{{ ", lower before upper" if it2 else "" }}. */
static inline void fls_fire(const fls_inputs *in, fls_firing firing[FLS_SETS])
{
    int p{{ ", m" if plain.missing else "" }};
{% if it2 and not own_widths %}
    for (p = FLS_RULES; p < FLS_SETS; ++p) {
        firing[p].exact = fls_dot(fls_form[p - FLS_RULES], in->term, 2 * FLS_INPUTS);
        firing[p].exact += fls_constant[p - FLS_RULES] >> 2 * in->near;
    }
{% if plain.missing %}
    for (p = FLS_RULES; p < FLS_SETS; ++p) {
        for (m = 0; m < FLS_INPUTS; ++m) {
            firing[p].exact -= in->unknown[m] ? fls_unknown[p - FLS_RULES][m] >> 2 * in->near : 0;
        }
    }
{% endif %}
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p].exact = firing[p + FLS_RULES].exact + (fls_height[p] >> 2 * in->near);
{% if plain.missing %}
        for (m = 0; m < FLS_INPUTS; ++m) {
            firing[p].exact -= in->unknown[m] ? fls_unknown_height[p][m] >> 2 * in->near : 0;
        }
        if (firing[p].exact < firing[p + FLS_RULES].exact) {
            firing[p].exact = firing[p + FLS_RULES].exact;
        }
{% endif %}
    }
{% else %}
    for (p = 0; p < FLS_SETS; ++p) {
        firing[p].exact = fls_dot(fls_form[p], in->term, 2 * FLS_INPUTS);
        firing[p].exact += fls_constant[p] >> 2 * in->near;
    }
{% if plain.missing %}
    for (p = 0; p < FLS_SETS; ++p) {
        for (m = 0; m < FLS_INPUTS; ++m) {
            firing[p].exact -= in->unknown[m] ? fls_unknown[p][m] >> 2 * in->near : 0;
        }
    }
{% endif %}
{% if it2 %}
    for (p = 0; p < FLS_RULES; ++p) {
        if (firing[p].exact < firing[p + FLS_RULES].exact) {
            firing[p].exact = firing[p + FLS_RULES].exact; /* equal sets may be rounded differently */
        }
    }
{% endif %}
{% endif %}
}

{% set scale = "in->exponent" if plain.order == 1 else "0" %}
/* Output k of every rule minus fls_offset[k], in units of 2^(fls_exponent[k]{{ " + in->exponent" if plain.order == 1 else "" }} - FLS_BITS). */
static inline void fls_rule_outputs(const fls_inputs *in, int k, float value[FLS_RULES])
{
    const int scale = {{ scale }}, shift = scale < 63 ? scale : 63;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
{% if plain.missing and plain.order == 1 %}
        int64_t constant = fls_intercept[p][k];
        fls_halves sum;
        int m;
        for (m = 0; m < FLS_INPUTS; ++m) {
            constant += in->unknown[m] ? fls_fill[p][k][m] : 0;
        }
        constant >>= shift;
        sum = fls_split(fls_dot(fls_slope[p][k], in->z, FLS_INPUTS) + constant);
{% else %}
        const int64_t constant = fls_intercept[p][k] >> shift;
        const fls_halves sum = fls_split({% if plain.order == 1 %}fls_dot(fls_slope[p][k], in->z, FLS_INPUTS) + {% endif %}constant);
{% endif %}
        value[p] = (float)sum.high + (float)sum.low * FLS_LAST;
    }
{% if plain.order == 0 %}
    (void)in;
{% endif %}
}

/* An output from a weighted mean of these values. 2^power is applied as two factors, each of which is a float. */
static inline float fls_output(const fls_inputs *in, int k, float value)
{
    const int sum = fls_exponent[k] + {{ scale }} - FLS_BITS, power = sum < 252 ? sum : 252, half = power / 2;
    const uint32_t bits[2] = {(uint32_t)(half + 127) << 23, (uint32_t)(power - half + 127) << 23};
    float factor[2];
    memcpy(factor, bits, sizeof factor);
{% if plain.order == 0 %}
    (void)in;
{% endif %}
    return fls_offset[k] + value * factor[0] * factor[1];
}

{% include "float_reduction.h" %}

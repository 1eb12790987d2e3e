"""The C of a floating-point header up to the firing of its rules, piece by piece, for a prefix ``fls``.

A header holds only the pieces its system needs; ``fls_`` and ``FLS_`` at the beginning of a word become the prefix. Every
loop has a bound, nothing is allocated. Logarithms of firing and outputs of rules are forms in integers (:mod:`forms`), and
become float only relative to the strongest rule and to the scale of the inputs: no value leaves the finite numbers before
the output does.
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

# Integers of 2 FLS_BITS bits are held as halves: products of halves add up in 64 bits, which a Cortex-M4 does in one cycle.
HALVES = """
typedef struct { int32_t high, low; } fls_halves; /* high 2^FLS_BITS + low, with 0 <= low < 2^FLS_BITS */
"""

NUMBERS = """
/* Inputs from their origins, below 1 in size, in 2^exponent of their units; the terms of firing are their squares, and they
 * themselves on the scale of the squares, where `near` is their exponent. */
typedef struct { fls_halves z[FLS_INPUTS], term[2 * FLS_INPUTS]; int exponent, near; } fls_inputs;

/* What is known of the firing of a rule, in this order: minus its logarithm, the same relative to the strongest rule in
 * units of 1 / FLS_ONE, its weight. */
typedef union { int64_t exact; uint32_t depth; float weight; } fls_firing;

static inline uint32_t fls_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x in units of 2^last, cut towards zero, modulo 2^64. */
static inline uint64_t fls_whole(float x, int last)
{
    const uint32_t bits = fls_bits(x), field = bits >> 23 & 255;
    const int shift = (field ? (int)field : 1) - 150 - last;
    uint64_t size = (bits & 0x7FFFFF) | (field ? 0x800000 : 0);
    size = shift >= 64 || shift <= -24 ? 0 : shift >= 0 ? size << shift : size >> -shift;
    return bits >> 31 ? 0 - size : size;
}

static inline fls_halves fls_split(int64_t whole)
{
    fls_halves halves;
    halves.high = (int32_t)(whole >> FLS_BITS);
    halves.low = (int32_t)(whole & (((int64_t)1 << FLS_BITS) - 1));
    return halves;
}

/* Sum of n coefficients times numbers below 1: off by less than n of the coefficients' units. */
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

/* The inputs as fixed-point numbers on one scale; 0 where one of them is NaN or infinite. */
static inline int fls_scaled(const float x[FLS_INPUTS], fls_inputs *in)
{
    int m;
    in->exponent = 0;
    for (m = 0; m < FLS_INPUTS; ++m) {
        const int exponent = (int)(fls_bits(x[m] - fls_origin[m]) >> 23 & 255) - 126 - fls_unit[m];
        if ((fls_bits(x[m]) >> 23 & 255) == 255) {
            return 0;
        }
        in->exponent = exponent > in->exponent ? exponent : in->exponent;
    }
    /* Beyond 2^31 units firing is that of the same direction at 2^31: the rule that is strongest there stays so. */
    in->near = in->exponent < 31 ? in->exponent : 31;
    for (m = 0; m < FLS_INPUTS; ++m) {
        /* The difference fits, so it is exact modulo 2^64, however far from zero the origin is. */
        const int last = fls_unit[m] + in->exponent - 2 * FLS_BITS;
        const int64_t whole = (int64_t)(fls_whole(x[m], last) - fls_whole(fls_origin[m], last));
        const fls_halves z = fls_split(whole);
        in->z[m] = z;
        in->term[m] = fls_split((int64_t)z.high * z.high + ((2 * (int64_t)z.high * z.low) >> FLS_BITS));
        in->term[m + FLS_INPUTS] = fls_split(whole >> in->near);
    }
    return 1;
}
"""

DEPTHS = """
/* Minus logarithms of n firings to their depths below the strongest, `peak`; at most FLS_DEEPEST. */
static inline void fls_sink(fls_firing *firing, int n, int64_t peak, int near)
{
    const int shift = FLS_DEPTH_SHIFT - 2 * near;
    int p;
    for (p = 0; p < n; ++p) {
        int64_t depth = firing[p].exact - peak;
        if (shift > 0) {
            depth = (depth + ((int64_t)1 << (shift - 1))) >> shift;
        } else if (depth > (FLS_DEEPEST >> (shift > -32 ? -shift : 32))) {
            depth = FLS_DEEPEST;
        } else if (depth) {
            depth <<= -shift;
        }
        firing[p].depth = (uint32_t)(depth < FLS_DEEPEST ? depth : FLS_DEEPEST);
    }
}

/* The smallest of the rules' minus logarithms of firing. */
static inline int64_t fls_peak(const fls_firing firing[FLS_RULES])
{
    int64_t peak = firing[0].exact;
    int p;
    for (p = 1; p < FLS_RULES; ++p) {
        peak = firing[p].exact < peak ? firing[p].exact : peak;
    }
    return peak;
}

/* e^-depth. The upper 24 bits of a depth are a float, and the others so small that e^-x is 1 - x. */
static inline float fls_weight(uint32_t depth)
{
    const float rest = (float)(depth & 255) * FLS_DEPTH_UNIT;
    return fls_exp(-FLS_DEPTH_UNIT * (float)(depth & ~(uint32_t)255)) * (1.0f - rest);
}

/* Depths of n firings to their weights. */
static inline void fls_weigh(fls_firing *firing, int n)
{
    int p;
    for (p = 0; p < n; ++p) {
        firing[p].weight = fls_weight(firing[p].depth);
    }
}
"""

# {lower}: what a pair of lower and upper sets needs on top; nothing in Type-1 systems.
FIRING = """
/* Minus logarithms of the firing of the rules{which}. */
static inline void fls_fire(const fls_inputs *in, fls_firing firing[FLS_SETS])
{
    int p;
    for (p = {first}; p < FLS_SETS; ++p) {
        firing[p].exact = fls_dot(fls_form[p{place}], in->term, 2 * FLS_INPUTS);
        firing[p].exact += fls_constant[p{place}] >> 2 * in->near;
    }
{lower}}
"""

LOWER_OWN_WIDTH = """\
    for (p = 0; p < FLS_RULES; ++p) {
        if (firing[p].exact < firing[p + FLS_RULES].exact) {
            firing[p].exact = firing[p + FLS_RULES].exact; /* equal sets may round apart */
        }
    }
"""

LOWER_HEIGHT = """\
    for (p = 0; p < FLS_RULES; ++p) {
        firing[p].exact = firing[p + FLS_RULES].exact + (fls_height[p] >> 2 * in->near);
    }
"""

# {form}, {scale}: the linear form of the inputs and its exponent, or nothing and 0 for constant outputs.
CONSEQUENTS = """
/* Output k of every rule less fls_offset[k], in units of 2^(fls_exponent[k]{on_scale} - FLS_BITS). */
static inline void fls_rule_outputs(const fls_inputs *in, int k, float value[FLS_RULES])
{
    const int scale = {scale}, shift = scale < 63 ? scale : 63;
    int p;
    for (p = 0; p < FLS_RULES; ++p) {
        const int64_t constant = fls_intercept[p][k] >> shift;
        const fls_halves sum = fls_split({form}constant);
        value[p] = (float)sum.high + (float)sum.low * FLS_LAST;
    }
{unused}}

/* An output from a mean of those values. 2^power is applied in two steps, each of which is a float. */
static inline float fls_output(const fls_inputs *in, int k, float value)
{
    const int sum = fls_exponent[k] + {scale} - FLS_BITS, power = sum < 252 ? sum : 252, half = power / 2;
    const uint32_t bits[2] = {(uint32_t)(half + 127) << 23, (uint32_t)(power - half + 127) << 23};
    float factor[2];
    memcpy(factor, bits, sizeof factor);
{unused}    return fls_offset[k] + value * factor[0] * factor[1];
}
"""

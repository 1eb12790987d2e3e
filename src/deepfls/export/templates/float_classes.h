{# Probabilities and the class in float32, from the logits. #}

/* Probabilities of the classes, in the order above; their sum is 1. NaN if an input is {{ unusable }}. */
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
            y[k] = {{ exp_name }}(y[k] - peak);
        }
        total += y[k];
    }
    for (k = 0; k < FLS_OUTPUTS; ++k) {
        y[k] /= total;
    }
}

/* Index of the most probable class, 0 to FLS_OUTPUTS - 1; -1 if an input is {{ unusable }}. */
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

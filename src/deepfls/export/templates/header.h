{# The parts of a C99 header that do not depend on its arithmetic: float.h and fixed.h extend this template.

   In the templates names begin with fls_ and FLS_; targets.py replaces both by the prefix of the header. #}
{% set classifier = plain.classes is not none %}
{% set outputs = plain.n_outputs | counted("class", "es") if classifier else plain.n_outputs | counted("output") %}
{% set first, n_systems = plain.systems[0], plain.systems | length %}
{% set reduction = ", type reduction " ~ first.type_reduction if first.kind == "it2" else "" %}
{% set several = "Mean of " ~ n_systems ~ " systems. " if n_systems > 1 else "" %}
/*
 * Exported by deepfls {{ version }}{% block arithmetic %}{% endblock %}.
 *
 * {{ several }}{{ {"t1": "Type-1", "it2": "Interval Type-2", "gt2": "General Type-2"}[plain.kind] }} TSK fuzzy system: {{ plain.n_features | counted("input") }}, {{ plain.n_rules | counted("rule") }}, {{ outputs }},
 * t-norm {{ first.tnorm }}, {{ "linear" if first.order == 1 else "constant" }} consequents{{ reduction }}.
 *
 * Inputs{{ "" if plain.input_range is none else ", with their range in the training data" }}
{% for name in plain.feature_names %}
{% set range = "" if plain.input_range is none else "  %.7g to %.7g" % tuple(plain.input_range.T[loop.index0]) %}
 *   x[{{ loop.index0 }}]  {{ name | quoted }}{{ range }}
{% endfor %}
 *
 * {{ "Classes" if classifier else "Outputs" }}
{% for name in plain.output_names %}
 *   y[{{ loop.index0 }}]  {{ name | quoted }}
{% endfor %}
 *
{% block conversion %}
{% endblock %}
{% set x = "const " ~ real ~ " x[" ~ plain.n_features ~ "]" %}
{% set size = "[" ~ plain.n_outputs ~ "]" %}
 * Functions
 *   fls_predict({{ x }}, {{ real }} y{{ size }})
 *     {{ "probabilities of the classes" if classifier else "crisp outputs" }}
{% if classifier %}
 *   fls_classify({{ x }})
 *     index of the most probable class
 *   fls_logits({{ x }}, {{ real }} y{{ size }})
 *     outputs of the system; the probabilities are their softmax
{% endif %}
{% if interval_text %}
 *   fls_predict_interval({{ x }}, {{ real }} y_left{{ size }}, {{ real }} y_right{{ size }})
 *     the {{ interval_text }}
{% endif %}
 *
{% block cost %}
{% endblock %}
 * All functions and tables are static: include the header in one source file.
 */
#ifndef FLS_H
#define FLS_H

{% block code %}
{% endblock %}

#endif

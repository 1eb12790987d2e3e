{# A MATLAB script that builds a sugfistype2. #}
% Builds a type-2 Sugeno system by the functions of MATLAB's Fuzzy Logic Toolbox (R2019b and later).
{{ v }} = sugfistype2('Name', "{{ v }}", 'AndMethod', "prod", 'TypeReductionMethod', "karnikmendel");
{% for input in inputs %}
{% set m = loop.index0 %}
{{ v }} = addInput({{ v }}, [{{ [low[m], high[m]] | spaced }}], 'Name', "{{ input }}");
{% for p in range(plain.n_rules) %}
{% set values = [sigmas[p, m], plain.centers[p, m]] | spaced %}
{{ v }} = addMF({{ v }}, "{{ input }}", "gaussmf", [{{ values }}], 'Name', "rule{{ p + 1 }}", 'LowerScale', {{ scales[p, m] | literal }}, 'LowerLag', 0);
{% endfor %}
{% endfor %}
{% for output in outputs %}
{% set k = loop.index0 %}
{{ v }} = addOutput({{ v }}, [{{ [y_low[k], y_high[k]] | spaced }}], 'Name', "{{ output }}");
{% for p in range(plain.n_rules) %}
{{ v }} = addMF({{ v }}, "{{ output }}", "{{ consequent }}", [{{ numbers[p, k] | spaced }}], 'Name', "rule{{ p + 1 }}");
{% endfor %}
{% endfor %}
{% for p in range(1, plain.n_rules + 1) %}
{{ v }} = addRule({{ v }}, [{{ ([p] * (plain.n_features + plain.n_outputs)) | join(" ") }} 1 1]);
{% endfor %}
writeFIS({{ v }}, "{{ v }}");

"""Argument checks: the only place that words an error about shape, range or type.

Checks are called at public doors. Those that only look at Python values, shapes, dtypes and devices are free to run in a
training step; those that read tensor values carry ``values`` in their name and never do.
"""

from deepfls._checks.settings import (
    check_count,
    check_device,
    check_number,
    check_number_or_auto,
    check_option,
    check_options_of,
    check_unchanged,
    did_you_mean,
)
from deepfls._checks.streams import NULLS, Interval, check_absent, check_alone, check_interval
from deepfls._checks.tables import (
    LARGEST,
    check_finite_table,
    check_number_targets,
    check_paired_arrays,
    check_same_length,
    check_targets_given,
    name_text_columns,
)
from deepfls._checks.tensors import (
    check_alike,
    check_antecedents,
    check_assigned_values,
    check_batch,
    check_consequents,
    check_enumerable,
    check_equal_values,
    check_firing_values,
    check_loss_values,
    check_magnitude_values,
    check_mix,
    check_order_values,
    check_range_values,
    check_rule_tensors,
    check_tensor,
)

__all__ = [
    "LARGEST",
    "NULLS",
    "Interval",
    "check_absent",
    "check_alike",
    "check_alone",
    "check_antecedents",
    "check_assigned_values",
    "check_batch",
    "check_consequents",
    "check_count",
    "check_device",
    "check_enumerable",
    "check_equal_values",
    "check_finite_table",
    "check_firing_values",
    "check_interval",
    "check_loss_values",
    "check_magnitude_values",
    "check_mix",
    "check_number",
    "check_number_or_auto",
    "check_number_targets",
    "check_option",
    "check_options_of",
    "check_order_values",
    "check_paired_arrays",
    "check_range_values",
    "check_rule_tensors",
    "check_same_length",
    "check_targets_given",
    "check_tensor",
    "check_unchanged",
    "did_you_mean",
    "name_text_columns",
]

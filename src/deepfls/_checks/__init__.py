"""Argument checks that more than one folder needs. A check that one folder needs stands in that folder.

Checks are called in public functions. A check of Python values, shapes, dtypes and devices may run in a training step; a
check that reads the values of a tensor has ``values`` in its name and may not.
"""

from deepfls._checks.intervals import (
    check_coverage,
    check_interval_arrays,
    check_levels,
    check_type_reduced,
    largest_coverage,
)
from deepfls._checks.samples import (
    LARGEST,
    check_finite_table,
    check_number_targets,
    check_paired_arrays,
    check_same_length,
    check_targets_given,
    name_text_columns,
)
from deepfls._checks.settings import (
    check_count,
    check_number,
    check_option,
    check_options_of,
    did_you_mean,
)
from deepfls._checks.streams import Interval, check_interval
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
    "Interval",
    "check_alike",
    "check_antecedents",
    "check_assigned_values",
    "check_batch",
    "check_classes_known",
    "check_consequents",
    "check_count",
    "check_coverage",
    "check_enumerable",
    "check_equal_values",
    "check_finite_table",
    "check_firing_values",
    "check_holdable",
    "check_identifier",
    "check_installed",
    "check_interval",
    "check_interval_arrays",
    "check_levels",
    "check_loss_values",
    "check_magnitude_values",
    "check_mix",
    "check_number",
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
    "check_type_reduced",
    "did_you_mean",
    "largest_coverage",
    "name_text_columns",
    "refuse_form",
]

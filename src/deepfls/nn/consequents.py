"""The THEN parts of the rules: a module that holds slopes and intercepts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepfls._checks.tensors import check_assigned_values, check_equal_values
from deepfls._checks.values import check_count
from deepfls.functional.rule_outputs import rule_outputs
from deepfls.nn.constraints import ConstrainedModule
from deepfls.nn.initial_values import draw_uniform


class TSKConsequents(ConstrainedModule):
    """Linear (order 1) or constant (order 0) rule outputs.

    Parameters
    ----------
    n_features, n_outputs, n_rules : int
    order : {0, 1}

    Shape
    -----
    Input (batch, features) and, where NaN in it is an input that is not known, what the rules take in its place, (rules,
    features); output (batch, rules, outputs).
    """

    raw_slopes: nn.Parameter | None

    def __init__(
        self, n_features: int, n_outputs: int, n_rules: int, *, order: int = 1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.n_features = check_count("n_features", n_features)
        self.n_outputs = check_count("n_outputs", n_outputs)
        self.n_rules = check_count("n_rules", n_rules)
        self.order = check_count("order", order, minimum=0, maximum=1)
        self.raw_intercepts = nn.Parameter(torch.empty(n_rules, n_outputs, **factory))
        slopes = nn.Parameter(torch.empty(n_rules, n_outputs, n_features, **factory)) if order == 1 else None
        self.register_parameter("raw_slopes", slopes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small positive values, U(0, 0.01), as in the paper."""
        draw_uniform(self.raw_intercepts, 0.01)
        if self.raw_slopes is not None:
            draw_uniform(self.raw_slopes, 0.01)

    @property
    def intercepts(self) -> Tensor:
        return self.raw_intercepts

    @intercepts.setter
    def intercepts(self, value: Any) -> None:
        value = check_assigned_values("intercepts", value, self.raw_intercepts)
        with torch.no_grad():
            self.raw_intercepts.copy_(value)

    @property
    def slopes(self) -> Tensor:
        """Slopes (rules, outputs, features); zeros where the consequents are constant."""
        if self.raw_slopes is None:
            return self.raw_intercepts.new_zeros(self.n_rules, self.n_outputs, self.n_features)
        return self.raw_slopes

    @slopes.setter
    def slopes(self, value: Any) -> None:
        value = check_assigned_values("slopes", value, self.slopes)
        if self.raw_slopes is None:
            check_equal_values("slopes", value, 0.0, "where order=0")
            return
        with torch.no_grad():
            self.raw_slopes.copy_(value)

    def forward(self, x: Tensor, fills: Tensor | None = None) -> Tensor:
        return rule_outputs(x, self.raw_intercepts, self.raw_slopes, fills)

    def extra_repr(self) -> str:
        return f"n_features={self.n_features}, n_outputs={self.n_outputs}, n_rules={self.n_rules}, order={self.order}"

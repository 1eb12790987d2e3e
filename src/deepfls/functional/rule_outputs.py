"""Outputs of the rules: constants (order 0) or linear functions of the inputs (order 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from deepfls._checks.tensors import check_consequents


def rule_outputs(x: Tensor, intercepts: Tensor, slopes: Tensor | None = None, fills: Tensor | None = None) -> Tensor:
    """Consequents ``y_p = a_p · x + a_p0`` for every sample, rule and output.

    Parameters
    ----------
    x : Tensor, shape (batch, features)
    intercepts : Tensor, shape (rules, outputs)
    slopes : Tensor, shape (rules, outputs, features), optional
        None for constant consequents (order 0, "singletons").
    fills : Tensor, shape (rules, features), optional
        What each rule takes in place of an input that is not known, NaN in x. None: NaN gives NaN.

    Returns
    -------
    Tensor, shape (batch, rules, outputs)

    Examples
    --------
    >>> import torch
    >>> rule_outputs(torch.tensor([[2.0]]), torch.tensor([[1.0]]), torch.tensor([[[3.0]]])).item()
    7.0
    """
    check_consequents(x, intercepts, slopes)
    n_rules, n_outputs = intercepts.shape
    if slopes is None:
        return intercepts.expand(x.shape[0], n_rules, n_outputs)
    weights = slopes.reshape(n_rules * n_outputs, -1)
    if fills is not None:
        unknown = x.isnan()
        x = torch.cat([torch.where(unknown, 0.0, x), unknown.to(x)], dim=1)
        weights = torch.cat([weights, (slopes * fills.unsqueeze(1)).reshape(n_rules * n_outputs, -1)], dim=1)
    products = torch.addmm(intercepts.reshape(-1), x, weights.t())
    return products.view(-1, n_rules, n_outputs)

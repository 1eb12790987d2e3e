"""A Type-1 system in FuzzyLite's language (FLL), for fuzzylite, pyfuzzylite and jfuzzylite."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from deepfls._checks import refuse_form
from deepfls._files import write_whole
from deepfls.export.rows import input_box, rows_for
from deepfls.export.text import identifiers, number, one_line
from deepfls.inspection.plain import Snapshot

Array = np.ndarray[Any, np.dtype[Any]]

# Words of FuzzyLite's rules.
_KEYWORDS = ("if", "is", "then", "and", "or", "with", "any", "not", "very", "somewhat", "seldom", "extremely")


def write_fll(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write a Type-1 system as an FLL file, whole or not at all.

    Parameters
    ----------
    path : path
    snapshot : Snapshot
        Of kind "t1". Outputs of a classifier are its logits.
    """
    write_whole(Path(path), fll_text(snapshot, Path(path).stem).encode())


def product_sigmas(snapshot: Snapshot, sigmas: Array) -> Array:
    """Widths with which the product of grades gives the system's own firing.

    The geometric mean of M Gaussian grades is the product of M Gaussian grades that are √M times as wide.
    """
    return sigmas if snapshot.tnorm == "product" else sigmas * np.sqrt(snapshot.n_features)


def output_ranges(snapshot: Snapshot) -> Array:
    """Smallest and largest output over the range of the inputs, (2, outputs), of use to plots in other tools only."""
    y = snapshot.output(rows_for(snapshot, None, 1_000)).y
    return np.stack([y.min(axis=0), y.max(axis=0)])


def fll_text(snapshot: Snapshot, name: str = "deepfls") -> str:
    """The file that :func:`write_fll` writes."""
    if snapshot.kind != "t1":
        refuse_form("FLL", "FuzzyLite has no Interval Type-2 sets", "train with kind='t1', or export to C, ONNX or .t2fis")
    inputs = identifiers(snapshot.feature_names, "x", _KEYWORDS)
    outputs = identifiers(snapshot.output_names, "y", (*_KEYWORDS, *inputs))
    sigmas = product_sigmas(snapshot, snapshot.upper_sigmas)
    low, high = input_box(snapshot)
    lines = [f"Engine: {identifiers([name], 'model', _KEYWORDS)[0]}"]
    for m, variable in enumerate(inputs):
        lines += _variable("InputVariable", variable, snapshot.feature_names[m], low[m], high[m])
        lines += [
            f"  term: rule{p + 1} Gaussian {number(snapshot.centers[p, m])} {number(sigmas[p, m])}"
            for p in range(snapshot.n_rules)
        ]
    for k, variable in enumerate(outputs):
        lines += _variable("OutputVariable", variable, snapshot.output_names[k], *output_ranges(snapshot)[:, k])
        lines += ["  aggregation: none", "  defuzzifier: WeightedAverage TakagiSugeno", "  default: nan"]
        lines += ["  lock-previous: false"]
        for p in range(snapshot.n_rules):
            constant = number(snapshot.intercepts[p, k])
            slopes = " ".join(number(slope) for slope in snapshot.slopes[p, k])
            lines.append(
                f"  term: rule{p + 1} " + (f"Linear {slopes} {constant}" if snapshot.order else f"Constant {constant}")
            )
    lines += ["RuleBlock: rules", "  enabled: true", "  conjunction: AlgebraicProduct", "  disjunction: none"]
    lines += ["  implication: AlgebraicProduct", "  activation: General"]
    for p in range(snapshot.n_rules):
        when = " and ".join(f"{variable} is rule{p + 1}" for variable in inputs)
        then = " and ".join(f"{variable} is rule{p + 1}" for variable in outputs)
        lines.append(f"  rule: if {when} then {then}")
    return "\n".join(lines) + "\n"


def _variable(kind: str, variable: str, name: str, low: float, high: float) -> list[str]:
    return [
        f"{kind}: {variable}",
        f"  description: {one_line(name)}",
        "  enabled: true",
        f"  range: {number(low)} {number(high)}",
        "  lock-range: false",
    ]

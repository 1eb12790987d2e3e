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
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

# Words of FuzzyLite's rules.
_KEYWORDS = ("if", "is", "then", "and", "or", "with", "any", "not", "very", "somewhat", "seldom", "extremely")


def write_fll(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a Type-1 system as an FLL file, whole or not at all.

    Parameters
    ----------
    path : path
    plain : PlainSystem
        Of kind "t1". Outputs of a classifier are its logits.
    """
    write_whole(Path(path), fll_text(plain, Path(path).stem).encode())


def product_sigmas(plain: PlainSystem, sigmas: Array) -> Array:
    """Widths with which the product of grades gives the system's own firing.

    The geometric mean of M Gaussian grades is the product of M Gaussian grades that are √M times as wide.
    """
    return sigmas if plain.tnorm == "product" else sigmas * np.sqrt(plain.n_features)


def output_ranges(plain: PlainSystem) -> Array:
    """Smallest and largest output over the range of the inputs, (2, outputs), of use to plots in other tools only."""
    y = plain.output(rows_for(plain, None, 1_000)).y
    return np.stack([y.min(axis=0), y.max(axis=0)])


def fll_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """The file that :func:`write_fll` writes."""
    if plain.kind != "t1":
        refuse_form("FLL", "FuzzyLite has no Interval Type-2 sets", "train with kind='t1', or export to C, ONNX or .t2fis")
    inputs = identifiers(plain.feature_names, "x", _KEYWORDS)
    outputs = identifiers(plain.output_names, "y", (*_KEYWORDS, *inputs))
    sigmas = product_sigmas(plain, plain.upper_sigmas)
    low, high = input_box(plain)
    lines = [f"Engine: {identifiers([name], 'model', _KEYWORDS)[0]}"]
    for m, variable in enumerate(inputs):
        lines += _variable("InputVariable", variable, plain.feature_names[m], low[m], high[m])
        lines += [
            f"  term: rule{p + 1} Gaussian {number(plain.centers[p, m])} {number(sigmas[p, m])}"
            for p in range(plain.n_rules)
        ]
    for k, variable in enumerate(outputs):
        lines += _variable("OutputVariable", variable, plain.output_names[k], *output_ranges(plain)[:, k])
        lines += ["  aggregation: none", "  defuzzifier: WeightedAverage TakagiSugeno", "  default: nan"]
        lines += ["  lock-previous: false"]
        for p in range(plain.n_rules):
            constant = number(plain.intercepts[p, k])
            slopes = " ".join(number(slope) for slope in plain.slopes[p, k])
            lines.append(
                f"  term: rule{p + 1} " + (f"Linear {slopes} {constant}" if plain.order else f"Constant {constant}")
            )
    lines += ["RuleBlock: rules", "  enabled: true", "  conjunction: AlgebraicProduct", "  disjunction: none"]
    lines += ["  implication: AlgebraicProduct", "  activation: General"]
    for p in range(plain.n_rules):
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

"""Checks of what a trained system is exported to: names, sizes, and forms that a target cannot express."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from deepfls._checks.samples import check_finite_table
from deepfls._checks.settings import check_count, check_number


def check_identifier(name: str, value: Any, longest: int = 40) -> str:
    """Return ``value`` if every name made from it is a legal one in C and C++, else suggest one that is."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}.")
    # A leading or double underscore is reserved for the compiler.
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", value) and len(value) <= longest:
        return value
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", value)).strip("_")[:longest].rstrip("_")
    suggestion = plain if plain[:1].isalpha() else f"model_{plain}".rstrip("_")[:longest]
    raise ValueError(
        f"{name} must be a C identifier of letters, digits and single underscores that begins with a letter, at most "
        f"{longest} characters, got {value!r}: try {name}={suggestion!r}."
    )


def check_export_size(what: str, flash: int, ram: int, flash_limit: Any, ram_limit: Any, *, force: bool) -> None:
    """Refuse an export that needs more memory than the part has, unless forced."""
    flash_limit, ram_limit = check_count("flash", flash_limit), check_count("ram", ram_limit)
    if force or (flash <= flash_limit and ram <= ram_limit):
        return
    raise ValueError(
        f"{what} must fit {flash_limit:,} bytes of flash and {ram_limit:,} bytes of RAM, got about {flash:,} and {ram:,}: "
        "train fewer rules, state a larger part with flash and ram, or force it."
    )


def check_holdable(what: str, values: np.ndarray[Any, Any], limit: float) -> None:
    """Require numbers that the number format of a target can hold."""
    if values.size and not (np.isfinite(values).all() and np.abs(values).max() <= limit):
        largest = np.abs(np.where(np.isfinite(values), values, np.inf)).max()
        raise ValueError(f"{what} must be within ±{limit:.3g} for this target, got {largest:.3g}: scale the data first.")


def check_resolved(step: float, coarsest: float) -> None:
    """Require sets wide enough, by the distance between the rules, for the integers of a C header."""
    if step > coarsest:
        raise ValueError(
            f"The widths of the sets must be at least about 4e-6 of the distance between the rules for this target, where "
            f"logarithms of firing come in steps of {coarsest:.1g}, got steps of {step:.1g}: use to_onnx, or fewer inputs."
        )


def check_margin(margin: Any, n_outputs: int) -> np.ndarray[Any, Any] | None:
    """Return margins of intervals, one per output, not negative; None where none are given."""
    if margin is None:
        return None
    values = np.atleast_1d(np.asarray(margin, dtype=np.float64))
    if values.shape not in ((1,), (n_outputs,)):
        raise ValueError(f"margin must be a number or have shape ({n_outputs},), got shape {values.shape}.")
    for value in values:
        check_number("margin", float(value), minimum=0.0)
    return np.broadcast_to(values, (n_outputs,)).copy()


def refuse_form(target: str, reason: str, remedy: str) -> None:
    """Say why a system cannot be written in the form of a target."""
    raise ValueError(f"{target} cannot express this system: {reason}; {remedy}.")


def check_exported(target: str, errors: Sequence[float], limit: float) -> None:
    """Require that what was exported computes what the estimator does."""
    worst = max(errors, default=0.0)
    if not worst <= limit:
        raise ValueError(f"{target} must agree with the estimator to {limit:g} of the output's spread, got {worst:.3g}.")


def check_installed(what: str, packages: Sequence[str], extra: str) -> None:
    """Require optional packages, naming the extra that brings them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"{what} needs {' and '.join(missing)}: pip install 'deepfls[{extra}]'.")


def check_rows(rows: Any, n_features: int) -> np.ndarray[Any, Any]:
    """Return rows of inputs (rows, features) as finite float64, at least one."""
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != n_features or len(values) == 0:
        raise ValueError(f"X must have shape (rows, features) with features={n_features}, got {values.shape}.")
    check_finite_table("X", values)
    return values

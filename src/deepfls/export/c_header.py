"""A trained system as one C99 header for microcontrollers, in float or in fixed point."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.values import check_count, check_number, check_option
from deepfls._files import write_whole
from deepfls.export.c_fixed import fixed_header
from deepfls.export.c_float import CHeader, float_header
from deepfls.export.calibrated import CalibratedInterval
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = ("float", "q15", "q31")
EXPONENTIALS = ("libm", "builtin")
# Bytes of a small microcontroller, the default limits of a header.
FLASH, RAM = 32_768, 8_192
_LONGEST_PREFIX = 40


class CReport(NamedTuple):
    """The file that was written, and its costs: see :class:`CHeader`."""

    path: str
    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    error: float | None

    def __str__(self) -> str:
        error = "" if self.error is None else f"; within {100 * self.error:.2g} % of the output's range"
        return (
            f"{self.path}: about {self.flash_bytes:,} bytes of flash ({self.table_bytes:,} of tables), "
            f"{self.ram_bytes:,} bytes of stack{error}"
        )


def write_c(
    path: str | os.PathLike[str],
    plain: PlainSystem,
    *,
    prefix: str | None = None,
    number: str = "float",
    exp: str = "libm",
    margin: Any = None,
    calibrated: CalibratedInterval | None = None,
    rows: Any = None,
    flash: int = FLASH,
    ram: int = RAM,
    force: bool = False,
) -> CReport:
    """Write a system as a C99 header, completely or not at all.

    Parameters
    ----------
    path : path
    plain : PlainSystem
    prefix : str, optional
        Begins every name in the header; the stem of the file by default.
    number : {"float", "q15", "q31"}
        Arithmetic of the inference: float32, or only integers with inputs, outputs and tables of 16 or 32 bits.
    exp : {"libm", "builtin"}
        The exponential of a header in float: expf, or a polynomial in the header.
    margin : float or array, shape (outputs,), optional
        Added on both sides of the type-reduced set; without ``calibrated``.
    calibrated : CalibratedInterval, optional
        The interval, if it is not the type-reduced set.
    rows : array, shape (rows, features), optional
        Data on which fixed point is fitted and measured; drawn from the range of the training data by default.
    flash, ram : int
        Bytes of the microcontroller.
    force : bool
        Write a header that needs more than that.

    Returns
    -------
    CReport
        Named tuple (path, table_bytes, flash_bytes, ram_bytes, error).
    """
    prefix = Path(path).stem if prefix is None else prefix
    header = c_header(plain, prefix=prefix, number=number, exp=exp, margin=margin, calibrated=calibrated, rows=rows)
    flash, ram = check_count("flash", flash), check_count("ram", ram)
    if not force and (header.flash_bytes > flash or header.ram_bytes > ram):
        raise ValueError(
            f"The header must fit {flash:,} bytes of flash and {ram:,} bytes of RAM, got about {header.flash_bytes:,} and "
            f"{header.ram_bytes:,}: train fewer rules, state a larger part with flash and ram, or force it."
        )
    write_whole(Path(path), header.text.encode("ascii"))
    return CReport(str(path), *header[1:])


def c_header(
    plain: PlainSystem,
    *,
    prefix: str,
    number: str = "float",
    exp: str = "libm",
    margin: Any = None,
    calibrated: CalibratedInterval | None = None,
    rows: Any = None,
) -> CHeader:
    """The header that :func:`write_c` writes."""
    _check_prefix(prefix)
    check_option("number", number, NUMBERS)
    check_option("exp", exp, EXPONENTIALS)
    margins = _checked_margins(margin, plain.n_outputs)
    if number == "float":
        return float_header(plain, prefix=prefix, exp=exp, margins=margins, calibrated=calibrated)
    if calibrated is not None:
        margins = calibrated.margin()
    return fixed_header(plain, prefix=prefix, number=number, margins=margins, rows=rows)


def _check_prefix(prefix: Any) -> None:
    """Require a prefix that makes legal names in C and C++; the error suggests one."""
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a string, got {prefix!r}.")
    # A leading or double underscore is reserved for the compiler.
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", prefix) and len(prefix) <= _LONGEST_PREFIX:
        return
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", prefix)).strip("_")[:_LONGEST_PREFIX].rstrip("_")
    suggestion = plain if plain[:1].isalpha() else f"model_{plain}".rstrip("_")[:_LONGEST_PREFIX]
    raise ValueError(
        "prefix must be a C identifier of letters, digits and single underscores that begins with a letter, at most "
        f"{_LONGEST_PREFIX} characters, got {prefix!r}: try prefix={suggestion!r}."
    )


def _checked_margins(margin: Any, n_outputs: int) -> Array | None:
    """Margins of intervals, one per output, not negative; None if none are given."""
    if margin is None:
        return None
    values = np.atleast_1d(np.asarray(margin, dtype=np.float64))
    if values.shape not in ((1,), (n_outputs,)):
        raise ValueError(f"margin must be a number or have shape ({n_outputs},), got shape {values.shape}.")
    for value in values:
        check_number("margin", float(value), minimum=0.0)
    return np.broadcast_to(values, (n_outputs,)).copy()

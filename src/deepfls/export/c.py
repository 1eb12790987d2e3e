"""A trained system as one C99 header for microcontrollers, in float or in fixed point."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from deepfls._checks import check_export_size, check_identifier, check_margin, check_option
from deepfls._files import write_whole
from deepfls.export.c_fixed import fixed_header
from deepfls.export.c_float import float_header
from deepfls.export.c_text import CHeader
from deepfls.export.calibrated import CalibratedInterval
from deepfls.inspection.plain import PlainSystem

NUMBERS = ("float", "q15", "q31")
EXPONENTIALS = ("libm", "builtin")
# What a small part has, where nothing else is said.
FLASH, RAM = 32_768, 8_192


class CReport(NamedTuple):
    """What was written: see :class:`CHeader`."""

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
    """Write a system as a C99 header, whole or not at all.

    Parameters
    ----------
    path : path
    plain : PlainSystem
    prefix : str, optional
        Begins every name in the header; the stem of the file by default.
    number : {"float", "q15", "q31"}
        Arithmetic of the inference: float32, or integers alone with inputs, outputs and tables of 16 or 32 bits.
    exp : {"libm", "builtin"}
        Where a header in float takes the exponential from: expf, or a polynomial of its own.
    margin : float or array, shape (outputs,), optional
        Added on both sides of the type-reduced set, in place of a calibration.
    calibrated : CalibratedInterval, optional
        What the interval is otherwise.
    rows : array, shape (rows, features), optional
        Data on which fixed point is fitted and measured; drawn from the range of the training data by default.
    flash, ram : int
        Bytes that the part has.
    force : bool
        Write a header that needs more than that.

    Returns
    -------
    CReport
        Named tuple (path, table_bytes, flash_bytes, ram_bytes, error).
    """
    settings: dict[str, Any] = {"number": number, "exp": exp, "margin": margin, "calibrated": calibrated, "rows": rows}
    header = c_header(plain, prefix=_prefix_of(path, prefix), **settings)
    check_export_size("The header", header.flash_bytes, header.ram_bytes, flash, ram, force=force)
    write_whole(Path(path), header.text.encode("ascii"))
    return CReport(str(path), *header[1:])


def _prefix_of(path: str | os.PathLike[str], prefix: str | None) -> str:
    return check_identifier("prefix", Path(path).stem if prefix is None else prefix)


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
    check_identifier("prefix", prefix)
    check_option("number", number, NUMBERS)
    check_option("exp", exp, EXPONENTIALS)
    margins = check_margin(margin, plain.n_outputs)
    if number == "float":
        return float_header(plain, prefix=prefix, exp=exp, margins=margins, calibrated=calibrated)
    if calibrated is not None:
        margins = calibrated.margin()
    return fixed_header(plain, prefix=prefix, number=number, margins=margins, rows=rows)

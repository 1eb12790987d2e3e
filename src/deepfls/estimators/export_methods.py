"""Methods of the estimators that write a trained system to a file.

The functions lie above this file: ``model_file`` needs both estimators, and ``export`` is a folder above this one. Each
method imports its function when it is called, so ``import deepfls`` stays light.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from deepfls.estimators.base import Array, FLSEstimator

if TYPE_CHECKING:
    from deepfls.export.c_header import CReport
    from deepfls.export.onnx import OnnxReport


class ExportMethods(FLSEstimator):
    """``save``, and the methods ``to_...``; ``docs/export.md`` states what each target can hold."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, whole or not at all; :func:`deepfls.load` reads it back."""
        from deepfls.estimators.model_file import save

        check_is_fitted(self, "system_")
        save(self, path)

    def to_c(
        self,
        path: str | os.PathLike[str],
        *,
        prefix: str | None = None,
        number: str = "float",
        exp: str = "libm",
        margin: Any = "auto",
        X: Any = None,
        flash: int = 32_768,
        ram: int = 8_192,
        force: bool = False,
    ) -> CReport:
        """Write the system as one C99 header for microcontrollers, whole or not at all.

        Parameters
        ----------
        path : path
        prefix : str, optional
            Begins every name in the header; the stem of the file by default.
        number : {"float", "q15", "q31"}
            float32, or integers alone, with inputs, outputs and tables of 16 or 32 bits.
        exp : {"libm", "builtin"}
            The exponential of a header in float: expf, or a polynomial with a relative error below 1.5e-7.
        margin : "auto", None, float or array of shape (outputs,)
            What ``predict_interval`` in C gives. "auto": the interval of :meth:`predict_interval` at the coverage of the
            fit where there is one, else the type-reduced set. None: that set. Numbers: the set, widened on both sides.
        X : array or frame, shape (rows, features), optional
            Data to fit and measure fixed point on; drawn from the range of the training data by default.
        flash, ram : int
            Bytes of the microcontroller; a header that needs more is an error that states its size.
        force : bool
            Write a header that is too large all the same.

        Returns
        -------
        CReport
            Named tuple (path, table_bytes, flash_bytes, ram_bytes, error); its text is one line.

        Examples
        --------
        >>> import numpy as np
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from deepfls import FLSRegressor
        >>> X = np.linspace(-3, 3, 50).reshape(-1, 1)
        >>> model = FLSRegressor(n_rules=3, epochs=2, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> path = Path(mkdtemp()) / "plant.h"
        >>> model.to_c(path).table_bytes
        204
        >>> "plant_predict(const float x[PLANT_INPUTS], float y[PLANT_OUTPUTS])" in path.read_text()
        True
        """
        from deepfls.export.c_header import c_header, write_c
        from deepfls.export.calibrated import CalibratedInterval
        from deepfls.inspection.plain import PlainSystem

        auto = isinstance(margin, str) and margin == "auto"
        header = c_header(
            PlainSystem.of(self),
            prefix=Path(path).stem if prefix is None else prefix,
            number=number,
            exp=exp,
            margin=None if auto else margin,
            calibrated=CalibratedInterval.of(self) if auto else None,
            rows=self._compared_rows(X),
        )
        return write_c(path, header, flash=flash, ram=ram, force=force)

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float64", X: Any = None) -> OnnxReport:
        """Write the system as an ONNX model with scaling inside, after a comparison with onnxruntime.

        Parameters
        ----------
        path : path
        dtype : {"float64", "float32"}
            Arithmetic inside; input ``x`` and outputs ``y``, and ``y_left`` and ``y_right`` of kind "it2", are float32;
            these are the ends of the type-reduced set, not of a calibrated interval.
        X : array or frame, shape (rows, features), optional
            Rows to compare on; drawn from the range of the training data by default.

        Returns
        -------
        OnnxReport
            Named tuple (path, size, microseconds_alone, microseconds_in_batch, error); its text is one line.
        """
        from deepfls.export.onnx import write_onnx
        from deepfls.inspection.plain import PlainSystem

        return write_onnx(path, PlainSystem.of(self), dtype=dtype, rows=self._compared_rows(X))

    def to_fll(self, path: str | os.PathLike[str]) -> None:
        """Write a system of kind "t1" in FuzzyLite's language."""
        from deepfls.export.fuzzy_tools import write_fll
        from deepfls.inspection.plain import PlainSystem

        write_fll(path, PlainSystem.of(self))

    def to_fis(self, path: str | os.PathLike[str]) -> None:
        """Write the system for MATLAB, by the ending.

        ``.fis``: Type-1, or Interval Type-2 of uncertain heights; ``.m``: a script that builds the latter; ``.t2fis``:
        Interval Type-2.
        """
        from deepfls.export.fuzzy_tools import write_fis
        from deepfls.inspection.plain import PlainSystem

        write_fis(path, PlainSystem.of(self))

    def _compared_rows(self, X: Any) -> Array | None:
        return None if X is None else self._validated_x(X, reset=False)

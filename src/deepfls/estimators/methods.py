"""Methods of the estimators that show what a system has learned and that write files.

The functions are in ``inspection`` and ``export``, and in ``model_file``, which needs both estimators. A method imports its
function when it is called, so ``import deepfls`` stays light. ``docs/export.md`` states what each export can hold.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepfls.estimators.base import FLSEstimator

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from deepfls.export.c_header import CReport
    from deepfls.export.onnx import OnnxReport
    from deepfls.inspection.explanation import Explanation
    from deepfls.inspection.plain import PlainSystem
    from deepfls.inspection.plain_model import PlainModel
    from deepfls.inspection.rules import Rules
    from deepfls.inspection.simplification import Simplification
    from deepfls.inspection.system_plots import MembershipsDisplay
    from deepfls.inspection.usage import Complexity, DataExplanation


class Methods(FLSEstimator):
    """Methods of a fitted estimator that show what it has learned, or write it to a file."""

    def rules(self, X: Any = None, y: Any = None, *, drop: bool | float = False) -> Rules:
        """The rules in the units of the data, those that fire most first.

        Parameters
        ----------
        X : array or frame, shape (rows, features), optional
            Rows to measure the firing on; without them it is that on the training data.
        y : array, optional
            True values for X, to measure what dropping costs.
        drop : bool or float
            Leave out sets that do not matter: those whose grade, as it enters the firing, stays at or above this share over
            the whole range of their input. True means 0.95.

        Returns
        -------
        Rules
            Shown as text, as a table in a terminal and as HTML in a notebook.
        """
        from deepfls.inspection.rules import rules_of

        return rules_of(self, X, y, drop=drop)

    def rules_as_text(
        self,
        X: Any = None,
        y: Any = None,
        *,
        top: int | None = None,
        digits: int | None = 4,
        drop: bool | float = False,
        format: str = "text",  # noqa: A002  # the word people look for
    ) -> str:
        """The rules as text, in the units of the data, those that fire most first.

        Parameters
        ----------
        X, y, drop
            As in :meth:`rules`.
        top : int, optional
            How many rules; all by default.
        digits : int or None
            Significant digits; None writes every number so that it reads back exactly, and the text reproduces predictions.
        format : {"text", "markdown", "table", "json"}
        """
        return self.rules(X, y, drop=drop).render(format, top=top, digits=digits)

    def explain(self, X: Any, *, reference: Any = None) -> Explanation | pd.DataFrame | pa.Table:
        """Why rows get their predictions: the pushes of the inputs and, for one row, the contributions of the rules.

        Parameters
        ----------
        X : array, shape (features,), or array or frame, shape (rows, features)
        reference : array, shape (features,), optional
            The row from which pushes are measured; the mean of the training data by default.

        Returns
        -------
        Explanation or DataFrame
            For one row an :class:`~deepfls.inspection.Explanation`. For several rows a frame with one line for each row and
            input (and output, where there are several): ``row`` from 0, ``output``, ``input`` (a category is one), its
            ``value`` and ``push``, the ``strongest_rule`` of the row, from 1, and its :meth:`familiarity`. A pyarrow table
            where pandas is not installed.
        """
        from deepfls.inspection.explanation import explain
        from deepfls.inspection.pushes import explained_rows, frame_of

        # np.shape of a pyarrow table would make one array of all columns, which dates and numbers do not have.
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        if len(shape) < 2 or shape[0] == 1:
            return explain(self, X, reference=reference)
        return frame_of(explained_rows(self, X, reference=reference))

    def explain_data(self, X: Any, y: Any = None, *, random_state: Any = 0) -> DataExplanation:
        """What rules and inputs do on a table: usage, dead and near-duplicate rules, inputs ranked in two ways.

        Parameters
        ----------
        X : array or frame, shape (rows, features)
        y : array, optional
            True values; without them the permutations are measured against the predictions.
        random_state : int, RandomState or None
            Of the permutations.

        Returns
        -------
        DataExplanation
        """
        from deepfls.inspection.usage import explain_data

        return explain_data(self, X, y, random_state=random_state)

    def complexity(self, X: Any = None) -> Complexity:
        """The readability card (:class:`deepfls.inspection.Complexity`): numbers of rules, conditions and different sets.

        Parameters
        ----------
        X : array or frame, shape (rows, features), optional
            Rows on which to measure the share explained by the strongest rule, and the share for which no rule fires well.
        """
        from deepfls.inspection.usage import complexity

        return complexity(self, X)

    def simplify(self, X: Any, y: Any, *, tolerance: float = 0.01) -> Simplification:
        """A new estimator with fewer rules, merged and pruned as long as the error on X and y allows.

        Parameters
        ----------
        X : array or frame, shape (rows, features)
            Best rows that were not trained on.
        y : array
        tolerance : float
            Largest relative increase of the root mean squared error; of the probabilities for a classifier.

        Returns
        -------
        Simplification
            Named tuple (estimator, report); this estimator stays as it is.
        """
        from deepfls.inspection.simplification import simplify

        return simplify(self, X, y, tolerance=tolerance)

    def plot_memberships(
        self,
        *,
        features: Sequence[int | str] | None = None,
        rules: Sequence[int] | None = None,
        before: bool = False,
        system: int = 0,
        axes: Any = None,
    ) -> MembershipsDisplay:
        """Draw the sets over the inputs, in the units of the data, on a :class:`deepfls.inspection.MembershipsDisplay`.

        Parameters
        ----------
        features : list of int or str, optional
            Inputs by place or name; the nine most important ones by default.
        rules : list of int, optional
            Rules in colour; the seven that fire most by default.
        before : bool
            Draw the sets that training began with as well, dotted.
        system : int
            Place, from 0, of one of several systems.
        axes : array of matplotlib axes, optional
        """
        from deepfls.inspection.system_plots import MembershipsDisplay

        return MembershipsDisplay.from_estimator(self, features=features, before=before, system=system).plot(
            axes, rules=rules
        )

    # Notebooks show scikit-learn's diagram of the settings and, after a fit, the leading rules below it. Both methods are
    # scikit-learn's; the first does not exist where its display is set to text.

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._rules_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._rules_html()
        return bundle

    def _rules_html(self) -> str:
        from deepfls.inspection.rules import summary_html

        return summary_html(self) if hasattr(self, "system_") else ""

    def to_report(self, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None) -> Path:
        """Write a page to explore the system with: one HTML file that computes by itself and needs no network.

        Parameters
        ----------
        path : path
        X, y : optional
            Data to measure and summarise; the page can show some of its rows.
        title : str, optional

        Returns
        -------
        Path
            The file, written completely or not at all.
        """
        from deepfls.inspection.report_page import write_report

        return write_report(self, path, X, y, title=title)

    def to_card(self, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None) -> Path:
        """Write a model card, one page to print: rules, vocabulary, inputs, measures with their rows, calibration.

        Parameters
        ----------
        path : path
            Ending in .html or .md.
        X, y : optional
            Rows to measure on, best ones that were not trained on.
        title : str, optional

        Returns
        -------
        Path
            The file, written completely or not at all.
        """
        from deepfls.inspection.model_card import write_card

        return write_card(self, path, X, y, title=title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, completely or not at all; :func:`deepfls.load` reads it."""
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
        plane: float | None = None,
    ) -> CReport:
        """Write the system as one C99 header for microcontrollers, completely or not at all.

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
        plane : float, optional
            Level of one plane of kind "gt2" to write alone; 1 is its Type-1 system. By default the output is the mean of
            its planes, each with tables of its own.

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
        from deepfls.export.c_header import CalibratedInterval, c_header, write_c

        auto = isinstance(margin, str) and margin == "auto"
        header = c_header(
            self._exported(plane),
            prefix=Path(path).stem if prefix is None else prefix,
            number=number,
            exp=exp,
            margin=None if auto else margin,
            calibrated=CalibratedInterval.of(self) if auto and plane is None else None,
            rows=None if X is None else self._known_x(X),
        )
        return write_c(path, header, flash=flash, ram=ram, force=force)

    def to_onnx(
        self, path: str | os.PathLike[str], *, dtype: str = "float64", X: Any = None, plane: float | None = None
    ) -> OnnxReport:
        """Write the system as an ONNX model with scaling inside, after a comparison with onnxruntime.

        Parameters
        ----------
        path : path
        dtype : {"float64", "float32"}
            Arithmetic inside; input ``x`` and outputs ``y``, and ``y_left`` and ``y_right`` of kind "it2", are float32;
            these are the ends of the type-reduced set, not of a calibrated interval.
        X : array or frame, shape (rows, features), optional
            Rows to compare on; drawn from the range of the training data by default.
        plane : float, optional
            Level of one plane of kind "gt2" to write alone; by default ``y`` is the mean of its planes, beside the ends of
            the widest.

        Returns
        -------
        OnnxReport
            Named tuple (path, size, microseconds_alone, microseconds_in_batch, error); its text is one line.
        """
        from deepfls.export.onnx import write_onnx

        return write_onnx(path, self._exported(plane), dtype=dtype, rows=None if X is None else self._known_x(X))

    def to_fll(self, path: str | os.PathLike[str], *, plane: float | None = None) -> None:
        """Write a system of kind "t1", or the plane 1 of kind "gt2", in FuzzyLite's language.

        Parameters
        ----------
        path : path
        plane : float, optional
            1 for the Type-1 system of kind "gt2".
        """
        from deepfls.export.fuzzy_tools import write_fll

        write_fll(path, self._exported_system(plane))

    def to_fis(self, path: str | os.PathLike[str], *, plane: float | None = None) -> None:
        """Write the system for MATLAB, by the ending.

        Parameters
        ----------
        path : path
            ``.fis``: Type-1, or Interval Type-2 of uncertain heights; ``.m``: a script that builds the latter; ``.t2fis``:
            Interval Type-2.
        plane : float, optional
            Level of the plane of kind "gt2" that is written; 1 is its Type-1 system.
        """
        from deepfls.export.fuzzy_tools import write_fis

        write_fis(path, self._exported_system(plane))

    def _exported(self, plane: float | None) -> PlainModel:
        """The model to write: all of it, or one plane of kind "gt2"."""
        from deepfls.export.targets import with_finite_widths
        from deepfls.inspection.plain_model import PlainModel

        plain = with_finite_widths(PlainModel.of(self))
        return plain if plane is None else plain.plane(plane)

    def _exported_system(self, plane: float | None) -> PlainSystem:
        """The one system to write, for targets that hold no mean over planes or systems."""
        model = self._exported(plane)
        if len(model.systems) > 1:
            raise ValueError(
                f"n_systems must be 1 for this file, which holds one system, got {len(model.systems)}: C and ONNX take "
                "several."
            )
        if model.kind == "gt2":
            raise ValueError(
                "plane must be the level of the plane to write for kind='gt2', 1 for its Type-1 system, got None."
            )
        return model.systems[0]

"""Methods of the estimators that show what a system has learned; their functions are in ``inspection``.

Each method imports its function when it is called, so ``import deepfls`` stays light.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deepfls.estimators.base import FLSEstimator

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from deepfls.inspection.explanation import Explanation
    from deepfls.inspection.rules import Rules
    from deepfls.inspection.simplification import Simplification
    from deepfls.inspection.system_plots import MembershipsDisplay
    from deepfls.inspection.usage import Complexity, DataExplanation


class ResultMethods(FLSEstimator):
    """Methods of a fitted estimator that show what it has learned."""

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

        Returns
        -------
        str
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
        """The readability card: how many rules, conditions and different sets there are, and how well they separate rows.

        Parameters
        ----------
        X : array or frame, shape (rows, features), optional
            Rows on which to measure the share explained by the strongest rule, and the share for which no rule fires well.

        Returns
        -------
        Complexity
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
        """Draw the sets over the inputs, in the units of the data; see :class:`deepfls.inspection.MembershipsDisplay`.

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

        Returns
        -------
        MembershipsDisplay
        """
        from deepfls.inspection.system_plots import MembershipsDisplay

        return MembershipsDisplay.from_estimator(self, features=features, before=before, system=system).plot(
            axes, rules=rules
        )

    # Notebooks show scikit-learn's diagram of the settings and, after a fit, the leading rules below it. Both methods
    # belong to scikit-learn; the first does not exist where its display is set to text.

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

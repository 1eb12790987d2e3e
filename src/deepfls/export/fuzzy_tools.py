"""A system in the files of other fuzzy tools: FuzzyLite and MATLAB.

- ``.fll``: Type-1 systems in FuzzyLite's language, for fuzzylite, pyfuzzylite and jfuzzylite.
- ``.fis``: Type-1 systems, read by MATLAB's Fuzzy Logic Toolbox (``readfis``) and by Octave's; and Interval Type-2 systems
  in the form of MATLAB's type-2 Sugeno system (``sugfistype2``, since R2019b). There a lower set is the upper one times
  ``LowerScale``, which is an uncertain height. Two widths of one set have no such form.
- ``.m``: a script that builds the same type-2 system by MATLAB's documented functions.
- ``.t2fis``: Interval Type-2 systems with heights and both widths, read by the IT2-FLS toolbox of Taskin and Kumbasar.

These tools multiply grades. The geometric mean of M Gaussian grades ("htsk") is the product of M Gaussian grades that are
√M times as wide, with the M-th root of the height.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deepfls._files import write_whole
from deepfls.export.targets import identifiers, input_box, refuse_form, render, rows_for
from deepfls.inspection.plain import PlainSystem

# Words of FuzzyLite's rules.
_KEYWORDS = ("if", "is", "then", "and", "or", "with", "any", "not", "very", "somewhat", "seldom", "extremely")


def write_fll(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a Type-1 system as an FLL file, completely or not at all. Outputs of a classifier are its logits."""
    write_whole(Path(path), fll_text(plain, Path(path).stem).encode())


def write_fis(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a system for MATLAB, completely or not at all; the suffix of the file chooses the form.

    Outputs of a classifier are its logits.
    """
    path = Path(path)
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise ValueError(f"path must end in {', '.join(_FORMS)}, got {str(path)!r}.")
    write_whole(path, form(plain, path.stem).encode())


def fll_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """The file that :func:`write_fll` writes."""
    if plain.kind != "t1":
        refuse_form("FLL", "FuzzyLite has no Interval Type-2 sets", "train with kind='t1', or export to C, ONNX or .t2fis")
    inputs = identifiers(plain.feature_names, "x", _KEYWORDS)
    outputs = identifiers(plain.output_names, "y", (*_KEYWORDS, *inputs))
    engine = identifiers([name], "model", _KEYWORDS)[0]
    return render("model.fll", engine=engine, inputs=inputs, outputs=outputs, **_context(plain))


def fis_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """A system as a ``.fis`` file."""
    if plain.kind == "it2":
        _require_scaled_sets("A .fis file", plain)
    form = "fis, type 2" if plain.kind == "it2" else "fis, type 1"
    return render("model.fis", form=form, name=name, **_context(plain))


def t2fis_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """An Interval Type-2 system as a file of the IT2-FLS toolbox."""
    _require_it2(".t2fis", plain)
    if plain.type_reduction not in ("km", "nt"):
        reason = f"its type reductions are 'km' and 'nt', not {plain.type_reduction!r}"
        refuse_form("A .t2fis file", reason, "train with one of these")
    return render("model.fis", form="t2fis", name=name, **_context(plain))


def script_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """A MATLAB script that builds a ``sugfistype2``."""
    _require_it2(".m", plain)
    _require_scaled_sets("A MATLAB script", plain)
    inputs, outputs = identifiers(plain.feature_names, "x"), identifiers(plain.output_names, "y")
    return render("model.m", v=identifiers([name], "model")[0], inputs=inputs, outputs=outputs, **_context(plain))


_FORMS: dict[str, Callable[[PlainSystem, str], str]] = {".fis": fis_text, ".m": script_text, ".t2fis": t2fis_text}


def _context(plain: PlainSystem) -> dict[str, Any]:
    """Variables that the templates share: ranges, widths and heights of sets under the product, numbers of consequents."""
    low, high = input_box(plain)
    # Ranges of the outputs, which other tools use for plots only.
    y = plain.output(rows_for(plain, None, 1_000)).y
    # Grades of which the firing is the geometric mean: see above.
    n_grades = 1 if plain.tnorm == "product" else plain.n_features
    constants = plain.intercepts[..., np.newaxis]
    return {
        "plain": plain,
        "low": low,
        "high": high,
        "y_low": y.min(axis=0),
        "y_high": y.max(axis=0),
        "sigmas": plain.upper_sigmas * np.sqrt(n_grades),
        "lower_sigmas": plain.lower_sigmas * np.sqrt(n_grades),
        "scales": np.exp(plain.log_heights / n_grades),
        "consequent": "linear" if plain.order == 1 else "constant",
        "numbers": np.concatenate([plain.slopes, constants], axis=2) if plain.order == 1 else constants,
    }


def _require_it2(suffix: str, plain: PlainSystem) -> None:
    if plain.kind != "it2":
        refuse_form(f"A {suffix} file", "it is for Interval Type-2 systems", "write this Type-1 system to .fis")


def _require_scaled_sets(target: str, plain: PlainSystem) -> None:
    """Refuse systems that MATLAB's type-2 Sugeno systems have no form for."""
    if plain.type_reduction != "km":
        reason = f"MATLAB's type reductions are forms of Karnik-Mendel, not {plain.type_reduction!r}"
        refuse_form(target, reason, "train with type_reduction='km', or write .t2fis")
    if not np.array_equal(plain.lower_sigmas, plain.upper_sigmas):
        # LowerLag moves the feet of a lower set; no documentation says that it gives a Gaussian of another width.
        refuse_form(
            target,
            "its lower sets are upper ones times a scale, and here lower and upper widths differ",
            "train with uncertainty='h', or kind='t1', or write .t2fis",
        )

"""A system for MATLAB: a Sugeno system in a ``.fis`` file, or Interval Type-2 sets in the forms that can hold them.

- ``.fis``: Type-1 systems, read by MATLAB's Fuzzy Logic Toolbox (``readfis``) and by Octave's; and Interval Type-2 ones in
  the form of its type-2 Sugeno system (``sugfistype2``, since R2019b). Their lower sets are the upper ones times
  ``LowerScale``, which is an uncertain height; two widths of one set have no such form.
- ``.m``: a script that builds the same type-2 system by MATLAB's documented functions.
- ``.t2fis``: Interval Type-2 systems, read by the IT2-FLS toolbox of Taskin and Kumbasar, with heights and both widths.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from deepfls._checks import refuse_form
from deepfls._files import write_whole
from deepfls.export.fll import output_ranges, product_sigmas
from deepfls.export.rows import input_box
from deepfls.export.text import identifiers, number, one_line
from deepfls.inspection.plain import PlainSystem

Array = np.ndarray[Any, np.dtype[Any]]

ENDINGS = (".fis", ".m", ".t2fis")
_T2FIS_REDUCTIONS = {"km": "KM", "nt": "NT"}


def write_fis(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a system for MATLAB, whole or not at all; the ending of the file chooses the form.

    Parameters
    ----------
    path : path
        Ending in ``.fis`` (Type-1, or Interval Type-2 of uncertain heights), ``.m`` or ``.t2fis`` (Interval Type-2).
    plain : PlainSystem
        Outputs of a classifier are its logits.
    """
    path = Path(path)
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise ValueError(f"path must end in {', '.join(ENDINGS)}, got {str(path)!r}.")
    write_whole(path, form(plain, path.stem).encode())


def fis_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """A system as a ``.fis`` file: a set is its type, its numbers and, of type 2, scale and both lags of its lower set."""
    it2 = plain.kind == "it2"
    if it2:
        _require_scaled_sets("A .fis file", plain)
    sigmas, scales = product_sigmas(plain, plain.upper_sigmas), np.exp(_log_scales(plain))

    def sets(m: int) -> list[str]:
        lines = []
        for p in range(plain.n_rules):
            lower = f",{_vector([scales[p, m]])},[0 0]" if it2 else ""
            values = _vector((sigmas[p, m], plain.centers[p, m]))
            lines.append(f"MF{p + 1}='rule{p + 1}':'gaussmf',{values}{lower}")
        return lines

    if it2:
        return _sections(plain, name, sets, ["TypeReductionMethod='karnikmendel'"], version="3.0")
    return _sections(plain, name, sets, [])


def t2fis_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """An Interval Type-2 system as a file of the IT2-FLS toolbox: upper and lower sets with width, center and height."""
    _require_it2(".t2fis", plain)
    if plain.type_reduction not in _T2FIS_REDUCTIONS:
        reason = f"its type reductions are 'km' and 'nt', not {plain.type_reduction!r}"
        refuse_form("A .t2fis file", reason, "train with one of these")
    upper = product_sigmas(plain, plain.upper_sigmas)
    lower = product_sigmas(plain, plain.lower_sigmas)
    heights = np.exp(_log_scales(plain))

    def sets(m: int) -> list[str]:
        lines = []
        for p in range(plain.n_rules):
            ups, lows = (upper[p, m], plain.centers[p, m], 1.0), (lower[p, m], plain.centers[p, m], heights[p, m])
            lines.append(f"MF{p + 1}U='rule{p + 1}U':'gaussmf',{_vector(ups)}")
            lines.append(f"MF{p + 1}L='rule{p + 1}L':'gaussmf',{_vector(lows)}")
        return lines

    return _sections(plain, name, sets, [f"TypeRedMethod='{_T2FIS_REDUCTIONS[plain.type_reduction]}'"])


def script_text(plain: PlainSystem, name: str = "deepfls") -> str:
    """A MATLAB script that builds a ``sugfistype2``."""
    _require_it2(".m", plain)
    _require_scaled_sets("A MATLAB script", plain)
    inputs, outputs = identifiers(plain.feature_names, "x"), identifiers(plain.output_names, "y")
    sigmas, scales = product_sigmas(plain, plain.upper_sigmas), np.exp(_log_scales(plain))
    low, high = input_box(plain)
    variable = identifiers([name], "model")[0]
    lines = [
        "% Builds a type-2 Sugeno system by the functions of MATLAB's Fuzzy Logic Toolbox (R2019b and later).",
        f"{variable} = sugfistype2('Name', \"{variable}\", 'AndMethod', \"prod\", "
        "'TypeReductionMethod', \"karnikmendel\");",
    ]
    for m, input_name in enumerate(inputs):
        lines.append(f"{variable} = addInput({variable}, {_vector((low[m], high[m]))}, 'Name', \"{input_name}\");")
        for p in range(plain.n_rules):
            values = _vector((sigmas[p, m], plain.centers[p, m]))
            lines.append(
                f'{variable} = addMF({variable}, "{input_name}", "gaussmf", {values}, \'Name\', "rule{p + 1}", '
                f"'LowerScale', {number(scales[p, m])}, 'LowerLag', 0);"
            )
    for k, output_name in enumerate(outputs):
        limits = _vector(output_ranges(plain)[:, k])
        lines.append(f"{variable} = addOutput({variable}, {limits}, 'Name', \"{output_name}\");")
        for p in range(plain.n_rules):
            kind, values = _consequent(plain, p, k)
            lines.append(f'{variable} = addMF({variable}, "{output_name}", "{kind}", {values}, \'Name\', "rule{p + 1}");')
    n_places = len(inputs) + len(outputs)
    lines += [f"{variable} = addRule({variable}, [{' '.join([str(p)] * n_places)} 1 1]);" for p in _numbers(plain)]
    return "\n".join([*lines, f'writeFIS({variable}, "{variable}");']) + "\n"


_FORMS: dict[str, Any] = {".fis": fis_text, ".m": script_text, ".t2fis": t2fis_text}


def _require_it2(ending: str, plain: PlainSystem) -> None:
    if plain.kind != "it2":
        refuse_form(f"A {ending} file", "it is for Interval Type-2 systems", "write this Type-1 system to .fis")


def _require_scaled_sets(target: str, plain: PlainSystem) -> None:
    """Refuse what MATLAB's type-2 Sugeno systems have no form for."""
    if plain.type_reduction != "km":
        reason = f"MATLAB's type reductions are forms of Karnik-Mendel, not {plain.type_reduction!r}"
        refuse_form(target, reason, "train with type_reduction='km', or write .t2fis")
    if not np.array_equal(plain.lower_sigmas, plain.upper_sigmas):
        # LowerLag moves the feet of a lower set; that it gives a Gaussian of another width is nowhere documented.
        refuse_form(
            target,
            "its lower sets are upper ones times a scale, and here lower and upper widths differ",
            "train with uncertainty='h', or kind='t1', or write .t2fis",
        )


def _log_scales(plain: PlainSystem) -> Array:
    """Log heights with which the product of lower grades is the system's own lower firing."""
    return plain.log_heights if plain.tnorm == "product" else plain.log_heights / plain.n_features


def _numbers(plain: PlainSystem) -> range:
    return range(1, plain.n_rules + 1)


def _vector(values: Any) -> str:
    return "[" + " ".join(number(value) for value in values) + "]"


def _consequent(plain: PlainSystem, p: int, k: int) -> tuple[str, str]:
    constant = plain.intercepts[p, k]
    return ("linear", _vector([*plain.slopes[p, k], constant])) if plain.order else ("constant", _vector([constant]))


def _sections(plain: PlainSystem, name: str, sets: Any, more: list[str], version: str = "2.0") -> str:
    """The sections that ``.fis`` and ``.t2fis`` files share."""
    lines = ["[System]", f"Name='{one_line(name)}'", "Type='sugeno'", f"Version={version}"]
    lines += [f"NumInputs={plain.n_features}", f"NumOutputs={plain.n_outputs}", f"NumRules={plain.n_rules}"]
    lines += [
        "AndMethod='prod'",
        "OrMethod='probor'",
        "ImpMethod='prod'",
        "AggMethod='sum'",
        "DefuzzMethod='wtaver'",
        *more,
    ]
    low, high = input_box(plain)
    for m, input_name in enumerate(plain.feature_names):
        lines += ["", f"[Input{m + 1}]", f"Name='{one_line(input_name)}'", f"Range={_vector((low[m], high[m]))}"]
        lines += [f"NumMFs={plain.n_rules}", *sets(m)]
    limits = output_ranges(plain)
    for k, output_name in enumerate(plain.output_names):
        lines += ["", f"[Output{k + 1}]", f"Name='{one_line(output_name)}'", f"Range={_vector(limits[:, k])}"]
        lines.append(f"NumMFs={plain.n_rules}")
        consequents = [_consequent(plain, p - 1, k) for p in _numbers(plain)]
        lines += [f"MF{p}='rule{p}':'{kind}',{values}" for p, (kind, values) in enumerate(consequents, 1)]
    lines += ["", "[Rules]"]
    for p in _numbers(plain):
        lines.append(f"{' '.join([str(p)] * plain.n_features)}, {' '.join([str(p)] * plain.n_outputs)} (1) : 1")
    return "\n".join(lines) + "\n"

"""A system in the files of other fuzzy tools, FuzzyLite and MATLAB, and an estimator from a Sugeno ``.fis`` file.

- ``.fll``: Type-1 systems in FuzzyLite's language, for fuzzylite, pyfuzzylite and jfuzzylite.
- ``.fis``: Type-1 systems, read by MATLAB's Fuzzy Logic Toolbox (``readfis``) and by Octave's; and MATLAB's type-2 Sugeno
  systems (``sugfistype2``, since R2019b), whose lower sets are the upper ones times ``LowerScale``, an uncertain height.
- ``.m``: a script that builds the same type-2 system.
- ``.t2fis``: Interval Type-2 systems with heights and both widths, read by the IT2-FLS toolbox of Taskin and Kumbasar.

These tools multiply grades. The geometric mean of M Gaussian grades ("htsk") is the product of M Gaussian grades that are
√M times as wide, with the M-th root of the height. Nothing in a file that is read is evaluated.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepfls._checks.arguments import counted
from deepfls._files import write_whole
from deepfls.data.columns import Columns
from deepfls.data.scaling import Scaling
from deepfls.estimators import FLSRegressor
from deepfls.estimators.fit import FitResult
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.structure import structure_of
from deepfls.export.targets import identifiers, input_box, refuse_form, render, rows_for
from deepfls.inspection.plain import PlainSystem

# Words of FuzzyLite's rules.
_KEYWORDS = ("if", "is", "then", "and", "or", "with", "any", "not", "very", "somewhat", "seldom", "extremely")
# Limits against files that are not meant as rules.
_LARGEST_FILE, _LARGEST_COUNT = 10_000_000, 10_000
# Width of the set of an input that a rule leaves out, in ranges of that input: over the range its grade is 1 within 1e-7.
_ANY_WIDTH = 1e4
# Full width at half height of a Gaussian, in standard deviations.
_HALF_WIDTH = 2.0 * math.sqrt(2.0 * math.log(2.0))
# Sets of other kinds: how many numbers each has, and the positions at which its grade is 1/2.
_OTHER_SETS: dict[str, tuple[int, Callable[[list[float]], tuple[float, float]]]] = {
    "trimf": (3, lambda v: ((v[0] + v[1]) / 2, (v[1] + v[2]) / 2)),
    "trapmf": (4, lambda v: ((v[0] + v[1]) / 2, (v[2] + v[3]) / 2)),
    "gbellmf": (3, lambda v: (v[2] - abs(v[0]), v[2] + abs(v[0]))),
    "gauss2mf": (4, lambda v: (v[1] - abs(v[0]) * _HALF_WIDTH / 2, v[3] + abs(v[2]) * _HALF_WIDTH / 2)),
}

_CONVERT = "MATLAB's convertToSugeno makes one of a Mamdani system"
_APPROXIMATE = "approximate=True takes a Gaussian of the same width"
_WRONG_SCALE = "LowerScale must be one number greater than 0 and at most 1"
_NO_LAG = "deepfls cannot represent another value"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
# A set of type 2 has the scale and the lags of its lower set in two further brackets.
_MEMBERSHIP = re.compile(r"'([^']*)'\s*:\s*'([^']*)'\s*,\s*\[([^\]]*)\](?:\s*,\s*\[([^\]]*)\]\s*,\s*\[([^\]]*)\])?")
_RULE = re.compile(rf"([-\d\s.]+),([-\d\s.]+)\(\s*({_NUMBER})\s*\)\s*:\s*([12])")


def write_fll(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a Type-1 system as an FLL file, completely or not at all. Outputs of a classifier are its logits."""
    write_whole(Path(path), fll_text(plain, Path(path).stem).encode())


def write_fis(path: str | os.PathLike[str], plain: PlainSystem) -> None:
    """Write a system for MATLAB in the form of the file's suffix, completely or not at all; classes as logits."""
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
    if plain.kind == "t1":
        return render("model.fis", form="fis, type 1", name=name, **_context(plain))
    _require_scaled_sets("A .fis file", plain)
    return render("model.fis", form="fis, type 2", name=name, **_context(plain))


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
    y = plain.output(rows_for(plain, None, 1_000)).y  # ranges of outputs are used by plots only
    ranges = {"low": low, "high": high, "y_low": y.min(axis=0), "y_high": y.max(axis=0)}
    # Grades of which the firing is the geometric mean: see above.
    n_grades = 1 if plain.tnorm == "product" else plain.n_features
    sigmas, lower_sigmas = (widths * np.sqrt(n_grades) for widths in (plain.upper_sigmas, plain.lower_sigmas))
    sets = {"sigmas": sigmas, "lower_sigmas": lower_sigmas, "scales": np.exp(plain.log_heights / n_grades)}
    kind, numbers = "constant", plain.intercepts[..., np.newaxis]
    if plain.order == 1:
        kind, numbers = "linear", np.concatenate([plain.slopes, numbers], axis=2)
    return {"plain": plain, **ranges, **sets, "consequent": kind, "numbers": numbers}


def _require_it2(suffix: str, plain: PlainSystem) -> None:
    if plain.kind != "it2":
        refuse_form(f"A {suffix} file", "it is for Interval Type-2 systems", "write this Type-1 system to .fis")


def _require_scaled_sets(target: str, plain: PlainSystem) -> None:
    if plain.type_reduction != "km":
        reason = f"MATLAB's type reductions are forms of Karnik-Mendel, not {plain.type_reduction!r}"
        refuse_form(target, reason, "train with type_reduction='km', or write .t2fis")
    if not np.array_equal(plain.lower_sigmas, plain.upper_sigmas):
        # LowerLag moves the feet of a lower set; no documentation says that it gives a Gaussian of another width.
        reason = "its lower sets are upper ones times a scale, and here lower and upper widths differ"
        refuse_form(target, reason, "train with uncertainty='h', or kind='t1', or write .t2fis")


class FisFileError(ValueError):
    """A ``.fis`` file that cannot be read, or whose system deepfls cannot represent."""


def read_fis(
    path: str | os.PathLike[str], *, approximate: bool = False, names: bool = True, **settings: Any
) -> FLSRegressor:
    """Read a Sugeno ``.fis`` file as a fitted estimator with the predictions of the file, from which training can continue.

    The system must multiply the grades of Gaussian sets (``gaussmf``; one input needs no product) and average constant or
    linear outputs; a rule may leave out inputs. Inputs and outputs are scaled by their ranges in the file. A file of type 2
    (``sugfistype2``) gives a system of uncertain heights, from its ``LowerScale``; ``LowerLag`` must be 0.

    Parameters
    ----------
    path : path
    approximate : bool
        If True, triangular, trapezoidal, bell and two-sided Gaussian sets become Gaussian ones of the same middle and width
        at half height, and minimum becomes product. Otherwise they are an error, because predictions change.
    names : bool
        If True, the estimator takes the names of the inputs from the file and expects columns of these names.
    **settings
        Settings of :class:`FLSRegressor`, such as ``epochs``, for a ``fit`` that continues from the file.

    Returns
    -------
    FLSRegressor
        Fitted, of kind "t1", or "it2" for a file of type 2, with ``warm_start=True``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> lines = ["[System]", "Type='sugeno'", "NumInputs=1", "NumOutputs=1", "NumRules=2", "AndMethod='prod'"]
    >>> lines += ["[Input1]", "Name='heat'", "Range=[0 10]", "NumMFs=2"]
    >>> lines += ["MF1='low':'gaussmf',[3 0]", "MF2='high':'gaussmf',[3 10]"]
    >>> lines += ["[Output1]", "Name='valve'", "Range=[0 1]", "NumMFs=2"]
    >>> lines += ["MF1='shut':'constant',[0]", "MF2='open':'constant',[1]"]
    >>> path = Path(mkdtemp()) / "valve.fis"
    >>> _ = path.write_text("\\n".join([*lines, "[Rules]", "1, 1 (1) : 1", "2, 2 (1) : 1"]))
    >>> valve = read_fis(path, names=False)
    >>> round(float(valve.predict([[5.0]])[0]), 6)
    0.5
    """
    return _fitted(_FisFile(Path(path), approximate), names, settings)


_Entries = dict[str, tuple[str, int]]  # values with their line numbers, by key in lower case


class _Variable(NamedTuple):
    name: str
    limits: tuple[float, float]
    sets: dict[int, tuple[str, list[float], int]]  # kind, numbers and line of sets or functions by their number
    scales: dict[int, float]  # of lower sets


class _FisFile:
    """The variables and arrays of one file. An entry that does not fit is an error that names its line."""

    def __init__(self, path: Path, approximate: bool) -> None:
        self.path, self.approximate = path, approximate
        if path.is_dir() or not path.exists():
            raise FisFileError(f"path must be a .fis file, got {str(path)!r}.")
        if path.stat().st_size > _LARGEST_FILE:
            raise FisFileError(f"{str(path)!r} is larger than {_LARGEST_FILE:,} bytes, too large for a file of rules.")
        self.sections: dict[str, tuple[_Entries, int]] = {}
        self.rule_lines: list[tuple[str, int]] = []
        # The encoding of names depends on the version of MATLAB; numbers and keywords are ASCII in all of them.
        self.read(path.read_bytes().decode("utf-8-sig", errors="replace").splitlines())
        system, where = self.sections["system"]
        kind, line = self.text("system", "type", "mamdani")
        if kind != "sugeno":
            raise self.fail(line, f"Type must be 'sugeno', got {kind!r}; {_CONVERT}")
        n_inputs, n_outputs, n_rules = (self.count(system, f"num{name}", where) for name in ("inputs", "outputs", "rules"))
        self.inputs = [self.variable("input", place + 1) for place in range(n_inputs)]
        self.outputs = [self.variable("output", place + 1) for place in range(n_outputs)]
        method, line = self.text("system", "andmethod", "prod")
        if method != "prod" and n_inputs > 1 and not (approximate and method == "min"):
            hint = "; approximate=True takes the product instead" if method == "min" else ""
            raise self.fail(line, f"AndMethod must be 'prod', got {method!r}{hint}")
        method, line = self.text("system", "defuzzmethod", "wtaver")
        if method != "wtaver":
            raise self.fail(line, f"DefuzzMethod must be 'wtaver', got {method!r}")
        rules = [self.rule(text, line) for text, line in self.rule_lines]
        if len(rules) != n_rules:
            raise self.fail(self.sections["rules"][1], f"NumRules says {n_rules} rules, got {len(rules)}")
        self.fill_arrays(rules)

    def fail(self, line: int, reason: str) -> FisFileError:
        return FisFileError(f"{self.path.name}, line {line + 1}: {reason}.")

    def read(self, lines: list[str]) -> None:
        """Sort the lines into sections of KEY=VALUE and rules."""
        entries: _Entries = {}
        section = ""
        for line, text in enumerate(map(str.strip, lines)):
            if not text or text.startswith(("%", "#")):
                continue
            header = re.fullmatch(r"\[(\w+)\]", text)
            if header:
                section = header[1].lower()
                if section in self.sections:
                    raise self.fail(line, f"the section [{header[1]}] occurs twice")
                entries = {}
                self.sections[section] = (entries, line)
            elif section == "rules":
                self.rule_lines.append((text, line))
            elif "=" in text:
                key, value = text.split("=", 1)
                entries[key.strip().lower()] = (value.strip(), line)
            else:
                raise self.fail(line, f"a line must be [SECTION] or KEY=VALUE, got {text[:60]!r}")
        if not self.sections.keys() >= {"system", "rules"}:
            raise FisFileError(
                f"{self.path.name} must have the sections [System] and [Rules]: it is not a .fis file, or it is truncated."
            )

    def text(self, section: str, key: str, default: str) -> tuple[str, int]:
        """A text and its line, that of the section where the key is absent."""
        entries, where = self.sections[section]
        value, line = entries.get(key, (default, where))
        return value.strip("'\""), line

    def count(self, entries: _Entries, key: str, where: int) -> int:
        value, line = entries.get(key, ("", where))
        if not re.fullmatch(r"\d{1,6}", value) or not 1 <= int(value) <= _LARGEST_COUNT:
            raise self.fail(line, f"{key} must be between 1 and {_LARGEST_COUNT:,}, got {value[:40]!r}")
        return int(value)

    def numbers(self, text: str, line: int) -> list[float]:
        words = text.replace(",", " ").split()
        if not all(re.fullmatch(_NUMBER, word) for word in words):
            raise self.fail(line, f"numbers are expected, got {text[:60]!r}")
        values = [float(word) for word in words]
        if not all(abs(value) <= 1e100 for value in values):
            raise self.fail(line, f"numbers must be within ±1e100, got {text[:60]!r}")
        return values

    def variable(self, kind: str, place: int) -> _Variable:
        if f"{kind}{place}" not in self.sections:
            raise FisFileError(f"{self.path.name} must have a section [{kind.capitalize()}{place}]: the file is truncated.")
        entries, where = self.sections[f"{kind}{place}"]
        text, line = entries.get("range", ("[0 1]", where))
        limits = self.numbers(text.strip("[]"), line)
        if len(limits) != 2 or not limits[0] <= limits[1]:
            raise self.fail(line, f"Range must be [smallest largest], got {text[:60]!r}")
        made = _Variable(self.text(f"{kind}{place}", "name", f"{kind}{place}")[0], (limits[0], limits[1]), {}, {})
        for number in range(1, self.count(entries, "nummfs", where) + 1):
            if f"mf{number}u" in entries:
                line = entries[f"mf{number}u"][1]
                raise self.fail(line, "a .t2fis file of the IT2-FLS toolbox cannot be read; a .fis file can")
            value, line = entries.get(f"mf{number}", ("", where))
            match = _MEMBERSHIP.fullmatch(value)
            if match is None:
                raise self.fail(line, f"MF{number} must be 'NAME':'TYPE',[NUMBERS], got {value[:60]!r}")
            made.sets[number] = (match[2].lower(), self.numbers(match[3], line), line)
            if match[4] is not None:
                scale = self.numbers(match[4], line)
                if len(scale) != 1 or not 0 < scale[0] <= 1:
                    raise self.fail(line, f"{_WRONG_SCALE}, got [{match[4][:40]}]")
                if any(self.numbers(match[5], line)):
                    raise self.fail(line, f"LowerLag must be 0, got [{match[5][:40]}]; {_NO_LAG}")
                made.scales[number] = scale[0]
        return made

    def rule(self, text: str, line: int) -> tuple[list[int], list[int], int]:
        """Numbers of the sets and of the output functions of a rule, and its line."""
        match = _RULE.fullmatch(text)
        if match is None:
            raise self.fail(line, f"a rule must be 'SETS, OUTPUTS (WEIGHT) : CONNECTION', got {text[:60]!r}")
        sets, functions = (self.numbers(match[i], line) for i in (1, 2))
        used = sum(value > 0 for value in sets)
        as_many = [len(sets), len(functions)] == [len(self.inputs), len(self.outputs)]
        whole = all(value == int(value) and value >= 0 for value in (*sets, *functions))
        wanted = f"{counted(len(self.inputs), 'set')} and {counted(len(self.outputs), 'output')}"
        for right, reason in (
            (as_many, f"a rule must have {wanted}, got {text[:60]!r}"),
            (whole, f"sets must be positive whole numbers ('not' has no Gaussian form), got {text[:60]!r}"),
            (float(match[3]) == 1.0, f"the weight of a rule must be 1, got {match[3]}; rules of deepfls have no weight"),
            (match[4] == "1" or used < 2, "sets must be joined by AND (connection 1), got OR"),
            (used > 0, "a rule must use at least one input"),
        ):
            if not right:
                raise self.fail(line, reason)
        return list(map(int, sets)), list(map(int, functions)), line

    def fill_arrays(self, rules: list[tuple[list[int], list[int], int]]) -> None:
        n_rules, n_inputs, n_outputs = len(rules), len(self.inputs), len(self.outputs)
        self.centers, self.sigmas, self.heights = (np.ones((n_rules, n_inputs)) for _ in range(3))
        self.intercepts, self.slopes = np.empty((n_rules, n_outputs)), np.zeros((n_rules, n_outputs, n_inputs))
        for p, (antecedents, consequents, line) in enumerate(rules):
            for m, (place, variable) in enumerate(zip(antecedents, self.inputs, strict=True)):
                self.centers[p, m], self.sigmas[p, m] = self.gaussian(place, variable, line)
                self.heights[p, m] = variable.scales.get(place, 1.0)
            for k, (place, variable) in enumerate(zip(consequents, self.outputs, strict=True)):
                if place not in variable.sets:
                    raise self.fail(line, f"output {k + 1} has no function {place}")
                kind, values, at = variable.sets[place]
                if {"constant": 1, "linear": n_inputs + 1}.get(kind) != len(values):
                    wanted = f"an output must be 'constant' of 1 or 'linear' of {n_inputs + 1} numbers"
                    raise self.fail(at, f"{wanted}, got {kind!r} of {len(values)}")
                self.intercepts[p, k] = values[-1]
                self.slopes[p, k, : len(values) - 1] = values[:-1]

    def gaussian(self, place: int, variable: _Variable, line: int) -> tuple[float, float]:
        """Center and width of a set; a very wide one if the rule leaves the input out."""
        low, high = variable.limits
        if place == 0:
            return (low + high) / 2, _ANY_WIDTH * ((high - low) or 1.0)
        if place not in variable.sets:
            raise self.fail(line, f"the input {variable.name!r} has no set {place}")
        kind, values, at = variable.sets[place]
        if kind == "gaussmf" and len(values) == 2:
            center, sigma = values[1], abs(values[0])
        else:
            count, ends = _OTHER_SETS.get(kind, (0, None))
            if ends is None or count != len(values):
                raise self.fail(at, f"a set must be 'gaussmf' of 2 numbers, got {kind!r} of {len(values)}")
            if not self.approximate:
                raise self.fail(at, f"a set must be 'gaussmf', got {kind!r}; {_APPROXIMATE}")
            left, right = ends(values)
            center, sigma = (left + right) / 2, (right - left) / _HALF_WIDTH
        if not sigma > 0:
            raise self.fail(at, f"a set must have a positive width, got {values}")
        return center, sigma


def _fitted(file: _FisFile, names: bool, settings: dict[str, Any]) -> FLSRegressor:
    """A fitted estimator with the system of a file, in scaled units."""
    n_rules, n_features = file.centers.shape
    fixed = {"kind": "t1", "n_rules": n_rules, "order": int(file.slopes.any()), "tnorm": "product", "warm_start": True}
    type_2 = any(variable.scales for variable in file.inputs)
    if type_2:
        fixed |= {"kind": "it2", "uncertainty": "h", "type_reduction": "km"}
    made = FLSRegressor(**{**settings, **fixed})
    limits, targets = (np.array([v.limits for v in part]).T for part in (file.inputs, file.outputs))
    # The range of an input is widened to hold the centers of its sets.
    limits = np.stack([np.minimum(limits[0], file.centers.min(axis=0)), np.maximum(limits[1], file.centers.max(axis=0))])
    # A uniform variable has a standard deviation of its range / √12.
    x_scaling, y_scaling = (
        Scaling(ends.mean(axis=0), np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0) / math.sqrt(12.0))
        for ends in (limits, targets)
    )
    structure = structure_of(made, n_features, len(file.outputs))
    system: Any = structure.new_system().double()
    centers = (file.centers - x_scaling.shift) / x_scaling.scale
    sigmas = file.sigmas / x_scaling.scale
    if structure.centers_within == "data":
        system.antecedents.set_range(centers.min(axis=0), centers.max(axis=0), sigmas.min(axis=0), sigmas.max(axis=0))
    system.centers = centers
    if type_2:
        system.set_sigmas(sigmas, sigmas)
        system.heights = file.heights
    else:
        system.sigmas = sigmas
    at_middle = file.intercepts + file.slopes @ x_scaling.shift
    system.intercepts = (at_middle - y_scaling.shift) / y_scaling.scale
    system.slopes = file.slopes * x_scaling.scale / y_scaling.scale[:, np.newaxis]
    model = ScaledSystem(system.requires_grad_(False), x_scaling, y_scaling)
    inputs, outputs = ([variable.name for variable in part] for part in (file.inputs, file.outputs))
    columns = Columns.numbers(n_features, inputs if names and len(set(inputs)) == n_features else None)
    own = {"target_names_": tuple(outputs), "_single_target_": len(outputs) == 1}
    made._adopt(FitResult(structure, model, [], "epochs", input_range=limits), columns, None, **own)
    return made

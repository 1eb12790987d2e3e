"""An estimator from a Sugeno ``.fis`` file: rules that an expert wrote, as the start of training.

A file is parsed line by line and nothing in it is evaluated. An entry that does not fit is an error that names its line.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepfls._checks.arguments import counted
from deepfls._checks.values import Array
from deepfls.data.columns import Columns
from deepfls.data.scaling import Scaling
from deepfls.estimators import FLSRegressor
from deepfls.estimators.fit import FitResult
from deepfls.estimators.prediction import ScaledSystem
from deepfls.estimators.structure import structure_of

# Values with their line numbers by key, and these by section with the line number of the section.
_Entries = dict[str, tuple[str, int]]
_Sections = dict[str, tuple[_Entries, int]]

# Limits against files that are not meant as rules.
_LARGEST_FILE, _LARGEST_COUNT = 10_000_000, 10_000
# Width of the set of an input that a rule leaves out, in ranges of that input: over the range its grade is 1 within 1e-7.
_ANY_WIDTH = 1e4
# Full width at half height of a Gaussian, in standard deviations.
_HALF_WIDTH = 2.0 * math.sqrt(2.0 * math.log(2.0))

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
# A set of type 2 has the scale and the lags of its lower set in two further brackets.
_MEMBERSHIP = re.compile(r"'([^']*)'\s*:\s*'([^']*)'\s*,\s*\[([^\]]*)\](?:\s*,\s*\[([^\]]*)\]\s*,\s*\[([^\]]*)\])?")
_RULE = re.compile(rf"([-\d\s.]+),([-\d\s.]+)\(\s*({_NUMBER})\s*\)\s*:\s*([12])")


class FisFileError(ValueError):
    """A ``.fis`` file that cannot be read, or whose system deepfls cannot represent."""


@dataclass
class _Variable:
    name: str = ""
    limits: tuple[float, float] = (0.0, 1.0)
    sets: dict[int, tuple[str, list[float], int]] = field(default_factory=dict)
    # Scales of the lower sets, if given.
    scales: dict[int, float] = field(default_factory=dict)


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
    parsed = _Parser(Path(path), approximate).parsed()
    return _estimator(parsed, names, settings)


@dataclass
class _Parsed:
    inputs: list[_Variable]
    outputs: list[_Variable]
    centers: Array
    sigmas: Array
    heights: Array | None
    intercepts: Array
    slopes: Array
    order: int


class _Parser:
    """The arrays of one file."""

    def __init__(self, path: Path, approximate: bool) -> None:
        self.path, self.approximate = path, approximate
        if path.is_dir() or not path.exists():
            raise FisFileError(f"path must be a .fis file, got {str(path)!r}.")
        if path.stat().st_size > _LARGEST_FILE:
            raise FisFileError(f"{str(path)!r} is larger than {_LARGEST_FILE:,} bytes, too large for a file of rules.")
        # The encoding of names depends on the version of MATLAB; numbers and keywords are ASCII in all of them.
        self.lines = path.read_bytes().decode("utf-8", errors="replace").splitlines()

    def fail(self, line: int, reason: str) -> FisFileError:
        return FisFileError(f"{self.path.name}, line {line + 1}: {reason}.")

    def parsed(self) -> _Parsed:
        sections = self.sections()
        system, where = sections["system"]
        kind = self.text(system, "type", "mamdani")
        if kind != "sugeno":
            raise self.fail(
                where, f"Type must be 'sugeno', got {kind!r}; MATLAB's convertToSugeno makes one of a Mamdani system"
            )
        counts = {key: self.count(system, key, where) for key in ("numinputs", "numoutputs", "numrules")}
        inputs = [self.variable(sections, "input", place + 1) for place in range(counts["numinputs"])]
        outputs = [self.variable(sections, "output", place + 1) for place in range(counts["numoutputs"])]
        method = self.text(system, "andmethod", "prod")
        if method != "prod" and len(inputs) > 1 and not (self.approximate and method == "min"):
            hint = "; approximate=True takes the product instead" if method == "min" else ""
            raise self.fail(where, f"AndMethod must be 'prod', got {method!r}{hint}")
        if self.text(system, "defuzzmethod", "wtaver") != "wtaver":
            raise self.fail(where, f"DefuzzMethod must be 'wtaver', got {system['defuzzmethod'][0]!r}")
        return self.arrays(inputs, outputs, sections, counts["numrules"])

    def sections(self) -> _Sections:
        """Values of KEY=VALUE with their line numbers, by section and key in lower case."""
        found: _Sections = {}
        entries: _Entries = {}
        self.rule_lines: list[tuple[str, int]] = []
        section = ""
        for line, text in enumerate(self.lines):
            text = text.strip()
            if not text or text.startswith(("%", "#")):
                continue
            header = re.fullmatch(r"\[(\w+)\]", text)
            if header:
                section = header[1].lower()
                if section in found:
                    raise self.fail(line, f"the section [{header[1]}] occurs twice")
                entries = {}
                found[section] = (entries, line)
            elif section == "rules":
                self.rule_lines.append((text, line))
            elif "=" in text:
                key, value = text.split("=", 1)
                entries[key.strip().lower()] = (value.strip(), line)
            else:
                raise self.fail(line, f"a line must be [SECTION] or KEY=VALUE, got {text[:60]!r}")
        if "system" not in found or "rules" not in found:
            raise FisFileError(
                f"{self.path.name} must have the sections [System] and [Rules]: it is not a .fis file, or it is truncated."
            )
        return found

    def text(self, entries: _Entries, key: str, default: str) -> str:
        return entries.get(key, (default, 0))[0].strip("'\"")

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

    def variable(self, sections: _Sections, kind: str, place: int) -> _Variable:
        if f"{kind}{place}" not in sections:
            raise FisFileError(f"{self.path.name} must have a section [{kind.capitalize()}{place}]: the file is truncated.")
        entries, where = sections[f"{kind}{place}"]
        made = _Variable(self.text(entries, "name", f"{kind}{place}"))
        if "range" in entries:
            text, line = entries["range"]
            limits = self.numbers(text.strip("[]"), line)
            if len(limits) != 2 or not limits[0] <= limits[1]:
                raise self.fail(line, f"Range must be [smallest largest], got {text[:60]!r}")
            made.limits = (limits[0], limits[1])
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
                made.scales[number] = self.scale(match[4], match[5], line)
        return made

    def scale(self, scale: str, lags: str, line: int) -> float:
        """Scale of a lower set; no other difference from the upper set is allowed."""
        values = self.numbers(scale, line)
        if len(values) != 1 or not 0 < values[0] <= 1:
            raise self.fail(line, f"LowerScale must be one number greater than 0 and at most 1, got [{scale[:40]}]")
        if any(self.numbers(lags, line)):
            raise self.fail(line, f"LowerLag must be 0, got [{lags[:40]}]; deepfls cannot represent another value")
        return values[0]

    def arrays(self, inputs: list[_Variable], outputs: list[_Variable], sections: _Sections, n_rules: int) -> _Parsed:
        rules = [self.rule(text, line, len(inputs), len(outputs)) for text, line in self.rule_lines]
        if len(rules) != n_rules:
            raise self.fail(sections["rules"][1], f"NumRules says {n_rules} rules, got {len(rules)}")
        shape = (n_rules, len(inputs))
        centers, sigmas, heights = np.empty(shape), np.empty(shape), np.ones(shape)
        intercepts, slopes = np.empty((n_rules, len(outputs))), np.zeros((n_rules, len(outputs), len(inputs)))
        for p, (antecedents, consequents, line) in enumerate(rules):
            for m, (place, variable) in enumerate(zip(antecedents, inputs, strict=True)):
                centers[p, m], sigmas[p, m] = self.gaussian(place, variable, line)
                heights[p, m] = variable.scales.get(place, 1.0)
            for k, (place, variable) in enumerate(zip(consequents, outputs, strict=True)):
                if place not in variable.sets:
                    raise self.fail(line, f"output {k + 1} has no function {place}")
                kind, values, at = variable.sets[place]
                expected = {"constant": 1, "linear": len(inputs) + 1}.get(kind)
                if expected != len(values):
                    raise self.fail(
                        at, f"an output must be 'constant' of 1 or 'linear' of {len(inputs) + 1} numbers, got {kind!r}"
                    )
                intercepts[p, k] = values[-1]
                slopes[p, k, : len(values) - 1] = values[:-1]
        type_2 = any(variable.scales for variable in inputs)
        order = int(slopes.any())
        return _Parsed(inputs, outputs, centers, sigmas, heights if type_2 else None, intercepts, slopes, order)

    def rule(self, text: str, line: int, n_inputs: int, n_outputs: int) -> tuple[list[int], list[int], int]:
        match = _RULE.fullmatch(text)
        if match is None:
            raise self.fail(line, f"a rule must be 'SETS, OUTPUTS (WEIGHT) : CONNECTION', got {text[:60]!r}")
        places = [self.numbers(match[i], line) for i in (1, 2)]
        if [len(part) for part in places] != [n_inputs, n_outputs]:
            expected = f"{counted(n_inputs, 'set')} and {counted(n_outputs, 'output')}"
            raise self.fail(line, f"a rule must have {expected}, got {text[:60]!r}")
        if any(value != int(value) or value < 0 for part in places for value in part):
            raise self.fail(line, f"sets must be positive whole numbers ('not' has no Gaussian form), got {text[:60]!r}")
        if float(match[3]) != 1.0:
            raise self.fail(line, f"the weight of a rule must be 1, got {match[3]}; rules of deepfls have no weight")
        used = sum(value > 0 for value in places[0])
        if match[4] == "2" and used > 1:
            raise self.fail(line, "sets must be joined by AND (connection 1), got OR")
        if used == 0:
            raise self.fail(line, "a rule must use at least one input")
        return [int(value) for value in places[0]], [int(value) for value in places[1]], line

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
            left, right = self.half_height(kind, values, at)
            center, sigma = (left + right) / 2, (right - left) / _HALF_WIDTH
        if not sigma > 0:
            raise self.fail(at, f"a set must have a positive width, got {values}")
        return center, sigma

    def half_height(self, kind: str, values: list[float], line: int) -> tuple[float, float]:
        """The positions at which a set of another kind has the grade 1/2."""
        kinds = {"trimf": 3, "trapmf": 4, "gbellmf": 3, "gauss2mf": 4}
        if kinds.get(kind) != len(values):
            raise self.fail(line, f"a set must be 'gaussmf' of 2 numbers, got {kind!r} of {len(values)}")
        if not self.approximate:
            raise self.fail(
                line, f"a set must be 'gaussmf', got {kind!r}; approximate=True takes a Gaussian of the same width"
            )
        if kind == "gbellmf":
            return values[2] - abs(values[0]), values[2] + abs(values[0])
        if kind == "gauss2mf":
            return values[1] - abs(values[0]) * _HALF_WIDTH / 2, values[3] + abs(values[2]) * _HALF_WIDTH / 2
        return (values[0] + values[1]) / 2, (values[-2] + values[-1]) / 2


def _estimator(parsed: _Parsed, names: bool, settings: dict[str, Any]) -> FLSRegressor:
    """A fitted estimator with the parsed system, in scaled units."""
    n_rules, n_features = parsed.centers.shape
    fixed = {"kind": "t1", "n_rules": n_rules, "order": parsed.order, "tnorm": "product", "warm_start": True}
    if parsed.heights is not None:
        fixed |= {"kind": "it2", "uncertainty": "h", "type_reduction": "km"}
    made = FLSRegressor(**{**settings, **fixed})
    limits, targets = (np.array([v.limits for v in part]).T for part in (parsed.inputs, parsed.outputs))
    # The range of an input is widened to hold the centers of its sets.
    limits = np.stack(
        [np.minimum(limits[0], parsed.centers.min(axis=0)), np.maximum(limits[1], parsed.centers.max(axis=0))]
    )
    # A uniform variable has a standard deviation of its range / √12.
    x_scaling, y_scaling = (
        Scaling(ends.mean(axis=0), np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0) / math.sqrt(12.0))
        for ends in (limits, targets)
    )
    structure = structure_of(made, n_features, len(parsed.outputs))
    system: Any = structure.new_system().double()
    centers = (parsed.centers - x_scaling.shift) / x_scaling.scale
    sigmas = parsed.sigmas / x_scaling.scale
    if structure.centers_within == "data":
        system.antecedents.set_range(centers.min(axis=0), centers.max(axis=0), sigmas.min(axis=0), sigmas.max(axis=0))
    system.centers = centers
    if parsed.heights is None:
        system.sigmas = sigmas
    else:
        system.set_sigmas(sigmas, sigmas)
        system.heights = parsed.heights
    at_middle = parsed.intercepts + parsed.slopes @ x_scaling.shift
    system.intercepts = (at_middle - y_scaling.shift) / y_scaling.scale
    system.slopes = parsed.slopes * x_scaling.scale / y_scaling.scale[:, np.newaxis]
    model = ScaledSystem(system.requires_grad_(False), x_scaling, y_scaling)
    inputs, outputs = ([variable.name for variable in part] for part in (parsed.inputs, parsed.outputs))
    named = inputs if names and len(set(inputs)) == n_features else None
    own = {"target_names_": tuple(outputs), "_single_target_": len(outputs) == 1}
    columns = Columns.numbers(n_features, named)
    made._adopt(FitResult(structure, model, [], "epochs", input_range=limits), columns, None, **own)
    return made

"""Does training ever leave the finite numbers, break a constraint or raise a warning?

    python benchmarks/robustness.py [--seeds N] [--systems gt2,...] [--planes ROWS] [--quick] [--json FILE]

Every kind x uncertainty x reduction is trained on tables made to break it. A run fails if it raises or warns, if a
prediction is not finite, on the rows of the table or far outside them, or if a constraint does not hold. ``--planes`` also
takes so many random rows, near and far, through General Type-2 systems of random parameters, and counts planes that are
not inside the next wider one and quantiles that cross. The exit code is 1 if a run or a row failed.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from _report import names_among, option_parser, positive, print_table, write_json
from _timing import threads
from deepfls import FLSClassifier, FLSRegressor
from deepfls.data.scaling import Scaling
from deepfls.estimators.intervals import CalibratedModel
from deepfls.estimators.prediction import ScaledSystem
from deepfls.nn import GT2FLS, IT2FLS

# Parts of the sentences about a table that a user is to be told.
_TOLD = ("No column of X varies", "left out", "far beyond all others", "The target ", "The table ", "to learn from")

Array = np.ndarray[Any, np.dtype[Any]]

SYSTEMS: dict[str, dict[str, Any]] = {
    "t1": {"kind": "t1"},
    **{
        f"it2 {uncertainty} {reduction}": {"kind": "it2", "uncertainty": uncertainty, "type_reduction": reduction}
        for uncertainty, reduction in itertools.product(("h", "s", "hs"), ("km", "nt", "bmm", "sm"))
    },
    "gt2": {"kind": "gt2"},
    "gt2 quantiles": {"kind": "gt2", "loss": "quantiles", "shared_spread": True},
}
# Levels of the planes that are compared, and of the quantiles.
ALPHAS = (1.0, 0.9, 0.5, 0.2, 0.05, 0.01, 1e-3, 1e-6)
LEVELS = (0.0005, 0.005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995, 0.9995)
# By seed in turn: the default recipe, the paper's start and t-norm, and steps that are far too long.
RECIPES: tuple[dict[str, Any], ...] = (
    {},
    {"tnorm": "product", "centers": "kmeans-per-input", "consequents": "random", "schedule": "constant"},
    {"tnorm": "product", "centers": "grid", "learning_rate": 1.0, "schedule": "constant", "patience": 2, "order": 0},
)
EPOCHS = 10


@dataclass(frozen=True)
class Case:
    """A training table: x (rows, features), y numbers or classes, and sample weights in one of the tables."""

    x: Array
    y: Array
    weight: Array | None = None
    classes: bool = False


@dataclass
class Outcome:
    """Runs of one table, and their failures."""

    runs: int = 0
    seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)


def smooth(x: Array) -> Array:
    """A target that depends on the first two columns of standardised inputs."""
    return np.sin(2.0 * x[:, 0]) + 0.5 * x[:, -1] ** 2


def plain(random: np.random.RandomState, n_rows: int = 40, n_features: int = 3) -> tuple[Array, Array]:
    x = random.normal(size=(n_rows, n_features))
    return x, smooth(x) + 0.1 * random.normal(size=n_rows)


def rows(n_rows: int) -> Callable[[np.random.RandomState], Case]:
    return lambda random: Case(*plain(random, n_rows))


def columns(n_features: int) -> Callable[[np.random.RandomState], Case]:
    return lambda random: Case(*plain(random, n_features=n_features))


def mapped(
    of_x: Callable[[Array], Array] = lambda x: x, of_y: Callable[[Array], Array] = lambda y: y
) -> Callable[[np.random.RandomState], Case]:
    """The plain table with a function applied to its inputs or targets."""

    def make(random: np.random.RandomState) -> Case:
        x, y = plain(random)
        return Case(of_x(x), of_y(y))

    return make


def spiked(values: Array) -> Array:
    """Two entries replaced by ±1e6."""
    values = values.copy()
    values.flat[1], values.flat[-2] = 1e6, -1e6
    return values


def one_row_apart(x: Array) -> Array:
    x = np.full_like(x, 0.1)
    x[7] = 3.0
    return x


def weighted(random: np.random.RandomState) -> Case:
    x, y = plain(random)
    return Case(x, y, weight=10.0 ** random.uniform(-12, 12, len(x)) * (random.uniform(size=len(x)) > 0.2))


def linear(random: np.random.RandomState) -> Case:
    x, _ = plain(random)
    return Case(x, x @ [3.0, -2.0, 0.0] + 1.0)


def heavy_tails(random: np.random.RandomState) -> Case:
    x = random.standard_cauchy(size=(40, 3)) ** 3
    return Case(x, random.standard_cauchy(size=40) ** 3)


def classes_of(of_y: Callable[[Array], Array]) -> Callable[[np.random.RandomState], Case]:
    def make(random: np.random.RandomState) -> Case:
        x, y = plain(random)
        return Case(x, of_y(y), classes=True)

    return make


TABLES: dict[str, Callable[[np.random.RandomState], Case]] = {
    "1 row": rows(1),
    "2 rows": rows(2),
    "3 rows": rows(3),
    "1 column": columns(1),
    "1,000 columns": columns(1000),
    "constant columns": mapped(
        lambda x: np.column_stack([x, np.full(len(x), 0.1), np.zeros(len(x)), np.full(len(x), 1e12)])
    ),
    "nothing but constant columns": mapped(lambda x: np.full_like(x, 0.1)),
    "constant but for one row": mapped(one_row_apart),
    "constant up to rounding": mapped(lambda x: 1e30 * (1.0 + np.round(x) * 2.0**-52)),
    "duplicate columns": mapped(lambda x: np.column_stack([x, x, x[:, :1]])),
    "columns that add up to another": mapped(lambda x: np.column_stack([x, x.sum(axis=1), x @ [1.0, -2.0, 1e-9]])),
    "equal rows of different targets": mapped(lambda x: np.tile(x[:2], (20, 1))),
    "equal rows of equal targets": mapped(lambda x: np.tile(x[:2], (20, 1)), lambda y: np.tile(y[:2], 20)),
    "outliers of 1e6 in X": mapped(spiked),
    "outliers of 1e6 in y": mapped(of_y=spiked),
    "values of 1e-12": mapped(lambda x: x * 1e-12, lambda y: y * 1e-12),
    "values of 1e12": mapped(lambda x: x * 1e12, lambda y: y * 1e12),
    "values of 1e-100 and 1e100": mapped(lambda x: x * 1e-100, lambda y: y * 1e100),
    "offset of 1e12": mapped(lambda x: x + 1e12, lambda y: y + 1e12),
    "columns from 1e-12 to 1e12": mapped(lambda x: x * [1e-12, 1.0, 1e12]),
    "heavy tails": heavy_tails,
    "heavy ties": mapped(lambda x: np.round(x), lambda y: np.round(y)),
    "nearly all zeros": mapped(lambda x: np.where(np.abs(x) > 2.0, x, 0.0)),
    "two distinct targets": mapped(of_y=lambda y: (y > 0).astype(float)),
    "constant target": mapped(of_y=lambda y: np.full(len(y), 0.1)),
    "constant target of 1e12": mapped(of_y=lambda y: np.full(len(y), 1e12 / 3.0)),
    "one target apart": mapped(of_y=lambda y: (np.arange(len(y)) == 3).astype(float)),
    "exactly linear target": linear,
    "target that jumps": mapped(of_y=lambda y: np.where(y > 0, 1e6, -1e6)),
    "targets of 1e-12, 1 and 1e12": mapped(of_y=lambda y: np.column_stack([y * 1e-12, y, y * 1e12])),
    "integer input": mapped(lambda x: np.round(3.0 * x).astype(np.int8), lambda y: np.round(y).astype(np.int64)),
    "unsigned input": mapped(lambda x: np.abs(np.round(80.0 * x)).astype(np.uint8)),
    "boolean input": mapped(lambda x: x > 0, lambda y: y > 0),
    "float32 input": mapped(lambda x: x.astype(np.float32), lambda y: y.astype(np.float32)),
    "weights from 1e-12 to 1e12": weighted,
    "one class of one row": classes_of(lambda y: np.where(np.arange(len(y)) == 3, "rare", "common")),
    "one class only": classes_of(lambda y: np.full(len(y), "only")),
    "many classes": classes_of(lambda y: np.arange(len(y)) % 13 * 1000 - 5000),
}


def far_rows(x: Array) -> Array:
    """Rows around, beside and far outside those of a table."""
    x = np.asarray(x, dtype=np.float64)[:5]
    spread = np.abs(x).max() + 1.0
    moved = [x + sign * distance * spread for sign in (-1.0, 1.0) for distance in (1.0, 1e3, 1e12)]
    return np.concatenate([*moved, 1e6 * x, np.zeros_like(x[:1]), np.full_like(x[:1], 1e12), np.full_like(x[:1], -1e-12)])


def inverted_planes(system: GT2FLS, z: torch.Tensor) -> int:
    """Ends of planes that lie further inside than those of a narrower plane, beyond rounding, for scaled rows."""
    with torch.no_grad():
        _, left, right = system.planes(z, ALPHAS)
        slack = 1e-9 * (1.0 + system._rule_outputs(z).abs().amax(dim=1)).unsqueeze(1)
        inside = (left.diff(dim=1) <= slack) & (right.diff(dim=1) >= -slack)
        ordered = left <= right + slack
    return int((~inside).sum() + (~ordered).sum())


def random_planes(n_rows: int) -> tuple[int, int, int]:
    """Rows taken through systems of random parameters, ends of planes that are inverted, and quantiles that cross."""
    done = inverted = crossed = 0
    for seed in itertools.count():
        if done >= n_rows:
            return done, inverted, crossed
        random = np.random.RandomState(seed)
        n_features, n_rules, scale = random.randint(1, 7), random.randint(1, 13), random.choice([0.3, 1.0, 4.0])
        options = {"n_rules": n_rules, "shared_spread": bool(seed % 2), "tnorm": ("product", "htsk")[seed // 2 % 2]}
        system = GT2FLS(n_features, **options).double()
        with torch.no_grad():
            for parameter in system.parameters():
                parameter.copy_(torch.from_numpy(scale * random.normal(size=parameter.shape)))
        z = np.concatenate([random.normal(size=(900, n_features)), 30.0 * random.normal(size=(100, n_features))])
        unit = Scaling(np.zeros(n_features), np.ones(n_features)), Scaling(np.zeros(1), np.ones(1))
        quantiles = CalibratedModel(ScaledSystem(system, *unit), None).quantiles(z, LEVELS, learned=True)
        inverted += inverted_planes(system, torch.from_numpy(z))
        crossed += int((np.diff(quantiles, axis=1) < 0).sum()) + int((~np.isfinite(quantiles)).sum())
        done += len(z)
    raise AssertionError


def broken_promises(model: FLSRegressor | FLSClassifier, case: Case) -> Iterator[str]:
    """Conditions that a trained model does not meet."""
    for place, x in (("the training rows", case.x), ("rows far outside", far_rows(case.x))):
        values = model.predict_proba(x) if case.classes else model.predict(x)  # type: ignore[union-attr]
        if not np.isfinite(values).all():
            yield f"a prediction on {place} is not finite"
        lower, upper = model.firing_strengths(x)
        if not ((lower >= 0) & (lower <= upper) & (upper <= 1)).all():
            yield f"firing on {place} is not 0 <= lower <= upper <= 1"
        if isinstance(model.system_, IT2FLS):
            reduced = model.system_.reduce(torch.from_numpy(model.x_scaling_.apply(model._known_x(x))))
            if not bool(((reduced.y_left <= reduced.y) & (reduced.y <= reduced.y_right)).all()):
                yield f"the type-reduced set on {place} is not y_left <= y <= y_right"
        if isinstance(model.system_, GT2FLS):
            found = inverted_planes(model.system_, torch.from_numpy(model.x_scaling_.apply(model._known_x(x))))
            if found:
                yield f"{found} planes on {place} are not inside the next wider one"
        if model.loss == "quantiles" and not (np.diff(model.predict_quantiles(x, LEVELS), axis=1) >= 0).all():
            yield f"quantiles on {place} cross"
    system = model.system_
    if not all(bool(torch.isfinite(value).all()) for value in system.state_dict().values()):
        yield "a parameter is not finite"
    lower_sigmas, upper_sigmas = (
        (system.lower_sigmas, system.upper_sigmas) if isinstance(system, IT2FLS) else (system.sigmas, system.sigmas)
    )
    if not bool(((lower_sigmas > 0) & (lower_sigmas <= upper_sigmas) & torch.isfinite(upper_sigmas)).all()):
        yield "the widths are not 0 < lower <= upper"
    if isinstance(system, IT2FLS):
        if not bool(((system.heights > 0) & (system.heights <= 1)).all()):
            yield "a height is not in (0, 1]"
        if system.mix is not None and not bool(((system.mix >= 0) & (system.mix <= 1)).all()):
            yield "a mix is not in [0, 1]"
    if not all(np.isfinite(value) for row in model.history_ for value in row.values()):
        yield "the history has a number that is not finite"


def failure(table: str, system: str, seed: int, epochs: int = EPOCHS) -> str:
    """Reasons why one run failed; empty if it did not."""
    case = TABLES[table](np.random.RandomState(seed))
    options = {**SYSTEMS[system], **RECIPES[seed % len(RECIPES)], "epochs": epochs, "random_state": seed}
    if case.classes:
        options.pop("loss", None)  # classes have no quantiles
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        try:
            model = (FLSClassifier if case.classes else FLSRegressor)(**options)
            model.fit(case.x, case.y, sample_weight=case.weight)
            wrong = list(broken_promises(model, case))
        except Exception as error:  # noqa: BLE001  # any error is a failure
            wrong = [f"{type(error).__name__}: {error}"]
    wrong += [f"{w.category.__name__}: {w.message}" for w in leaked if not any(word in str(w.message) for word in _TOLD)]
    return "; ".join(wrong)


def try_all(tables: Iterable[str], systems: Iterable[str], seeds: Iterable[int]) -> dict[str, Outcome]:
    """Outcomes by table."""
    outcomes = {name: Outcome() for name in tables}
    runs = list(itertools.product(outcomes, systems, seeds))
    for table, system, seed in track(runs, console=Console(stderr=True), disable=not sys.stderr.isatty()):
        outcome = outcomes[table]
        began = time.perf_counter()
        reason = failure(table, system, seed)
        outcome.seconds += time.perf_counter() - began
        outcome.runs += 1
        if reason:
            outcome.failures.append({"table": table, "system": system, "seed": seed, "reason": reason})
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__, "json")
    parser.add_argument("--seeds", type=positive, default=6, help="seeds of every table and system; 6 by default")
    parser.add_argument("--systems", type=names_among(tuple(SYSTEMS)), default=",".join(SYSTEMS), help="all by default")
    parser.add_argument("--planes", type=positive, metavar="ROWS", help="random rows for planes; 100000 is the promise")
    parser.add_argument("--quick", action="store_true", help="four of the systems, at most three seeds")
    given = parser.parse_args(arguments)
    systems = ["t1", "it2 hs km", "it2 h nt", "it2 s bmm"] if given.quick else given.systems
    with threads(1):
        outcomes = try_all(TABLES, systems, range(min(given.seeds, 3) if given.quick else given.seeds))
    lines = [
        [name, str(of.runs), str(len(of.failures)), f"{1e3 * of.seconds / max(of.runs, 1):.0f}"]
        for name, of in outcomes.items()
    ]
    print_table(["table", "runs", "failures", "ms per run"], lines, left=("table",))
    for outcome in outcomes.values():
        for failed in outcome.failures[:3]:
            print(f"{failed['table']}, {failed['system']}, seed {failed['seed']}: {failed['reason']}")
    failures = [failed for outcome in outcomes.values() for failed in outcome.failures]
    runs = sum(outcome.runs for outcome in outcomes.values())
    print(f"runs tried: {runs}, failures: {len(failures)}")
    done, inverted, crossed = random_planes(given.planes) if given.planes else (0, 0, 0)
    if given.planes:
        print(f"random rows: {done:,}, ends of inverted planes: {inverted}, crossing quantiles: {crossed}")
    if given.json:
        planes = {"rows": done, "inverted": inverted, "crossed": crossed}
        write_json(given.json, {"runs": runs, "failures": failures, "planes": planes})
    return 1 if failures or inverted or crossed else 0


if __name__ == "__main__":
    sys.exit(main())

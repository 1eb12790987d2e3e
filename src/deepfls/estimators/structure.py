"""The structure of a system: the settings that shape it, its inputs and outputs, and what is known of its sets.

Shared terms have words, sets have limits from the data, and frozen rules and sets stay as they are while the rest learns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.arguments import check_count, check_option
from deepfls._checks.values import Array, evenly_spaced
from deepfls.estimators.settings import Settings
from deepfls.nn.constraints import separate_generator
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe
from deepfls.training.start import SPACING_ROWS, width_limits
from deepfls.training.terms import ConditionRevision

if TYPE_CHECKING:
    from deepfls.data.arrays import TrainingData
    from deepfls.data.columns import Columns
    from deepfls.training.batches import Rows

KINDS = ("t1", "it2", "gt2")
TNORMS = ("auto", "product", "htsk")
RANGES = ("data", "free")
# Words of shared terms, from low to high.
LABELS = ("very low", "low", "medium", "high", "very high")
_WORDS = {2: ("low", "high"), 3: LABELS[1:4], 4: ("very low", "low", "high", "very high"), 5: LABELS}


@dataclass(frozen=True)
class Structure:
    """What a warm start cannot change: the settings that shape a system, its inputs and its outputs."""

    kind: str
    n_rules: int
    order: int
    uncertainty: str
    type_reduction: str
    tnorm: str
    scaling: str
    n_features: int
    n_outputs: int
    # Files of the first versions have none of these.
    n_planes: int = 3
    shared_spread: bool = False
    centers_within: str = "free"
    n_terms: int | Sequence[int] | None = None
    max_conditions: int | None = None

    @property
    def terms_per_input(self) -> tuple[int, ...]:
        """Shared terms of every input; empty where every rule has sets of its own."""
        given: Any = self.n_terms
        if given is None:
            return ()
        if not isinstance(given, Sequence):
            return (check_count("n_terms", given, 2),) * self.n_features
        if isinstance(given, str) or len(given) != self.n_features:
            raise ValueError(f"n_terms must be a number or have one for each of {self.n_features} inputs, got {given!r}.")
        return tuple(check_count("n_terms", count, 1) for count in given)

    def term_words(self, words: Mapping[str, Sequence[str]] | None, names: Sequence[str]) -> list[list[str]]:
        """Words for the terms of every input, from low to high; empty where every rule has sets of its own."""
        if words is not None and not isinstance(words, Mapping):
            raise TypeError(f"words must be a dictionary of the words of every input, got {words!r}.")
        given = {} if words is None else dict(words)
        for name, chosen in given.items():
            place = names.index(check_option("words", name, tuple(names)))
            if self.n_terms is None:
                raise ValueError("words must be given with n_terms, got n_terms=None.")
            count = self.terms_per_input[place]
            if isinstance(chosen, str) or len(chosen) != count or len(set(chosen)) != count:
                raise ValueError(
                    f"words must have {count} different words for {name!r}, which has {count} terms, got {chosen!r}."
                )
        return [
            list(given.get(name, _WORDS.get(count, [f"term {t + 1}" for t in range(count)] if count > 1 else ["medium"])))
            for name, count in zip(names, self.terms_per_input, strict=False)
        ]

    def new_system(self) -> T1FLS | IT2FLS:
        """A system of this structure. Its random values are replaced later, so torch's generator stays as it was."""
        check_option("kind", self.kind, KINDS)
        check_count("n_rules", self.n_rules)
        check_option("tnorm", self.tnorm, TNORMS)
        check_option("centers_within", self.centers_within, RANGES)
        tnorm = "htsk" if self.tnorm == "auto" else self.tnorm
        options: dict[str, Any] = {"n_rules": self.n_rules, "order": self.order, "tnorm": tnorm}
        if self.kind == "gt2" and (self.n_terms is not None or self.max_conditions is not None):
            name = "n_terms" if self.n_terms is not None else "max_conditions"
            raise ValueError(f"{name} must be None for kind='gt2', got {getattr(self, name)}; kind='it2' or 't1' takes it.")
        if self.max_conditions is not None:
            check_count("max_conditions", self.max_conditions)
        with separate_generator():
            system = self._made(options)
            if self.n_terms is not None:
                nothing = np.zeros((self.n_rules, self.n_features), dtype=np.int64)
                system.antecedents.share_terms(nothing, max(self.terms_per_input))
            elif self.max_conditions is not None:
                own = np.tile(np.arange(self.n_rules)[:, np.newaxis], (1, self.n_features))
                system.antecedents.share_terms(own, self.n_rules)
        if self.centers_within == "data" or self.n_terms is not None:
            system.antecedents.set_range(-1e30, 1e30)  # until the data are known
        return system

    def _made(self, options: dict[str, Any]) -> T1FLS | IT2FLS:
        if self.kind == "t1":
            return T1FLS(self.n_features, self.n_outputs, **options)
        if self.kind == "gt2":
            if check_count("n_planes", self.n_planes) == 1:
                raise ValueError("n_planes must be at least 2 for kind='gt2', got 1; kind='it2' is a system of one plane.")
            options |= {"n_planes": self.n_planes, "shared_spread": self.shared_spread}
            return GT2FLS(self.n_features, self.n_outputs, **options)
        options |= {"uncertainty": self.uncertainty, "type_reduction": self.type_reduction}
        return IT2FLS(self.n_features, self.n_outputs, **options)


def structure_of(settings: Settings, n_features: int, n_outputs: int) -> Structure:
    """The structure of the system that these settings give."""
    names = {field.name for field in dataclasses.fields(Structure)} - {"n_features", "n_outputs"}
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return Structure(**chosen, n_features=n_features, n_outputs=n_outputs)


# Rules and sets that stay as they are


def structure_for(
    settings: Settings, columns: Columns, n_outputs: int, n_rows: int, earlier: Structure | None
) -> Structure:
    """The structure of a system for a table; ``n_rules="auto"`` is the number of an earlier one, or that before a choice.

    A list of ``n_terms`` has one number for each column, which holds for all inputs that a category makes.
    """
    if settings.n_rules == "auto":
        settings = replace(settings, n_rules=recipe.usual_rules(n_rows) if earlier is None else earlier.n_rules)
    given: Any = settings.n_terms
    n_columns = len(columns.columns)
    if given is not None and not isinstance(given, int | np.integer):
        if isinstance(given, str) or len(given) != n_columns:
            raise ValueError(f"n_terms must be a number or have one for each of {n_columns} columns, got {given!r}.")
        spans = zip(given, columns.spans, strict=True)
        settings = replace(settings, n_terms=[count for count, (first, end) in spans for _ in range(first, end)])
    return structure_of(settings, columns.width, n_outputs)


def rule_numbers(frozen_rules: Any, n_rules: int) -> list[int]:
    """Numbers of rules, from 0, each checked."""
    given = [] if frozen_rules is None else [frozen_rules] if isinstance(frozen_rules, int) else list(frozen_rules)
    return [check_count("frozen_rules", rule, 0, n_rules - 1) for rule in given]


def frozen_masks(
    system: T1FLS | IT2FLS, settings: Settings, structure: Structure, names: Sequence[str]
) -> dict[str, Tensor]:
    """Of parameters by name, masks of the values that the settings freeze; empty where there are none."""
    rules = rule_numbers(settings.frozen_rules, structure.n_rules)
    antecedents = system.antecedents
    sets = torch.zeros(antecedents.n_sets, antecedents.n_features, dtype=torch.bool)
    if settings.frozen_terms is not None and settings.frozen_terms is not False:
        for m, places in _chosen_terms(settings, structure, names):
            sets[places, m] = True
    for rule in rules:
        if antecedents.terms is None:
            sets[rule] = True
        else:
            for m, term in enumerate(antecedents.terms[rule].tolist()):
                if term >= 0:
                    sets[term, m] = True
    masks: dict[str, Tensor] = {}
    for name, parameter in system.named_parameters():
        if name.startswith("antecedents.") and bool(sets.any()):
            masks[name] = sets.clone()
        elif name.startswith("consequents.") and rules:
            masks[name] = torch.zeros(parameter.shape, dtype=torch.bool)
            masks[name][rules] = True
    return masks


def _chosen_terms(settings: Settings, structure: Structure, names: Sequence[str]) -> list[tuple[int, list[int]]]:
    """Inputs and the places of their frozen sets."""
    given: Any = settings.frozen_terms
    n_sets = max(structure.terms_per_input, default=structure.n_rules)
    if given is True:
        return [(m, list(range(n_sets))) for m in range(len(names))]
    if not isinstance(given, Mapping):
        inputs = [given] if isinstance(given, (str, int)) else list(given)
        return [(_place(name, names), list(range(n_sets))) for name in inputs]
    if structure.n_terms is None:
        raise ValueError("frozen_terms must be a list of inputs without n_terms, got a dict.")
    words = structure.term_words(settings.words, names)
    found = []
    for name, terms in given.items():
        m = _place(name, names)
        several = [terms] if isinstance(terms, (str, int)) else list(terms)
        count = structure.terms_per_input[m]
        places = [
            words[m].index(check_option("frozen_terms", term, tuple(words[m])))
            if isinstance(term, str)
            else check_count("frozen_terms", term, 0, count - 1)
            for term in several
        ]
        found.append((m, places))
    return found


def _place(name: Any, names: Sequence[str]) -> int:
    if isinstance(name, str):
        return names.index(check_option("frozen_terms", name, tuple(names)))
    return check_count("frozen_terms", name, 0, len(names) - 1)


def restore_frozen(system: T1FLS | IT2FLS, masks: Mapping[str, Tensor], earlier: T1FLS | IT2FLS) -> None:
    """Give the frozen values of a system all the digits that they had in an earlier one."""
    before = dict(earlier.named_parameters())
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            if name in masks:
                mask = masks[name].to(parameter.device)
                parameter[mask] = before[name].detach().to(parameter)[mask]


# Limits and revisions of sets that follow from the data


def desired_outputs(rows: Rows, data: TrainingData) -> torch.Tensor:
    """The targets; for classes logits of +2 for the class and -2 / (classes - 1) for the others."""
    if data.classes is None:
        return rows.target
    n = len(data.classes)
    logits = 2.0 * (np.eye(n) * n - 1.0) / max(n - 1, 1)
    return torch.from_numpy(logits).to(rows.x)[rows.target[:, 0].long()]


def condition_revision(
    system: T1FLS | IT2FLS, settings: Settings, structure: Structure, data: TrainingData, rows: Rows
) -> ConditionRevision:
    """What revises the conditions of the rules of a system with terms while it trains; rows are in scaled units."""
    fixed = np.zeros(structure.n_rules, dtype=bool)
    fixed[rule_numbers(settings.frozen_rules, structure.n_rules)] = True
    return ConditionRevision(
        system,
        rows.x,
        desired_outputs(rows, data),
        n_terms=structure.terms_per_input,
        max_conditions=structure.max_conditions,
        frozen=fixed,
    )


def joined_range(first: Array, second: Array) -> Array:
    """The range that holds both, (2, features)."""
    return np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])])


def set_range(system: T1FLS | IT2FLS, structure: Structure, data: TrainingData, earlier: T1FLS | IT2FLS | None) -> None:
    """Hold the sets of a system within the range of the training data, in scaled units, if its structure requires it."""
    if structure.n_terms is not None or structure.centers_within != "data":
        return  # terms have limits of their own
    centers = data.x_scaling.apply(data.input_range)
    some = data.measured.x[evenly_spaced(data.measured.n_rows, SPACING_ROWS)]
    widths = width_limits(data.x_scaling.apply(some), centers)
    before = None if earlier is None else earlier.antecedents.width_limits
    if before is not None:
        # An earlier fit may have had wider limits, and an imported system sets of any width.
        limits = before.cpu().numpy()
        widths = joined_range(widths, np.stack([limits[0].min(axis=0), limits[1].max(axis=0)]))
    system.antecedents.set_range(*centers, *widths)

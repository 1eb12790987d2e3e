"""The structure of a system: the settings that shape it, its inputs and outputs, words of its terms, and what is frozen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deepfls._checks.arguments import check_count, check_option
from deepfls.estimators.settings import Settings
from deepfls.nn.constraints import separate_generator
from deepfls.nn.general import GT2FLS
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training import recipe

if TYPE_CHECKING:
    from deepfls.data.columns import Columns

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
            is_list = hasattr(chosen, "__len__") and not isinstance(chosen, str)
            if not is_list or len(chosen) != count or len(set(chosen)) != count:
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
        made: type[T1FLS | IT2FLS] = T1FLS
        tnorm = "htsk" if self.tnorm == "auto" else self.tnorm
        options: dict[str, Any] = {"n_rules": self.n_rules, "order": self.order, "tnorm": tnorm}
        options |= {"device": "cpu", "dtype": torch.float32}  # whatever torch's defaults are
        if self.kind == "gt2":
            for name in ("n_terms", "max_conditions"):
                if getattr(self, name) is not None:
                    got = f"got {getattr(self, name)}; kind='it2' or 't1' takes it."
                    raise ValueError(f"{name} must be None for kind='gt2', {got}")
            if check_count("n_planes", self.n_planes) == 1:
                raise ValueError("n_planes must be at least 2 for kind='gt2', got 1; kind='it2' is a system of one plane.")
            made = GT2FLS
            options |= {"n_planes": self.n_planes, "shared_spread": self.shared_spread}
        elif self.kind == "it2":
            made = IT2FLS
            options |= {"uncertainty": self.uncertainty, "type_reduction": self.type_reduction}
        if self.max_conditions is not None:
            check_count("max_conditions", self.max_conditions)
        with separate_generator():
            system = made(self.n_features, self.n_outputs, **options)
            if self.n_terms is not None:
                nothing = np.zeros((self.n_rules, self.n_features), dtype=np.int64)
                system.antecedents.share_terms(nothing, max(self.terms_per_input))
            elif self.max_conditions is not None:
                own = np.tile(np.arange(self.n_rules)[:, np.newaxis], (1, self.n_features))
                system.antecedents.share_terms(own, self.n_rules)
        if self.centers_within == "data" or self.n_terms is not None:
            system.antecedents.set_range(-1e30, 1e30)  # until the data are known
        return system


def structure_of(settings: Settings, n_features: int, n_outputs: int) -> Structure:
    """The structure of the system that these settings give."""
    names = {field.name for field in dataclasses.fields(Structure)} - {"n_features", "n_outputs"}
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return Structure(**chosen, n_features=n_features, n_outputs=n_outputs)


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
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != n_columns:
            raise ValueError(f"n_terms must be a number or have one for each of {n_columns} columns, got {given!r}.")
        spans = zip(given, columns.spans, strict=True)
        settings = replace(settings, n_terms=[count for count, (first, end) in spans for _ in range(first, end)])
    return structure_of(settings, columns.width, n_outputs)


# Rules and sets that stay as they are


def frozen_rule_numbers(frozen_rules: Any, n_rules: int) -> list[int]:
    """Numbers of rules, from 0, each checked."""
    given = [] if frozen_rules is None else frozen_rules if np.iterable(frozen_rules) else [frozen_rules]
    return [check_count("frozen_rules", rule, 0, n_rules - 1) for rule in given]


def frozen_masks(
    system: T1FLS | IT2FLS, settings: Settings, structure: Structure, names: Sequence[str]
) -> dict[str, Tensor]:
    """Of parameters by name, masks of the values that the settings freeze; empty where there are none."""
    rules = frozen_rule_numbers(settings.frozen_rules, structure.n_rules)
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


def _chosen_terms(settings: Settings, structure: Structure, names: Sequence[str]) -> list[tuple[int, Any]]:
    """Inputs and the places of their frozen sets."""
    given: Any = settings.frozen_terms
    if not isinstance(given, Mapping):
        return [(m, slice(None)) for m in (range(len(names)) if given is True else _places(given, names))]
    if structure.n_terms is None:
        raise ValueError("frozen_terms must be a list of inputs without n_terms, got a dict.")
    words = structure.term_words(settings.words, names)
    places = zip(_places(list(given), names), given.values(), strict=True)
    return [(m, _places(terms, words[m])) for m, terms in places]


def _places(chosen: Any, names: Sequence[str]) -> list[int]:
    """Places of what is chosen by name or by place, one or several."""
    return [
        names.index(check_option("frozen_terms", name, tuple(names)))
        if isinstance(name, str)
        else check_count("frozen_terms", name, 0, len(names) - 1)
        for name in ([chosen] if isinstance(chosen, (str, int)) else chosen)
    ]


def restore_frozen(system: T1FLS | IT2FLS, masks: Mapping[str, Tensor], earlier: T1FLS | IT2FLS) -> None:
    """Copy the frozen values from an earlier system, with all digits."""
    before = dict(earlier.named_parameters())
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            if name in masks:
                mask = masks[name].to(parameter.device)
                parameter[mask] = before[name].detach().to(parameter)[mask]

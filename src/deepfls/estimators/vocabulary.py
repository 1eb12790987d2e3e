"""Words for the terms that rules share, and the rules and sets that stay as they are while the rest of a system learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from deepfls._checks.values import check_count, check_option

if TYPE_CHECKING:
    from deepfls.estimators.settings import Settings
    from deepfls.estimators.structure import Structure
    from deepfls.nn.systems import IT2FLS, T1FLS

LABELS = ("very low", "low", "medium", "high", "very high")
_WORDS = {2: ("low", "high"), 3: LABELS[1:4], 4: ("very low", "low", "high", "very high"), 5: LABELS}


def names_of_inputs(feature_names: Sequence[str] | None, n_features: int) -> list[str]:
    """Names of the inputs: those given, or x0, x1 and so on."""
    return [f"x{m}" for m in range(n_features)] if feature_names is None else list(map(str, feature_names))


def term_words(structure: Structure, words: Mapping[str, Sequence[str]] | None, names: Sequence[str]) -> list[list[str]]:
    """Words for the terms of every input, from low to high; empty where every rule has sets of its own."""
    given = {} if words is None else dict(words)
    for name, chosen in given.items():
        place = names.index(check_option("words", name, tuple(names)))
        if structure.n_terms is None:
            raise ValueError("words must be given with n_terms, got n_terms=None.")
        count = structure.terms_per_input[place]
        if isinstance(chosen, str) or len(chosen) != count or len(set(chosen)) != count:
            raise ValueError(
                f"words must have {count} different words for {name!r}, which has {count} terms, got {chosen!r}."
            )
    return [
        list(given.get(name, _WORDS.get(count, [f"term {t + 1}" for t in range(count)] if count > 1 else ["medium"])))
        for name, count in zip(names, structure.terms_per_input, strict=False)
    ]


def rule_numbers(frozen_rules: Any, n_rules: int) -> list[int]:
    """Numbers of rules, from 0, each checked."""
    given = [] if frozen_rules is None else [frozen_rules] if isinstance(frozen_rules, int) else list(frozen_rules)
    return [check_count("frozen_rules", rule, 0, n_rules - 1) for rule in given]


def frozen_masks(
    system: T1FLS | IT2FLS, settings: Settings, structure: Structure, feature_names: Sequence[str] | None
) -> dict[str, Tensor]:
    """Of parameters by name, masks of the values that the settings freeze; empty where there are none."""
    rules = rule_numbers(settings.frozen_rules, structure.n_rules)
    antecedents = system.antecedents
    sets = torch.zeros(antecedents.n_sets, antecedents.n_features, dtype=torch.bool)
    if settings.frozen_terms is not None and settings.frozen_terms is not False:
        names = names_of_inputs(feature_names, structure.n_features)
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


def _chosen_terms(settings: Settings, structure: Structure, names: list[str]) -> list[tuple[int, list[int]]]:
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
    words = term_words(structure, settings.words, names)
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


def _place(name: Any, names: list[str]) -> int:
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

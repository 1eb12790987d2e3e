"""The structure of a system: the settings that shape it, its inputs and its outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepfls._checks.values import check_count, check_option
from deepfls.estimators.settings import Settings
from deepfls.nn.general import GT2FLS
from deepfls.nn.initial_values import separate_generator
from deepfls.nn.systems import IT2FLS, T1FLS
from deepfls.training.terms import terms_per_input

KINDS = ("t1", "it2", "gt2")
TNORMS = ("auto", "product", "htsk")
RANGES = ("data", "free")


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
        return terms_per_input(self.n_terms, self.n_features)

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

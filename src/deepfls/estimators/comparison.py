"""The comparison that chooses the settings of a fit, on training rows held out in turn.

For every fold systems are trained along the paths of :mod:`deepfls.training.recipe`, and a linear model beside them. The
smallest loss on the rows held out decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.optimize
import torch

from deepfls._checks.values import Array
from deepfls.estimators.choice import Choice, System, Task, array_of, choice_paths, inputs_of, mean_target
from deepfls.estimators.system_training import Run, correction_systems, trained_member
from deepfls.kernels.threads import in_threads
from deepfls.training import recipe
from deepfls.training.partition import takes_lines
from deepfls.training.steps import Rows

# Outputs of a run, for every fold those for the rows held out and then those for its training rows.
Outputs = list[Array]

# Systems that are trained for each comparison where a model has several.
_MOST_SYSTEMS = 3
# Fewest rows that are divided, and of the second most frequent class.
_FEWEST_ROWS, _FEWEST_OF_CLASS = 12, 4
# Largest mean number of copies of a row that are laid out.
_MOST_COPIES = 3
# Factor of the smallest loss on the first fold from which longer runs, and paths for little noise, are left out on others.
_RISEN = 1.1
# Folds that are compared where there is little noise: paths differ by more than their losses scatter, and runs are long.
_FEW_FOLDS = 2
# Weight, in rows, of a penalty on shares of logits that are not those of the line alone: where the rows held out are all
# classified correctly, steeper logits always lower their loss, and one row classified wrongly could cost any amount.
_SHARE_PENALTY = 2.0
# Shares of the system and of the line where the line stays alone.
_LINE_ALONE = np.array([0.0, 1.0])
# n_rules="auto" takes the fewest rules whose loss is within this factor of the smallest, and compares at this share of
# the epochs.
_ENOUGH, _COMPARED_SHARE = 1.02, 0.25
# Factor of the loss of the line below which a system is clearly better than it.
_CLEARLY = 0.5
# Corrections must be better by this factor: where they are left out, a second half of trained systems is better too. The
# losses of planes are those of absolute errors, of which half as much is as large a gain.
_BETTER, _BETTER_PLANES = 0.95, 0.975


def chosen_settings(run: Run, rows: Rows, random: np.random.RandomState) -> Choice | None:
    """The choice for the scaled rows of a fit; None where they are too few to hold some out.

    The settings of the run are those for all rows; of more rows than :data:`recipe.CHOICE_ROWS` a sample is used. With
    several systems it is their mean that is compared: what a mean of systems needs least is that each of them is smooth.
    """
    settings, task, n_rows = run.settings, run.task, len(rows)
    restricted = (settings.n_terms, settings.max_conditions, settings.frozen_rules, settings.frozen_terms)
    is_free = settings.epochs == "auto" and all(value is None for value in restricted)
    usual_start = (settings.centers, settings.consequents, settings.width) == ("kmeans", "ridge", "auto")
    has_lines = settings.order == 1 and takes_lines(rows.n_features, rows.n_targets)
    may_grow = is_free and usual_start and has_lines and run.learns_means
    paths = choice_paths(settings, run.config, n_rows, may_grow=may_grow)
    may_correct = is_free and settings.n_systems > 1 and n_rows >= recipe.CORRECTION_ROWS
    corrects = may_correct and (run.learns_means or task.planes)
    numbers = recipe.rule_numbers(n_rows) if settings.n_rules == "auto" else (run.structure.n_rules,)

    seed = int(random.randint(2**31 - 1))
    rows = _with_copies(rows)
    order = np.random.RandomState(seed).permutation(len(rows))[: recipe.CHOICE_ROWS]
    if len(order) < len(rows):
        size = recipe.batch_size(len(order))
        config = dataclasses.replace(run.config, batch_size=size, epochs=recipe.epochs(len(order), size))
        run = dataclasses.replace(run, config=config)
    folds = list(_folds(rows, order, task))
    if not folds:
        return None
    held = _HeldOut(run, rows, folds, seed)
    return held.best(held.fewest_rules(numbers, paths[0]), paths, corrects=corrects)


def _folds(rows: Rows, order: Array, task: Task) -> Iterator[tuple[Array, Array]]:
    """Places of the training rows and of the rows held out; classes are divided evenly. None where rows are too few."""
    if len(order) < _FEWEST_ROWS:
        return
    if task.n_classes is not None:
        classes = array_of(rows.target)[order, 0]
        counts = np.sort(np.bincount(classes.astype(np.int64)))
        if len(counts) < 2 or counts[-2] < _FEWEST_OF_CLASS:
            return
        order = order[np.argsort(classes, kind="stable")]
    n_parts, n_held = recipe.fold_shares(len(order))
    part = np.arange(len(order)) % n_parts
    for number in range(n_held):
        yield np.sort(order[part != number]), np.sort(order[part == number])


class _HeldOut:
    """Rows held out, their linear predictions, and the losses of systems on them."""

    def __init__(self, run: Run, rows: Rows, folds: list[tuple[Array, Array]], seed: int) -> None:
        self._run, self._task, self._seed = run, run.task, seed
        self._mean = mean_target(rows)
        self._parts = [(_taken(rows, kept), _taken(rows, held)) for kept, held in folds]
        together = _taken(rows, np.concatenate([held for _, held in folds]))
        self._target = together.target.cpu().double()
        self._weight = None if together.weight is None else together.weight.cpu().double()
        lines: list[list[Array]] = [
            [line(inputs_of(held)) for line in self._task.lines(kept)] if self._task.mixed else []
            for kept, held in self._parts
        ]
        joined = [np.concatenate(parts) for parts in zip(*lines, strict=True)]
        losses = [self._loss(outputs) for outputs in joined]
        # A larger penalty must be better than the smallest one on every fold: few rows far from the others would decide.
        of_folds = [[self._loss(o, first) for o in outputs] for outputs, first in zip(lines, self._firsts, strict=True)]
        usable = [k == 0 or all(fold[k] < fold[0] for fold in of_folds) for k in range(len(losses))]
        self._penalty = int(np.argmin(np.where(usable, losses, np.inf))) if losses else 0
        self._line = joined[self._penalty] if joined else None
        self._line_loss = losses[self._penalty] if losses else float("inf")

    @property
    def _firsts(self) -> Array:
        """Places of the first rows of the folds among the rows held out."""
        return np.cumsum([0, *(len(held) for _, held in self._parts)])[:-1]

    def _loss(self, outputs: Array, first: int = 0) -> float:
        """Mean loss of outputs (rows, outputs) for as many of the rows held out, from ``first`` on."""
        places = slice(first, first + len(outputs))
        target = self._target[places]
        weight = None if self._weight is None else self._weight[places]
        losses = self._task.losses(torch.from_numpy(outputs), target, self._run.config.point_loss())
        if losses.ndim:
            losses = losses.flatten(1).mean(dim=1) if losses.ndim > 1 else losses
            losses = losses.mean() if weight is None else (losses * weight).mean()
        return float(losses)

    def _finite_loss(self, outputs: Array) -> float:
        """The loss; infinite where an output is not finite."""
        return self._loss(outputs) if np.isfinite(outputs).all() else float("inf")

    def _outputs(self, n_rules: int, path: recipe.Path, best: Outputs | None = None) -> dict[float, Outputs]:
        """Mean outputs of systems by the shares of the epochs; none if they are clearly worse than ``best`` at first."""
        epochs = {max(1, round(share * self._run.config.epochs)): share for share in path.shares}
        found: dict[float, Outputs] = {}
        choice = Choice(n_rules, path, max(path.shares))
        for place, (kept, held) in enumerate(self._parts):
            for share, outputs in self._fold_outputs(kept, held, choice, epochs).items():
                found.setdefault(share, []).append(outputs)
            if place == 0 and len(self._parts) > 1:
                losses = {share: self._finite_loss(outputs[0][: len(held)]) for share, outputs in found.items()}
                if best is not None and min(losses.values(), default=np.inf) > _RISEN * self._loss(best[0][: len(held)]):
                    return {}
                longest = _useful_share(losses)
                epochs = {epoch: share for epoch, share in epochs.items() if share <= longest}
                choice = dataclasses.replace(choice, epoch_share=longest)
        return {share: outputs for share, outputs in found.items() if len(outputs) == len(self._parts)}

    def _keep_folds(self, number: int) -> None:
        """Leave out the other folds."""
        self._parts = self._parts[:number]
        n_rows = sum(len(held) for _, held in self._parts)
        self._target = self._target[:n_rows]
        self._weight = None if self._weight is None else self._weight[:n_rows]
        if self._line is not None:
            self._line = self._line[:n_rows]
            self._line_loss = self._loss(self._line)

    def _fold_outputs(self, kept: Rows, held: Rows, choice: Choice, epochs: dict[int, float]) -> dict[float, Array]:
        """Mean outputs of systems trained on ``kept``, for the rows held out and then for these, by shares of epochs."""
        run, x = self._run.with_choice(choice), torch.cat([held.x, kept.x])

        def outputs_of_system(number: int, watch: Callable[[int], None]) -> dict[float, Array]:
            seen: dict[float, Array] = {}

            def note(epoch: int, system: System) -> None:
                watch(epoch)
                if epoch in epochs:
                    seen[epochs[epoch]] = self._task.outputs(system, x)

            random = np.random.RandomState((self._seed + number) % 2**32)
            member = trained_member(run, kept, random, watch=note, warns=False)
            if member.result.stopped_by == "interrupt":
                raise KeyboardInterrupt  # nothing is trained yet that could be kept
            return seen

        found = in_threads(outputs_of_system, range(min(run.settings.n_systems, _MOST_SYSTEMS)))
        shares = (share for share in found[0] if all(share in one for one in found))
        return {share: np.mean([one[share] for one in found], axis=0) for share in shares}

    def _held_out(self, outputs: Outputs, corrected_rules: int | None = None) -> Array:
        """Outputs for the rows held out; with ``corrected_rules`` plus those of corrections with this number of rules.

        The corrections follow from the outputs for the training rows.
        """
        parts = []
        for (kept, held), found in zip(self._parts, outputs, strict=True):
            parts.append(found[: len(held)])
            if corrected_rules is not None:
                middles = torch.from_numpy(self._task.middles(found[len(held) :])).to(kept.target)
                run = self._run.with_choice(Choice(corrected_rules))
                added = correction_systems(run, kept, middles, np.random.RandomState(self._seed))
                parts[-1] = sum((self._task.outputs(system, held.x) for system in added), start=parts[-1])
        return np.concatenate(parts)

    def fewest_rules(self, numbers: tuple[int, ...], path: recipe.Path) -> int:
        """The fewest rules that are nearly as good as the best number."""
        if len(numbers) == 1:
            return numbers[0]
        share = max((share for share in path.shares if share <= _COMPARED_SHARE), default=path.shares[-1])
        path = dataclasses.replace(path, shares=(share,))
        losses = []
        for n_rules in numbers:
            outputs = self._outputs(n_rules, path)
            losses.append(min((self._mixed(self._held_out(found))["loss"] for found in outputs.values()), default=np.inf))
        enough = min(losses) * (_ENOUGH if min(losses) > 0 else 1.0)
        return next(n_rules for n_rules, loss in zip(numbers, losses, strict=True) if loss <= enough)

    def best(self, n_rules: int, paths: tuple[recipe.Path, ...], *, corrects: bool) -> Choice:
        """The path, epochs and shares with the smallest loss, and whether corrections lower it."""
        best = Choice(n_rules, loss=float("inf"))
        winner: Outputs | None = None
        from_kmeans = best, winner  # the best so far when a run from a tree is taken
        for path in paths:
            if best.loss > path.below:
                continue
            # The runs for little noise are long. Losses of classes scatter more, so these are compared on all folds.
            is_long = winner is not None and np.isfinite(path.below) and self._task.n_classes is None
            if winner is not None and is_long and len(self._parts) > _FEW_FOLDS:
                self._keep_folds(_FEW_FOLDS)
                winner = winner[:_FEW_FOLDS]
                best = dataclasses.replace(best, **self._mixed(self._held_out(winner)))
            needed, kept = path.factor * best.loss, None
            for share, parts in self._outputs(n_rules, path, winner if is_long else None).items():
                mixed = self._mixed(self._held_out(parts))
                if mixed["loss"] < needed:
                    needed, found, longest, kept = mixed["loss"], mixed, share, parts
            if kept is not None:
                from_kmeans = (best, winner) if path.tree else from_kmeans
                best, winner = Choice(n_rules, path, longest, penalty=self._penalty, **found), kept
        # Trees of corrections find what a tree as a starting point finds: they add more to systems from k-means.
        choice, parts_of_choice = from_kmeans if best.path.tree else (best, winner)
        if corrects and parts_of_choice is not None:
            outputs = self._held_out(parts_of_choice, n_rules)
            found = self._narrowed(outputs) if self._task.planes else self._mixed(outputs)
            if found["loss"] < (_BETTER_PLANES if self._task.planes else _BETTER) * best.loss:
                best = dataclasses.replace(choice, corrected=True, **found)
        return dataclasses.replace(best, line_loss=self._line_loss, n_held_out=len(self._target))

    def _mixed(self, outputs: Array) -> dict[str, Any]:
        """Fields of a choice: the shares of a system and the line, and the loss of their mixture."""
        if self._line is None or not np.isfinite(outputs).all():
            return {"loss": self._finite_loss(outputs), "system_share": 1.0, "line_share": 0.0}
        is_number = self._task.n_classes is None
        own, other = (self._number_shares if is_number else self._class_shares)(outputs, self._line)
        rest = (1.0 - own - other) * self._mean if is_number else 0.0
        mixture = own * outputs + other * self._line + rest
        loss, pure = self._loss(mixture), self._loss(outputs)
        # Systems of the folds learn from fewer rows than the final one, so their best share is smaller than its best share.
        if is_number and pure <= _ENOUGH * loss and loss < _CLEARLY * self._line_loss:
            return {"loss": pure, "system_share": 1.0, "line_share": 0.0}
        return {"loss": loss, "system_share": own, "line_share": other}

    def _narrowed(self, outputs: Array) -> dict[str, Any]:
        """Fields of a choice: the smallest loss of planes of a share of their widths, and that share.

        Planes are trained before corrections, and are too wide after them.
        """
        if not np.isfinite(outputs).all():
            return {"loss": float("inf")}
        found = scipy.optimize.minimize_scalar(
            lambda share: self._loss(self._task.narrowed(outputs, share)),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 0.01, "maxiter": 20},
        )
        return {"loss": float(found.fun), "plane_share": float(found.x)}

    def _number_shares(self, outputs: Array, line: Array) -> tuple[Array, Array]:
        """Shares of a system and a line (outputs,): the means of those that fit each fold best.

        Of all rows together, few that lie far from the others would decide. For the same reason the line stays alone
        unless the shares of the other folds are better than it on most folds, and the mean shares on all rows.
        """
        # What the shares leave to 1 is that of the mean of the targets.
        target, outputs, line = (values - self._mean for values in (self._target.numpy(), outputs, line))
        root = np.ones(len(target)) if self._weight is None else np.sqrt(self._weight.numpy())
        firsts = self._firsts[1:]
        shares = []
        for k in range(target.shape[1]):
            terms = np.stack([outputs[:, k], line[:, k]], axis=1) * root[:, None]
            folds = list(zip(np.split(terms, firsts), np.split(target[:, k] * root, firsts), strict=True))
            found = np.array([_best_shares(*fold) for fold in folds])
            mean = found.mean(axis=0)
            others = (found.sum(axis=0) - found) / (len(folds) - 1) if len(folds) > 1 else found
            alone = [_squares(_LINE_ALONE, *fold) for fold in folds]
            is_better = [_squares(share, *fold) < error for share, fold, error in zip(others, folds, alone, strict=True)]
            mixed = 2 * sum(is_better) > len(folds) and sum(_squares(mean, *fold) for fold in folds) < sum(alone)
            shares.append(mean if mixed else _LINE_ALONE)
        own, other = np.transpose(shares)
        return own, other

    def _class_shares(self, outputs: Array, line: Array) -> tuple[Array, Array]:
        """Shares of the logits of a system and of a line, the same for all classes, by the cross-entropy."""
        target = self._target.numpy()[:, 0].astype(np.int64)
        weight = np.ones(len(target)) if self._weight is None else self._weight.numpy()
        terms = np.stack([outputs, line])
        of_class = terms[:, np.arange(len(target)), target]

        def loss(shares: Array) -> tuple[float, Array]:
            logits = np.tensordot(shares, terms, axes=1)
            logits -= logits.max(axis=1, keepdims=True)
            odds = np.exp(logits)
            total = odds.sum(axis=1, keepdims=True)
            losses = np.log(total[:, 0]) - logits[np.arange(len(target)), target]
            slopes = (odds / total * terms).sum(axis=2) - of_class
            far = shares - _LINE_ALONE
            penalty = _SHARE_PENALTY * float(far @ far)
            return float(losses @ weight) + penalty, slopes @ weight + 2.0 * _SHARE_PENALTY * far

        bounds = [(0.0, None)] * 2
        found = scipy.optimize.minimize(loss, np.array([0.5, 0.5]), jac=True, bounds=bounds, method="L-BFGS-B").x
        own, other = (np.full(outputs.shape[1], share) for share in found)
        return own, other


def _best_shares(terms: Array, target: Array) -> Array:
    """Shares of two terms (rows, 2): at least 0, together at most 1, by least squares."""
    found, _ = scipy.optimize.nnls(terms, target)
    if found.sum() > 1.0:
        step = terms[:, 0] - terms[:, 1]
        own = np.clip(step @ (target - terms[:, 1]) / max(float(step @ step), 1e-300), 0.0, 1.0)
        found = np.array([own, 1.0 - own])
    return np.asarray(found)


def _squares(shares: Array, terms: Array, target: Array) -> float:
    """Squared errors of shares of two terms (rows, 2)."""
    return float(np.sum((terms @ shares - target) ** 2))


def _useful_share(losses: dict[float, float]) -> float:
    """The largest share of the epochs that the other folds train for, from the losses on the first one.

    Beyond twice the best share only if the loss has not risen by much: where it has, the system memorises its rows.
    """
    best = min(losses, key=lambda share: losses[share], default=1.0)
    least = losses.get(best, np.inf)
    if not np.isfinite(least):
        return 1.0
    return max(share for share in losses if share <= 2.1 * best or losses[share] <= _RISEN * least)


def _with_copies(rows: Rows) -> Rows:
    """Rows whose weights are multiples of the smallest one, each as that many copies.

    A fit merges equal rows. New rows may equal training rows as often as these equal each other, and a choice has to see
    that: copies may lie on both sides of a fold.
    """
    if rows.weight is None:
        return rows
    weight = array_of(rows.weight)
    copies = np.rint(weight / weight[weight > 0].min(initial=np.inf)) if (weight > 0).any() else np.ones(len(rows))
    whole = np.allclose(copies * weight[weight > 0].min(initial=np.inf), weight, rtol=1e-4)
    if not whole or copies.sum() > _MOST_COPIES * len(rows):
        return rows
    places = torch.from_numpy(np.repeat(np.arange(len(rows)), copies.astype(np.int64)))
    return Rows(rows.packed[places][:, :-1].contiguous(), rows.n_features, rows.n_targets)


def _taken(rows: Rows, places: Array) -> Rows:
    return Rows(rows.packed[torch.from_numpy(places)], rows.n_features, rows.n_targets)

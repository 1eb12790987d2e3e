"""From a system and a loss to compiled calls: what is served, in which layout, on how many threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from deepfls.functional import losses
from deepfls.kernels.switch import can_compile
from deepfls.kernels.threads import n_parts_of, one_blas_thread, over_parts

Array = np.ndarray[Any, np.dtype[Any]]

# Rows of a block: few enough that the numbers of all rules stay in the second-level cache. Each divides the first.
_BLOCK_ROWS, _BLOCK_NUMBERS = (128, 64, 32), 8192
# Rows whose products are so small that BLAS takes one thread by itself.
_SMALL_WORK = 100_000

_REDUCTIONS = {"km": 0, "nt": 1, "bmm": 2, "sm": 3}
# Code and option of the losses that have a compiled slope.
_LOSSES: dict[Callable[..., Tensor], tuple[int, str, float]] = {
    losses.l2: (0, "", 0.0),
    losses.l1: (1, "", 0.0),
    losses.huber: (2, "delta", 1.0),
    losses.log_cosh: (3, "", 0.0),
    losses.pinball: (4, "quantile", 0.5),
    losses.cross_entropy: (5, "", 0.0),
}


@dataclass(frozen=True)
class SystemForm:
    """What the kernels have to know of a system: its sizes, its options, and the names of its raw parameters.

    ``parameters`` maps the fields of the kernels' record (centers, sigmas, spreads, heights, intercepts, slopes, mix) to
    the names of the parameters in the system.
    """

    n_features: int
    n_rules: int
    n_outputs: int
    order: int
    is_interval: bool
    type_reduction: str
    share: float
    of_paper: bool
    parameters: Mapping[str, str]


class _System(Protocol):
    """A module that can describe itself to the kernels; ``form`` is None where they do not serve it as it is."""

    def form(self) -> SystemForm | None: ...

    def named_parameters(self) -> Any: ...


def compiled_step(
    system: _System, loss: Callable[..., Tensor], offsets: Mapping[str, int] | None = None
) -> CompiledStep | None:
    """The training step of a system with a loss, compiled; None where there is none.

    Parameters
    ----------
    system : T1FLS or IT2FLS
        Only its form is read. None for other devices and dtypes, tracing, hooks, modified or tied parts.
    loss : callable
        One of :mod:`deepfls.functional.losses`, its options bound or not; None for others.
    offsets : mapping, optional
        Where each named parameter begins in the flat vector; by default they follow each other as in
        ``system.named_parameters()``.
    """
    form = _served_form(system)
    if form is None or any(_is_hooked(parameter) for _, parameter in system.named_parameters()):
        return None
    settings = _loss_settings(loss, form)
    return None if settings is None else CompiledStep(form, settings, offsets or _offsets_of(system))


def compiled_outputs(system: _System) -> CompiledOutputs | None:
    """The outputs of a system without gradients, compiled; None where :func:`compiled_step` would be."""
    form = _served_form(system)
    return None if form is None else CompiledOutputs(form, system)


def _served_form(system: _System) -> SystemForm | None:
    form = system.form()
    if form is None or not can_compile(*(parameter for _, parameter in system.named_parameters())):
        return None
    # A parameter in two places has one name only.
    return form if set(form.parameters.values()) <= {name for name, _ in system.named_parameters()} else None


def _is_hooked(parameter: nn.Parameter) -> bool:
    # torch has no public way to ask for the hooks of a tensor.
    return bool(parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _offsets_of(system: _System) -> dict[str, int]:
    offsets, place = {}, 0
    for name, parameter in system.named_parameters():
        offsets[name], place = place, place + parameter.numel()
    return offsets


def _loss_settings(loss: Callable[..., Tensor], form: SystemForm) -> dict[str, float] | None:
    """Fields of the record that describe a loss; None for one without a compiled slope."""
    if isinstance(loss, losses.SetLoss):
        point = None if loss.point is losses.cross_entropy else _loss_settings(loss.point, form)
        # A Type-1 system has no set to train: the plain operations raise the error.
        if point is None or not form.is_interval:
            return None
        return point | {"trains_set": 1, "tail": 0.5 * (1.0 - loss.coverage), "set_weight": loss.weight}
    function, options = (loss.func, loss.keywords) if isinstance(loss, functools.partial) and not loss.args else (loss, {})
    found = next((entry for known, entry in _LOSSES.items() if known is function), None)  # it need not be hashable
    if found is None:
        return None
    code, name, default = found
    n_targets = 1 if function is losses.cross_entropy else form.n_outputs
    return {"loss": code, "option": options.get(name, default), "n_targets": n_targets}


class _Compiled:
    """The record of a system, and scratch for the threads that run it."""

    def __init__(self, form: SystemForm, offsets: Mapping[str, int], settings: Mapping[str, float]) -> None:
        from deepfls.kernels import step  # here: Numba is slow to import
        from deepfls.kernels.parameters import FORM

        self._kernel, self._sizes = step.run_rows, step.scratch_sizes
        self._record = np.zeros(1, FORM)
        fields = {
            "n_features": form.n_features,
            "n_rules": form.n_rules,
            "n_outputs": form.n_outputs,
            "order": form.order,
            "interval": form.is_interval,
            "with_spreads": "spreads" in form.parameters,
            "with_heights": "heights" in form.parameters,
            "of_paper": form.of_paper,
            "reduction": _REDUCTIONS[form.type_reduction],
            "share": form.share,
            **{field: offsets[name] for field, name in form.parameters.items()},
            **settings,
        }
        for name, value in fields.items():
            self._record[name] = value
        n_forms = 4 if "spreads" in form.parameters else 2
        self._work_per_row = form.n_rules * form.n_features * (n_forms + form.n_outputs)

    def _scratch(self, dtype: Any, n_rows: int = _BLOCK_ROWS[0]) -> tuple[Array, Array, Array, Array]:
        """The record with the size of a block, and memory for passes over rows, or over ``n_rows`` if these are few."""
        record = self._record.copy()
        block = next((n for n in _BLOCK_ROWS if n * int(record["n_rules"][0]) <= _BLOCK_NUMBERS), _BLOCK_ROWS[-1])
        record["block"] = min(block, max(n_rows, 1))
        n_memory, n_doubles, n_bits = self._sizes(record)
        return record, np.empty(n_memory, dtype), np.empty(n_doubles), np.empty(n_bits, np.int64)


class CompiledStep(_Compiled):
    """Mean loss of a batch and its gradient: one compiled call for each thread.

    Small batches run in one thread. Callers hold BLAS at one thread, :func:`one_blas_thread`, around many steps.
    """

    def __init__(self, form: SystemForm, settings: Mapping[str, float], offsets: Mapping[str, int]) -> None:
        super().__init__(form, offsets, settings)
        self.n_targets = int(settings["n_targets"])
        self._memory: list[tuple[Any, ...]] = []
        self._gradients: list[Array] = []

    def __call__(
        self, theta: Array, gradient: Array, rows: Array, order: Array, first: int, n_rows: int, share: float = 1.0
    ) -> float:
        """``share`` times the mean loss over rows and outputs; its gradient is written to ``gradient``.

        Parameters
        ----------
        theta, gradient : ndarray, shape (parameters,)
        rows : ndarray, shape (any, features + targets), or with a column of weights behind
            A packed table, contiguous, in the dtype of theta.
        order : ndarray of int64
            Places of rows in the table, or empty for rows in their own order; ``n_rows`` from ``first`` on are used.
        share : float
            Factor of loss and gradient.
        """
        n_parts = n_parts_of(n_rows, self._work_per_row)
        while len(self._memory) < n_parts:
            record, *scratch = self._scratch(theta.dtype)
            self._memory.append((record, np.empty((0, 3, 1), theta.dtype), *scratch))
            self._gradients.append(np.empty_like(gradient))
        scale = share / (n_rows * self.n_targets)
        if n_parts == 1:
            return self._kernel(theta, gradient, rows, order, first, n_rows, scale, *self._memory[0])

        def run(part: int, begin: int, end: int) -> float:
            target = gradient if part == 0 else self._gradients[part]
            return self._kernel(theta, target, rows, order, first + begin, end - begin, scale, *self._memory[part])

        losses_of_parts = over_parts(run, n_rows, n_parts)
        for part in self._gradients[1:n_parts]:
            gradient += part
        return sum(losses_of_parts)


class CompiledOutputs(_Compiled):
    """Ends of the type-reduced set and the crisp output of rows, in one compiled call for each thread."""

    def __init__(self, form: SystemForm, system: _System) -> None:
        super().__init__(form, _offsets_of(system), {})
        self._parameters = [parameter for _, parameter in system.named_parameters()]
        self._shape = (3, form.n_outputs)

    def __call__(self, x: Array) -> Array:
        """(rows, 3, outputs): y_left, y_right and y, all three equal for Type-1 systems, of rows x (rows, features)."""
        theta = nn.utils.parameters_to_vector(self._parameters).detach().numpy()
        x = np.ascontiguousarray(x, theta.dtype)
        results = np.empty((len(x), *self._shape), theta.dtype)
        nothing, no_order = np.empty(0, theta.dtype), np.empty(0, np.int64)

        def run(_: int, begin: int, end: int) -> None:
            record, *scratch = self._scratch(theta.dtype, end - begin)
            self._kernel(theta, nothing, x, no_order, begin, end - begin, 0.0, record, results[begin:end], *scratch)

        if len(x) * self._work_per_row < _SMALL_WORK:  # BLAS takes one thread by itself
            run(0, 0, len(x))
        else:
            with one_blas_thread():
                # Blocks then have the same bounds for any number of threads, and the products the same bits.
                over_parts(run, len(x), n_parts_of(len(x), self._work_per_row), _BLOCK_ROWS[0])
        return results

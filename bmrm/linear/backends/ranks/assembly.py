"""The backend of several ranks: thin layers over the classes that a single process uses.

Rows of X are spread over the ranks, and so are the columns of the bundle's cuts: a rank adds up what all
ranks found for its columns of a new cut, and multiplies its columns for the Gram matrix. Weights are on every
rank. So nothing that grows with rows times ranks, or with cuts times columns, is stored or computed twice.

The risk is split into blocks by the number of a row among all rows, not by rank. So the blocks, and hence the
cuts, are the same with any number of ranks, except for rounding.

If weights are owned (``owned.py``), they are distributed like the columns of the cuts.

If Newton or interior-point steps may be taken, X is narrow or dense, and a gradient has hundreds or thousands
of numbers. Every rank then has all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base import interrupts
from bmrm.base.labels import Labels, distinct
from bmrm.base.offsets import add_offset
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import fill_idle_labels
from bmrm.distributed.exchange import Exchange
from bmrm.distributed.group import Group
from bmrm.distributed.shard import Shard
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.linear.backends.facts import facts_of
from bmrm.linear.backends.gpu.cuts import gpu_cuts
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.backends.host.passes import class_intercepts
from bmrm.linear.backends.ranks.cuts import SplitCuts
from bmrm.linear.backends.ranks.joint import remote_risk
from bmrm.linear.backends.ranks.owned import OwnedCuts, OwnedObjective, OwnedOperator, OwnedPasses
from bmrm.linear.backends.ranks.passes import RankPasses, RanksObjective, RanksOperator, SummedRisk
from bmrm.linear.backends.ranks.penalty import OwnedPenalty
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.blocks import block_starts, group_borders, runs
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Iterate, Passes
from bmrm.linear.plan import Facts, Plan
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.settings import Settings
from bmrm.losses import Loss
from bmrm.losses.base import RowRisk
from bmrm.losses.joint import JointLoss
from bmrm.losses.labels import append_labels, convert_label_sets, distinct_labels, encode
from bmrm.losses.multiclass import ClassLoss
from bmrm.losses.offset import with_offset
from bmrm.matrix.adapted import MatrixAdapter


class RanksBackend:
    """`bmrm.linear.backends.base.Backend` if the rows are on several ranks."""

    def __init__(self, data: Shard) -> None:
        self.data, self.group = data, data.group

    @property
    def prints(self) -> bool:
        """Whether this rank is the one that prints."""
        return bool(self.group.rank == 0)

    def labels(self, loss: Loss) -> tuple[Vector, Labels | None]:
        """Encode the labels of this rank's rows, by the classes of all ranks."""
        if not (loss.by_rows or isinstance(loss, JointLoss)):
            raise ParameterError(
                f"loss {loss.name}: is not a sum over rows, so it cannot train on several ranks; use one"
            )
        group, y, m, weights = self.group, self.data.y, self.data.matrix.shape[0], self.data.weights
        if loss.task in ("regression", "novelty"):
            with group.together():
                return encode(y, m, loss, weights)
        counts = weights is None or weights.any()
        with group.together():
            if counts:
                y = convert_label_sets(fill_idle_labels(y, m, weights), loss)
            found = distinct_labels(y, m, loss, weights)
            if loss.task == "count" and found is not None:  # at least one rank must have a count above 0
                found = found[-1:]
        own = None if not counts else y.shape[1:] if isinstance(y, np.ndarray) else ()
        widths = {width for width in group.everyones(own) if width is not None}
        if len(widths) > 1:
            raise DataError(
                f"labels: found rows of {min(widths)} on one rank and of {max(widths)} on another"
            )
        everyones = distinct([labels for labels in group.everyones(found) if labels is not None])
        with group.together():
            # One extra row per class of all ranks, so that this rank knows classes that it has no rows of.
            more = len(everyones)
            if not counts:
                width = widths.pop()
                y = np.zeros((m, *width)) if width else np.repeat(everyones[:1], m)
            weights = None if weights is None else np.append(weights, np.ones(more))
            coded, classes = encode(append_labels(y, everyones), m + more, loss, weights)
        return coded[:m], classes

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        """Return the operator of all rows."""
        if not self.data.owned:
            return RanksOperator(self.group, operator)
        return OwnedOperator(self.group, operator, self._exchange(operator))

    def _exchange(self, operator: MatrixAdapter) -> Exchange:
        return self.data.exchange(operator.n_outputs, constant=operator.constant is not None)

    def penalty(self, reg: Regularizer, operator: MatrixAdapter) -> Regularizer:
        """Return this rank's part of the penalty if weights are owned."""
        if not self.data.owned:
            return reg
        return OwnedPenalty.part_of(reg, self.group, self._exchange(operator).bounds)

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return the weighted mean of the lower bounds of the ranks' risks."""
        group, data = self.group, self.data
        own = float(len(labels)) if data.weights is None else float(data.weights.sum())
        least = loss.floor(labels, data.weights) if own > 0.0 else 0.0
        found = group.parts(np.array([own, least]))
        some = found[found[:, 0] > 0.0]
        return float((some[:, 0] * some[:, 1]).sum() / some[:, 0].sum())

    def thresholds(self, loss: Loss, margins: Any, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit all ranks' margins."""
        if loss.task != "ordinal":
            return None
        group, weights = self.group, self.data.weights
        margins = add_offset(margins, self.data.offset)
        whole = group.everyones((margins, labels, np.ones(len(labels)) if weights is None else weights))
        return loss.thresholds(*(np.concatenate(arrays) for arrays in zip(*whole, strict=True)))

    def block_borders(self, loss: Loss) -> Indices | None:
        """Return the rows of all ranks that a block with a cut of its own may begin with; None for any."""
        if loss.by_rows:
            return None
        data, total = self.data, sum(self.data.rows)
        if not loss.needs_groups or data.groups is None:
            return np.array([0, total])
        groups, firsts = runs(data.groups)
        everyones = self.group.everyones((groups, firsts + sum(data.rows[: self.group.rank])))
        groups, firsts = (np.concatenate(arrays) for arrays in zip(*everyones, strict=True))
        return group_borders(groups, firsts, total)

    def facts(self, problem: TrainingProblem) -> Facts:
        """Return what the plan of a problem rests on; all ranks must call this at the same time."""
        of_problem = problem.operator, problem.loss, problem.penalty, problem.intercept
        return facts_of(self.data, *of_problem, problem.block_borders)

    def build(
        self, problem: TrainingProblem, plan: Plan, warm_bundle: Bundle | None
    ) -> tuple[Objective, CutStore]:
        """Keep margins where the rows are, weights on every rank or owned, and the columns of cuts spread.

        Each rank has whole cuts if the plan says so; there are few columns then, or each rank solves the same
        inner problem of a penalty.
        """
        data, group, operator = self.data, self.group, problem.operator
        assert isinstance(operator, RanksOperator)
        cuts = block_starts(sum(data.rows), plan.blocks, problem.block_borders)
        starts, operator.reach = _spread_blocks(cuts, data.rows)
        place = self._owned if data.owned else self._on_gpus if plan.on_gpu else self._replicated
        passes, store = place(problem, plan, warm_bundle)
        objective: RanksObjective = (OwnedObjective if data.owned else RanksObjective)(
            operator,
            passes,
            problem.loss,
            problem.penalty,
            profile=problem.intercept.free,
            blocks=plan.blocks,
            columns=problem.margins_per_row,
            classes=class_intercepts(problem, passes),
        )
        if isinstance(objective, OwnedObjective):
            objective.data = data
        objective.starts = problem.margins_per_row * starts[group.rank]
        return objective, store

    def _replicated(
        self, problem: TrainingProblem, plan: Plan, warm: Bundle | None
    ) -> tuple[Passes, CutStore]:
        """Keep weights on every rank, and cuts whole or with their columns spread."""
        group, operator, threads = self.group, problem.operator, self.data.threads
        assert isinstance(operator, RanksOperator)
        d = operator.shape[1]
        operator.bounds = group.split(d) if plan.split_cuts else None
        passes = RankPasses(operator, self._risk(problem), threads=threads, hessian=plan.hessian)
        if warm is not None:
            return passes, warm.store
        if operator.bounds is None:
            return passes, HostCuts(d, threads, problem.penalty.metric)
        return passes, SplitCuts(group, operator.bounds, threads)

    def _owned(self, problem: TrainingProblem, plan: Plan, warm: Bundle | None) -> tuple[Passes, CutStore]:
        """Keep of weights and cuts the columns of this rank."""
        operator, penalty, threads = problem.operator, problem.penalty, self.data.threads
        assert isinstance(operator, OwnedOperator)
        passes = OwnedPasses(operator, self._risk(problem), threads=threads)
        if warm is not None:
            return passes, warm.store
        assert isinstance(penalty, OwnedPenalty)
        return passes, OwnedCuts(self.group, operator.exchange.bounds, threads, penalty.metric)

    def _risk(self, problem: TrainingProblem) -> RowRisk:
        """Bind the loss to the labels, weights and offsets of all ranks' rows."""
        data, group, loss, labels = self.data, self.group, problem.loss, problem.labels
        if isinstance(loss, JointLoss):
            of_rows = labels, data.weights, problem.offset, data.groups
            return remote_risk(group, loss, *of_rows, data.threads)
        bound = labels, data.weights, 1.0 / data.total_weight, data.threads
        # A rank may have no row of the last classes.
        n_outputs = problem.n_outputs
        risk = loss.bind(*bound, n_outputs) if isinstance(loss, ClassLoss) else loss.risk(*bound)
        return SummedRisk(group, with_offset(risk, problem.offset))

    def _on_gpus(self, problem: TrainingProblem, plan: Plan, warm: Bundle | None) -> tuple[Passes, CutStore]:
        """Keep margins where the rows are, on the ranks' GPUs, and weights and cuts on each."""
        from bmrm.linear.backends.ranks.gpu import shared_passes

        data, scale, scaling = self.data, 1.0 / self.data.total_weight, problem.intercept.scaling
        of_loss = problem.loss, problem.labels, problem.offset
        cuts = gpu_cuts(data, problem.operator, *of_loss, scale, scaling, warm, in_rows=False)
        passes = GpuPasses(cuts, ahead=plan.blocks == 1)
        if warm is None and self.group.size > 1:
            passes = shared_passes(data.links(), passes)
        return passes, passes.cuts

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Return sums over the rows of all ranks, and the largest numbers."""
        largest = [max(of) for of in zip(*self.group.everyones(most), strict=True)]
        return self.group.total(np.array(numbers)).tolist(), largest

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle with the columns of this rank."""
        store = bundle.store
        first, last = store.columns if isinstance(store, SplitCuts) else (0, store.width)
        with self.group.together():
            cuts = checkpoint.cuts(first, last)
        bundle.restore(cuts)

    def run(
        self, objective: Objective, bundle: Bundle, settings: Settings, problem: TrainingProblem, plan: Plan
    ) -> BundleMethod:
        return ShardedMethod(self.group, objective, bundle, settings, problem.start, plan.step, warm=True)


def _spread_blocks(cuts: Indices, rows: list[int]) -> tuple[list[Indices], list[tuple[int, int]]]:
    """Return, for each rank, where blocks begin among its rows, and the range of blocks it has rows of."""
    firsts = np.cumsum([0, *rows[:-1]])
    starts = [np.clip(cuts - first, 0, m) for first, m in zip(firsts, rows, strict=True)]
    reach = [
        (int(np.searchsorted(own, 0, "right")) - 1, int(np.searchsorted(own, m)))
        for own, m in zip(starts, rows, strict=True)
    ]
    return starts, reach


class ShardedMethod(BundleMethod):
    """The outer loop on all ranks: if it ends on one, it ends on all, after the same iteration."""

    def __init__(self, group: Group, *arguments: Any, **keywords: Any) -> None:
        self.group = group
        with group.guarded():
            super().__init__(*arguments, **keywords)

    def minimise(self) -> None:
        """Run until converged or stopped; Ctrl-C on any rank ends the iteration on all.

        Signals are held elsewhere: an exception would leave the other ranks waiting.
        """
        interrupts.set_signal_mode(interrupts.HELD)
        with self.group.guarded():
            self._loop_quietly()
            _, self.interrupted, _ = self._agreed(False, interrupts.requested(), False)

    def certified(self) -> Iterate:
        """Return the best iterate, with J from a new product."""
        with self.group.guarded():
            return super().certified()

    def _agreed(self, stop: bool, interrupted: bool, late: bool) -> tuple[bool, bool, bool]:
        found = self.group.parts(
            np.array([stop, interrupted, late, self.state.best.objective, self.state.bound], np.float64)
        )
        if (found[:, 3:] != found[0, 3:]).any():
            raise BmrmError(
                "the ranks do not agree on the objective: their processors round differently, or a loss in "
                "Python is another one on some rank"
            )
        return bool(found[:, 0].any()), bool(found[:, 1].any()), bool(found[:, 2].any())

"""This rank's copy of a model in a loop that its owner wrote: backward, the sum, the step.

A step is any number of :meth:`Replica.backward` calls, the last of them with ``last=True``, and
then :meth:`Replica.step`. What is divided by the count of the whole batch is final when the last
backward returns, so clipping or logging the gradient between the two sees the whole batch's.
"""

from __future__ import annotations

import logging
import math
import traceback
from typing import Any

import torch
from torch import Tensor, nn

from lightwork.api.meeting import BACKWARD, Meeting
from lightwork.api.randomness import Randomness
from lightwork.api.refusals import loss_and_count
from lightwork.api.tables import choose_tables
from lightwork.comm.group import Group
from lightwork.errors import PeerLostError, StepError
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.lookups import Lookups
from lightwork.sync.rows import TableSums
from lightwork.train.control import Control, Problem
from lightwork.train.replicas import start_alike
from lightwork.train.step import unused_text

log = logging.getLogger("lightwork")

UNSEEN = (
    "it got a gradient in rows that its torch.nn.Embedding was not seen to look up. Something else "
    "uses its weight, such as a penalty in the loss, or its module is part of a compiled one"
)
READY, ACCUMULATING, FINISHED = "ready", "accumulating", "finished"


class Replica:
    """The model, equal on all ranks, and the gradients of one step."""

    def __init__(
        self, group: Group, model: nn.Module, bucket_bytes: int, rows: str, meeting: Meeting
    ) -> None:
        """Give ``model``, on its device, rank 0's weights, and take charge of its gradients.

        Raises LaunchError on all ranks when the ranks have built different models, SettingsError
        when ``rows`` is on and the model does not allow it.
        """
        start_alike(group, model)
        tables = choose_tables(group, model, rows)
        self._group = group
        self._meeting = meeting
        self._model = model
        self._rows = rows
        self._lookups = Lookups(group, tables, rows == "on", before=meeting.check)
        self._sync = GradientBuckets(AllReduce(group), bucket_bytes, self._lookups.tables)
        self._sync.attach(model)
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = [(p, p.requires_grad) for p in model.parameters()]
        for parameter, trained in self._parameters:
            if trained:
                parameter.register_post_accumulate_grad_hook(self._refuse_outside)
        self._randomness = Randomness(group, self._parameters[0][0].device)
        self._steps = 0
        self._phase = READY
        self._inside = False
        self._stepped: list[Any] = []
        self._loss_sum: Tensor | float = 0.0
        self._count = 0.0
        self._failure: Exception | None = None

    def backward(self, loss_sum: object, count: object, last: bool, filler: bool) -> float:
        """See :meth:`lightwork.api.run.Run.backward`; a ``filler`` adds nothing to the sums."""
        loss, weight = loss_and_count(loss_sum, count)
        only = last and self._phase != ACCUMULATING
        if self._phase != ACCUMULATING:
            self._begin()
        if last:
            self._meeting.announce(BACKWARD)
            self._lookups.tell()
        if not filler and self._failure is None:
            # Alone the count is known now. Dividing before backward, as a script on one card does,
            # gives its very digits.
            divisor = weight if only and self._group.size == 1 and weight > 0 else 1.0
            self._run(loss / divisor if divisor != 1.0 else loss, last)
            self._count += weight / divisor
        self._phase = ACCUMULATING
        return self._finish() if last else math.nan

    def step(self, optimizer: Any) -> None:
        """See :meth:`lightwork.api.run.Run.step`."""
        if self._phase != FINISHED or any(optimizer is done for done in self._stepped):
            raise StepError(
                "run.step has no new gradients to apply: each update needs a run.backward of its "
                "own before it, and the last one of a batch must not say last=False."
            )
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        foreign = [tuple(p.shape) for p in parameters if id(p) not in self._names]
        if foreign:
            raise StepError(
                f"the optimizer updates {len(foreign)} parameters that are not in the replicated "
                f"model, the first of shape {foreign[0]}; nobody sums their gradients. Make the "
                "optimizer from the parameters of the model that run.replicate got."
            )
        optimizer.step()
        self._stepped.append(optimizer)

    def _begin(self) -> None:
        """Zero the gradients and put the views back, unless something would be lost by it."""
        held = any(p.grad is not None for p, _ in self._parameters)
        if self._phase == FINISHED and not self._stepped and held:
            raise StepError(
                "run.backward was called again, but the gradients of the last one were not used. "
                "To add up several batches before an update, say last=False in all but the last: "
                "run.backward(loss_sum, count, last=False). Otherwise call run.step(optimizer) "
                "after each; optimizer.zero_grad() throws gradients away."
            )
        changed = [self._names[id(p)] for p, was in self._parameters if p.requires_grad != was]
        if changed:
            raise StepError(
                f"requires_grad of {changed[0]} has changed since run.replicate ({len(changed)} "
                "parameters in all); freeze or unfreeze before the model is replicated."
            )
        self._sync.begin(measure=False)
        self._steps += 1
        self._stepped = []
        self._loss_sum, self._count = 0.0, 0.0
        self._failure = None

    def _run(self, loss: Tensor, last: bool) -> None:
        """Backward; where there are others, a failure waits until they can hear of it."""
        self._inside = True
        try:
            with self._sync.micro_batch(0, last):
                loss.backward()
            self._loss_sum = self._loss_sum + loss.detach().double()
        except (PeerLostError, StepError):  # the ranks have gone different ways
            raise
        except Exception as error:
            if self._group.size == 1:
                self._phase = READY
                raise
            log.error("step %d failed on this rank\n%s", self._steps, traceback.format_exc())
            self._failure = error
        finally:
            self._inside = False

    def _finish(self) -> float:
        """Sum the gradients over all ranks, agree that all went well, divide by the count."""
        self._phase = READY
        self._lookups.note_again()
        self._meeting.check()  # before waiting for gradients, which may be of another batch
        self._lookups.hear()  # also where a table takes no part
        self._sync.finish()
        loss_sum = float(self._loss_sum)
        problem = self._problem(loss_sum)
        news = (self._sync.unsettled(), bool(self._lookups.lost()))
        own = [loss_sum, self._count, bool(problem), *news]
        own += self._randomness.seed(self._model.training)
        rows = torch.empty(self._group.size, len(own), dtype=torch.float64)
        self._group.all_gather(rows, torch.tensor(own, dtype=torch.float64)).wait()
        total = float(rows[:, 1].sum())
        failed = bool(rows[:, 2].any())
        if total == 0 and not failed and self._group.rank == 0:
            problem = "the counts of all ranks add up to 0, so there is no mean"
        if failed or total == 0:
            told = Problem(problem, ()) if problem else None
            Control(self._group).raise_together(self._steps, told)
        if rows[:, 4].any():
            self._catch_up()
        self._divide(total)
        if rows[:, 3].any():
            self._settle(total)
        self._randomness.check(rows[:, 5:].tolist())
        self._phase = FINISHED
        return float(rows[:, 0].sum()) / total

    def _problem(self, loss_sum: float) -> str | None:
        """What is wrong with this rank's part of the step."""
        if self._failure is not None:
            return f"{type(self._failure).__name__}: {self._failure}"
        if not math.isfinite(loss_sum):
            return f"the loss is {loss_sum}, not a finite number"
        if self._lookups.lost() and self._rows == "on":
            return f"{self._lookups.lost()[0]} cannot travel row by row: {UNSEEN}"
        for bucket in self._sync.buckets:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                if parameter.grad is not view:
                    name = self._names[id(parameter)]
                    return (
                        f"the gradient of {name} was taken away between run.backward calls of one "
                        "step; call zero_grad() only before the first of them, or leave it out"
                    )
        return None

    def _catch_up(self) -> None:
        """Some rank had gradients in rows that were not sent: send all, now and from here on."""
        for bucket in self._sync.buckets:
            if isinstance(bucket.sums, TableSums):
                bucket.sums.catch_up()
        names = self._lookups.give_up()
        if self._group.rank == 0:
            log.warning("all of %s is sent from here on: %s", ", ".join(names), UNSEEN)

    def _divide(self, total: float) -> None:
        if total != 1.0:
            for bucket in self._sync.buckets:
                bucket.flat.div_(total)

    def _settle(self, total: float) -> None:
        """Agree on the parameters that take part, and catch up on those that are new."""
        before = {id(p) for bucket in self._sync.buckets for p in bucket.parameters}
        settled = self._sync.settle(self._group)
        if settled.unused and self._group.rank == 0:
            log.info(unused_text(settled.unused))
        for bucket in self._sync.buckets if settled.repeat else ():
            for parameter in bucket.parameters:
                if id(parameter) not in before:
                    own = parameter.grad
                    whole = torch.zeros_like(parameter) if own is None else own.contiguous()
                    self._group.all_reduce(whole).wait()
                    parameter.grad = whole.div_(total)

    def _refuse_outside(self, parameter: Tensor) -> None:
        if not self._inside:
            raise StepError(
                f"a backward that is not run.backward gave {self._names[id(parameter)]} a "
                "gradient, which would stay on this card. Call run.backward(loss_sum, count) "
                "instead of loss.backward()."
            )

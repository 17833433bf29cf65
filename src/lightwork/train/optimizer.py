"""The update on this rank's own copy of the model: clip by the global norm, then AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lightwork.errors import CheckpointError

_SLOT = "/"  # parameter names hold dots, never slashes


@dataclass(frozen=True)
class AdamWOptions:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019."""

    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    max_grad_norm: float | None
    """None: no clipping."""


class LocalUpdate:
    """An Update that keeps the whole optimizer on every rank.

    Biases and norm weights, which have fewer than two dimensions, do not decay. A parameter whose
    ``grad`` is None is left alone. Fused kernels are used where the device has them.
    """

    def __init__(self, model: nn.Module, options: AdamWOptions) -> None:
        self._named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._max_grad_norm = options.max_grad_norm
        decaying = [p for p in self._named.values() if p.ndim >= 2]
        others = [p for p in self._named.values() if p.ndim < 2]
        groups = [
            {"params": decaying, "weight_decay": options.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        devices = {parameter.device.type for parameter in self._named.values()}
        self._optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=0.0,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            fused=devices <= {"cpu", "cuda"},
        )

    def measure(self, scale: float = 1.0) -> float:
        """Divide the summed gradients by ``scale``; returns the norm of all of them together.

        The norm is of the complete gradient, before clipping, and not finite where any of it is
        not.
        """
        gradients = [p.grad for p in self._named.values() if p.grad is not None]
        if scale != 1.0:
            torch._foreach_mul_(gradients, 1.0 / scale)
        return float(torch.nn.utils.get_total_norm(gradients))

    def apply(self, learning_rate: float, norm: float) -> None:
        """Clip by ``norm``, which :meth:`measure` found, and update the parameters."""
        parameters = [p for p in self._named.values() if p.grad is not None]
        if self._max_grad_norm is not None and parameters:
            total = torch.tensor(norm, dtype=parameters[0].dtype)
            torch.nn.utils.clip_grads_with_norm_(parameters, self._max_grad_norm, total)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()

    def parts(self) -> dict[str, Tensor]:
        """The optimizer's state as ``<parameter>/<slot>`` -> tensor."""
        return {
            f"{name}{_SLOT}{slot}": torch.as_tensor(value)
            for name, parameter in self._named.items()
            for slot, value in self._optimizer.state.get(parameter, {}).items()
        }

    def updated(self) -> set[str]:
        """The names of the parameters that have been updated so far."""
        return {
            name for name, parameter in self._named.items() if self._optimizer.state.get(parameter)
        }

    def load(self, parts: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`parts` gave.

        Raises:
            CheckpointError: a name or a shape does not fit this model.
        """
        state: dict[str, dict[str, Tensor]] = {}
        for key, tensor in parts.items():
            name, _, slot = key.rpartition(_SLOT)
            if name not in self._named or tensor.shape not in ((), self._named[name].shape):
                raise CheckpointError(
                    f"the optimizer state '{key}' of shape {tuple(tensor.shape)} does not fit "
                    "the model; was the model changed since this checkpoint was written?"
                )
            state.setdefault(name, {})[slot] = tensor
        names = {id(parameter): name for name, parameter in self._named.items()}
        ordered = [names[id(p)] for group in self._optimizer.param_groups for p in group["params"]]
        numbered = {i: state[name] for i, name in enumerate(ordered) if name in state}
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": numbered, "param_groups": groups})

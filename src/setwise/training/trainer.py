"""The training loop: batches, one learning-rate cycle, validation, early stopping, checkpoints.

A network maps (history, history_mask, shown, shown_mask) to the arguments a_i(S) of the items shown. All randomness of
epoch e follows from (seed, e), so a checkpoint needs no generator state: it holds the parameters, the optimiser's
moments and the losses. A run that was killed and resumed ends, on a processor, with the same bits as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._progress import Progress
from setwise._types import Floats
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.encoder import HISTORY
from setwise.storage import artifact
from setwise.training.device import resolve_device
from setwise.training.losses import LOSSES, Loss
from setwise.training.settings import FOR_SLATES
from setwise.training.settings import Schedule as Schedule

_VALIDATION_BATCH = 4096  # slates
Given = Callable[[Slates], Floats]  # the fixed part of the argument of every item shown, aligned with shown.values


@dataclass
class TrainingReport:
    """The losses after each epoch; ``validation`` is empty if there are no validation slates."""

    training: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def best(self) -> int:
        """The epoch, from 0, whose parameters are kept: the lowest validation loss, or the last without validation."""
        return int(np.argmin(self.validation)) if self.validation else len(self.training) - 1

    def latest(self) -> str:
        """The latest losses as text."""
        validation = f", validation {self.validation[-1]:.4f}" if self.validation else ""
        return f"loss {self.training[-1]:.4f}{validation}"


def train(
    network: nn.Module,
    slates: Slates | Callable[[int], Slates],
    validation: Slates | None,
    loss: str = "item",
    schedule: Schedule = FOR_SLATES[1],
    *,
    given: Given | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    run_key: str = "",
    device: str | None = None,
    progress: bool | None = None,
) -> TrainingReport:
    """Train ``network`` in place; it ends with the parameters that were best on ``validation``, or, if None, the last.

    ``slates`` may be a function of the epoch, for negatives that are drawn again every epoch. ``given`` computes a
    fixed part of the argument of every item shown, which the network adds to its own. ``checkpoint`` is a
    folder: it is written after every epoch, and training resumes from it if it holds the same run. ``run_key``
    identifies whatever else distinguishes runs, such as what the slates of later epochs depend on.
    """
    if loss not in LOSSES:
        raise InvalidInput("loss", f"one of {', '.join(LOSSES)}", repr(loss), "choose one of them")
    target, source = resolve_device(device), next(network.parameters()).device
    run = _Run(network.to(target), LOSSES[loss], schedule, target)
    validated = None if validation is None else PaddedSlates.of(validation, given).to(target)
    identity = "" if checkpoint is None else _identity(network, slates, validation, loss, schedule, run_key)
    with _single_thread(), torch.random.fork_rng(devices=[]), Progress("training", schedule.epochs, progress) as bar:
        start = run.resume(checkpoint, identity) if checkpoint is not None else 0
        fixed = None if callable(slates) else PaddedSlates.of(slates, given).to(target)
        bar.advance(start)
        for epoch in range(start, schedule.epochs):
            if run.should_stop():
                break
            data = fixed if fixed is not None else PaddedSlates.of(slates(epoch), given).to(target)  # type: ignore[operator]
            run.train_epoch(epoch, data)
            run.validate(validated)
            if checkpoint is not None:
                run.save(checkpoint, identity)
            bar.advance(1, run.report.latest())
    network.load_state_dict(run.best_state)
    network.to(source)
    network.eval()
    return run.report


@dataclass(frozen=True, eq=False)
class PaddedSlates:
    """Slates as tensors: history (N, T), shown (N, L) and outcome (N, L), with masks that are False for padding.

    ``given`` (N, L), 0 unless stated, is the part of each argument that is not learned.
    """

    history: Tensor
    history_mask: Tensor
    shown: Tensor
    shown_mask: Tensor
    outcome: Tensor
    given: Tensor

    @classmethod
    def of(cls, slates: Slates, given: Given | None = None) -> PaddedSlates:
        """Pad the latest items of each history, and all items of each slate."""
        history, history_mask = slates.history.padded(min(HISTORY, max(1, int(slates.history.lengths.max(initial=0)))))
        width = int(slates.shown.lengths.max(initial=1))
        shown, shown_mask = slates.shown.padded(width)
        outcome, fixed = np.zeros(shown.shape, np.float32), np.zeros(shown.shape, np.float32)
        outcome[shown_mask] = slates.outcome
        if given is not None:
            fixed[shown_mask] = given(slates)
        return cls(*(torch.from_numpy(part) for part in (history, history_mask, shown, shown_mask, outcome, fixed)))

    def to(self, device: torch.device) -> PaddedSlates:
        """The same slates on a device."""
        return PaddedSlates(*(part.to(device) for part in vars(self).values()))

    def taken(self, rows: Tensor | slice) -> PaddedSlates:
        """The slates of these rows."""
        return PaddedSlates(*(part[rows] for part in vars(self).values()))

    def __len__(self) -> int:
        return len(self.shown)

    def loss(self, network: nn.Module, loss: Loss) -> Tensor:
        """The network's loss on these slates."""
        argument = network(self.history, self.history_mask, self.shown, self.shown_mask) + self.given
        return loss(argument, self.outcome, self.shown_mask)


class _Run:
    """The state of one training run: everything that a checkpoint holds."""

    def __init__(self, network: nn.Module, loss: Loss, schedule: Schedule, device: torch.device) -> None:
        self.network, self.loss, self.schedule, self.device = network, loss, schedule, device
        groups = _parameter_groups(network, schedule.weight_decay)
        # One fused call: of these small tensors, a call each costs more than the arithmetic.
        self.optimiser = torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=True)
        self.report = TrainingReport()
        self.best_state: dict[str, Tensor] = {}

    def should_stop(self) -> bool:
        """Whether validation has not improved for ``patience`` epochs of the second half; in the first it may rise."""
        latest = len(self.report.training) - 1
        middle = self.schedule.epochs // 2
        return latest >= 0 and latest - max(self.report.best, middle) >= self.schedule.patience

    def train_epoch(self, epoch: int, data: PaddedSlates) -> None:
        """One pass over the data, in a random order that depends on the seed and the epoch."""
        schedule, total = self.schedule, 0.0
        torch.manual_seed(derive_seed(schedule.seed, epoch))  # for networks with dropout
        order = torch.from_numpy(np.random.default_rng([schedule.seed, epoch]).permutation(len(data))).to(self.device)
        self.network.train()
        starts = range(0, len(data), schedule.batch)
        for step, start in enumerate(starts):
            for group in self.optimiser.param_groups:
                group["lr"] = schedule.rate((epoch + step / len(starts)) / schedule.epochs)
            rows = order[start : start + schedule.batch]
            loss = data.taken(rows).loss(self.network, self.loss)
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            total += float(loss.detach()) * len(rows)
        self.report.training.append(total / len(data))

    def validate(self, data: PaddedSlates | None) -> None:
        """Compute the validation loss, if there are validation slates, and keep the best parameters so far."""
        self.network.eval()
        if data is not None:
            self.report.validation.append(self.loss_on(data))
        if not np.isfinite([*self.report.training[-1:], *self.report.validation[-1:]]).all():
            raise InvalidInput("the loss", "finite", self.report.latest(), "lower learning_rate")
        if self.report.best == len(self.report.training) - 1:
            self.best_state = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def loss_on(self, data: PaddedSlates) -> float:
        """The mean loss on these slates."""
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(data), _VALIDATION_BATCH):
                part = data.taken(slice(start, start + _VALIDATION_BATCH))
                total += float(part.loss(self.network, self.loss)) * len(part)
        return total / len(data)

    # --- checkpoints ---

    def save(self, folder: str | os.PathLike[str], identity: str) -> None:
        """Write the checkpoint atomically."""
        arrays = {f"now.{name}": _array(tensor) for name, tensor in self.network.state_dict().items()}
        arrays |= {f"kept.{name}": _array(tensor) for name, tensor in self.best_state.items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            arrays |= {f"moment.{number}.{name}": _array(tensor) for name, tensor in state.items()}
        artifact.write(folder, "checkpoint", arrays, {"identity": identity, "report": asdict(self.report)})

    def resume(self, folder: str | os.PathLike[str], identity: str) -> int:
        """Load the checkpoint of this run, if there is one; returns the number of epochs it has completed."""
        if not (Path(folder) / "manifest.json").exists():
            return 0
        saved = artifact.read(folder, "checkpoint")
        if saved.meta["identity"] != identity:
            must = "a checkpoint of the same run (data, sizes and schedule)"
            raise InvalidInput("checkpoint", must, f"{folder} of another run", "choose another folder or remove it")
        tensors = {name: torch.from_numpy(array.copy()).to(self.device) for name, array in saved.arrays.items()}
        self.network.load_state_dict(artifact.under("now.", tensors))
        self.best_state = artifact.under("kept.", tensors)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in artifact.under("moment.", tensors).items():
            number, moment = name.split(".")
            state.setdefault(int(number), {})[moment] = tensor.reshape(()) if moment == "step" else tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.report = TrainingReport(**saved.meta["report"])
        return len(self.report.training)


def derive_seed(*numbers: int) -> int:
    """A seed of 63 bits derived from several numbers."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1


def _parameter_groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices, none for vectors; ``network.decays`` overrides it by parameter name."""
    override: dict[str, float] = getattr(network, "decays", {})
    groups: dict[float, list[Tensor]] = {}
    for name, tensor in network.named_parameters():
        if tensor.requires_grad:
            groups.setdefault(override.get(name, decay if tensor.ndim > 1 else 0.0), []).append(tensor)
    return [{"params": tensors, "weight_decay": weight_decay} for weight_decay, tensors in groups.items()]


def _identity(
    network: nn.Module,
    slates: Slates | Callable[[int], Slates],
    validation: Slates | None,
    loss: str,
    schedule: Schedule,
    run_key: str,
) -> str:
    """A digest of what determines the result: data (of the first epoch), initial parameters, loss and schedule."""
    digest = hashlib.sha256(json.dumps([loss, asdict(schedule), run_key]).encode())
    for part in (slates(0) if callable(slates) else slates, *([] if validation is None else [validation])):
        for array in (part.history.values, part.history.offsets, part.shown.values, part.shown.offsets, part.outcome):
            digest.update(np.ascontiguousarray(array).data)
    for name, tensor in network.state_dict().items():
        digest.update(name.encode() + _array(tensor).tobytes())
    return digest.hexdigest()


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().reshape(tensor.shape or (1,)).numpy()


@contextmanager
def _single_thread() -> Iterator[None]:
    """Run torch in one thread: for matrices this small, synchronisation costs more than threads save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

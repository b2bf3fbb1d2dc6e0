"""The loop that teaches a network: batches, one learning-rate cycle, validation, early stopping, checkpoints.

Any network will do that maps (history, heard, shown, filled) to the arguments a_i(S) of the items shown. All that is
random in epoch e follows from (seed, e), so a checkpoint holds no generator: parameters, the optimiser's moments and
the epoch are enough for a run that was killed to end as if it had not been, to the last bit.
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
from setwise._validation import real_number, whole_number
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.encoder import HISTORY
from setwise.storage import artifact
from setwise.training.losses import LOSSES, Loss

_VALIDATED_TOGETHER = 4096  # slates


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn."""

    epochs: int = 20  # at most; validation may end it earlier
    batch: int = 512  # slates a step
    learning_rate: float = 0.02  # the highest of one cycle: up over a fifth of the epochs, then down to nothing
    weight_decay: float = 0.03  # on matrices; biases and offsets are free
    patience: int = 5  # epochs without a better validation loss before stopping
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience"):
            whole_number(name, getattr(self, name))
        whole_number("seed", self.seed, least=0)
        if real_number("learning_rate", self.learning_rate) <= 0 or real_number("weight_decay", self.weight_decay) < 0:
            got = f"learning rate {self.learning_rate}, weight decay {self.weight_decay}"
            raise InvalidInput("learning_rate", "positive, and weight_decay not negative", got, "try 0.005 and 0.03")

    def rate(self, done: float) -> float:
        """The learning rate when the share ``done`` of all epochs is over."""
        rising = 0.2
        if done < rising:
            return self.learning_rate * (0.05 + 0.95 * done / rising)
        return self.learning_rate * 0.5 * (1 + float(np.cos(np.pi * (done - rising) / (1 - rising))))


@dataclass
class Report:
    """What happened: the losses after each epoch (no validation losses without validation), and the epoch kept."""

    training: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

    @property
    def best(self) -> int:
        """The epoch of the lowest validation loss, from 0, or the last without validation: its parameters are kept."""
        return int(np.argmin(self.validation)) if self.validation else len(self.training) - 1

    def latest(self) -> str:
        """The last losses in words."""
        judged = f", validation {self.validation[-1]:.4f}" if self.validation else ""
        return f"loss {self.training[-1]:.4f}{judged}"


def train(
    network: nn.Module,
    slates: Slates | Callable[[int], Slates],
    validation: Slates | None,
    loss: str = "item",
    schedule: Schedule = Schedule(),  # noqa: B008  # a frozen value
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    about: str = "",
    device: str | None = None,
    progress: bool | None = None,
) -> Report:
    """Teach ``network`` and leave it with the parameters that were best on ``validation``, or, if None, the last.

    ``slates`` may be a function of the epoch, when negatives are drawn anew. ``checkpoint`` is a folder: written after
    every epoch, and gone on from when it holds the same run; ``about`` says whatever else tells runs apart, such as
    what the slates of later epochs depend on.
    """
    if loss not in LOSSES:
        raise InvalidInput("loss", f"one of {', '.join(LOSSES)}", repr(loss), "choose one of those")
    where = device_named(device)
    run = _Run(network.to(where), LOSSES[loss], schedule, where)
    judged = None if validation is None else Rectangles.of(validation).on(where)
    identity = "" if checkpoint is None else _identity(network, slates, validation, loss, schedule, about)
    with _one_thread(), torch.random.fork_rng(devices=[]), Progress("training", schedule.epochs, progress) as bar:
        start = run.resume(checkpoint, identity) if checkpoint is not None else 0
        fixed = None if callable(slates) else Rectangles.of(slates).on(where)
        bar.advance(start)
        for epoch in range(start, schedule.epochs):
            if run.tired():
                break
            data = fixed if fixed is not None else Rectangles.of(slates(epoch)).on(where)  # type: ignore[operator]
            run.epoch(epoch, data)
            run.judge(judged)
            if checkpoint is not None:
                run.save(checkpoint, identity)
            bar.advance(1, run.report.latest())
    network.load_state_dict(run.kept)
    network.eval()
    return run.report


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Slates as tensors: history (N, T), shown (N, L) and outcome, with masks for what is there."""

    history: Tensor
    heard: Tensor
    shown: Tensor
    filled: Tensor
    outcome: Tensor

    @classmethod
    def of(cls, slates: Slates) -> Rectangles:
        """Pad: the latest of each history, all of each slate."""
        history, heard = slates.history.padded(min(HISTORY, max(1, int(slates.history.lengths.max(initial=0)))))
        width = int(slates.shown.lengths.max(initial=1))
        shown, filled = slates.shown.padded(width)
        outcome = np.zeros(shown.shape, np.float32)
        outcome[filled] = slates.outcome
        return cls(*(torch.from_numpy(part) for part in (history, heard, shown, filled, outcome)))

    def on(self, where: torch.device) -> Rectangles:
        """The same on a device."""
        return Rectangles(*(part.to(where) for part in vars(self).values()))

    def taken(self, rows: Tensor | slice) -> Rectangles:
        """Some of the slates."""
        return Rectangles(*(part[rows] for part in vars(self).values()))

    def __len__(self) -> int:
        return len(self.shown)

    def loss(self, network: nn.Module, loss: Loss) -> Tensor:
        """The network's loss on these slates."""
        return loss(network(self.history, self.heard, self.shown, self.filled), self.outcome, self.filled)


class _Run:
    """One training on its way: all that a checkpoint must hold."""

    def __init__(self, network: nn.Module, loss: Loss, schedule: Schedule, where: torch.device) -> None:
        self.network, self.loss, self.schedule, self.where = network, loss, schedule, where
        self.optimiser = torch.optim.AdamW(_groups(network, schedule.weight_decay), lr=schedule.learning_rate)
        self.report = Report()
        self.kept: dict[str, Tensor] = {}

    def tired(self) -> bool:
        """Whether validation has not improved for ``patience`` epochs."""
        done = len(self.report.training)
        return done > 0 and done - 1 - self.report.best >= self.schedule.patience

    def epoch(self, epoch: int, data: Rectangles) -> None:
        """One pass over the data in an order of its own."""
        schedule, total = self.schedule, 0.0
        torch.manual_seed(hash_of(schedule.seed, epoch))  # for networks with dropout
        order = torch.from_numpy(np.random.default_rng([schedule.seed, epoch]).permutation(len(data))).to(self.where)
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

    def judge(self, data: Rectangles | None) -> None:
        """Loss on the validation slates, if there are any; the best parameters so far are kept."""
        self.network.eval()
        if data is not None:
            self.report.validation.append(self.loss_on(data))
        if not np.isfinite([*self.report.training[-1:], *self.report.validation[-1:]]).all():
            raise InvalidInput("the loss", "finite", self.report.latest(), "lower learning_rate")
        if self.report.best == len(self.report.training) - 1:
            self.kept = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def loss_on(self, data: Rectangles) -> float:
        """The mean loss on these slates."""
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(data), _VALIDATED_TOGETHER):
                part = data.taken(slice(start, start + _VALIDATED_TOGETHER))
                total += float(part.loss(self.network, self.loss)) * len(part)
        return total / len(data)

    # --- checkpoints ---

    def save(self, folder: str | os.PathLike[str], identity: str) -> None:
        """Everything, in one atomic step."""
        arrays = {f"now.{name}": _array(tensor) for name, tensor in self.network.state_dict().items()}
        arrays |= {f"kept.{name}": _array(tensor) for name, tensor in self.kept.items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            arrays |= {f"moment.{number}.{name}": _array(tensor) for name, tensor in state.items()}
        artifact.write(folder, "checkpoint", arrays, {"identity": identity, "report": asdict(self.report)})

    def resume(self, folder: str | os.PathLike[str], identity: str) -> int:
        """Take up a saved run; how many epochs it has behind it."""
        if not (Path(folder) / "manifest.json").exists():
            return 0
        saved = artifact.read(folder, "checkpoint")
        if saved.meta["identity"] != identity:
            must = "a folder of this very run (data, sizes and schedule)"
            raise InvalidInput("checkpoint", must, f"{folder} of another", "choose another folder or remove it")
        tensors = {name: torch.from_numpy(array.copy()).to(self.where) for name, array in saved.arrays.items()}
        self.network.load_state_dict(artifact.under("now.", tensors))
        self.kept = artifact.under("kept.", tensors)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in artifact.under("moment.", tensors).items():
            number, moment = name.split(".")
            state.setdefault(int(number), {})[moment] = tensor.reshape(()) if moment == "step" else tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.report = Report(**saved.meta["report"])
        return len(self.report.training)


def device_named(name: str | None) -> torch.device:
    """The device of this name, cpu or cuda; the best there is when none is named."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = str(name).partition(":")
    if kind not in ("cpu", "cuda") or not (number.isdecimal() or name == kind):
        raise InvalidInput("device", "cpu, cuda or cuda:0, cuda:1, …", repr(name), "leave it out for the best there is")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InvalidInput("device", f"one of the {torch.cuda.device_count()} GPUs found", name, "use cpu")
    return torch.device(name)


def hash_of(*numbers: int) -> int:
    """A seed of 63 bits from several numbers."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1


def _groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Matrices decay, vectors (biases, offsets) do not; a network may ask for other decays by parameter name."""
    asked: dict[str, float] = getattr(network, "decays", {})
    return [
        {"params": [tensor], "weight_decay": asked.get(name, decay if tensor.ndim > 1 else 0.0)}
        for name, tensor in network.named_parameters()
        if tensor.requires_grad
    ]


def _identity(
    network: nn.Module,
    slates: Slates | Callable[[int], Slates],
    validation: Slates | None,
    loss: str,
    schedule: Schedule,
    about: str,
) -> str:
    """A digest of what decides the result: data (of the first epoch), first parameters, loss and schedule."""
    digest = hashlib.sha256(json.dumps([loss, asdict(schedule), about]).encode())
    for part in (slates(0) if callable(slates) else slates, *([] if validation is None else [validation])):
        for array in (part.history.values, part.history.offsets, part.shown.values, part.shown.offsets, part.outcome):
            digest.update(np.ascontiguousarray(array).data)
    for name, tensor in network.state_dict().items():
        digest.update(name.encode() + _array(tensor).tobytes())
    return digest.hexdigest()


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().reshape(tensor.shape or (1,)).numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: in matrices this small, several wait for one another more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

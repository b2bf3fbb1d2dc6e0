"""Prediction with and without company: how much the other members of a slate say about the outcome of one.

A slate has items with features, and a context (its user). The model with company is one layer of self-attention,

    a_i(S) = base_i · u⁰ + Σ_h Σ_{j∈S} softmax_j(q_i^h · k_j^h, sink) v_j^h · u^h

and the one without is its first term; all vectors are functions of features: base_i of two layers of the item's own,
queries, keys, values and u of one. Training stops where a tenth of the training slates has its smallest loss; the model
with company starts from the trained one without, and its attention from 0. Each may be the mean of several networks.

**Placebo.** Item i attends to itself and to the members of *another* slate of the same kind (as many items), in their
places. It has as many parameters and as much to read, but the wrong company: what it gains is not due to the set.

**Losses** in nats: ``item``, the mean over items of −log P(outcome of the item); ``choice``, the mean over slates of
−log P(the item that was chosen), a softmax over the slate.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np
import torch
from interaction_report import ALONE, PLACEBO, gain
from kept_rows import Row
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
RATE, DECAY = 0.004, 1e-3
PATIENCE = 4
MEMBER_SEEDS = 100  # between the seeds of two members


@dataclass(frozen=True, eq=False)
class SlateTable:
    """Slates padded to one length: features (N, L, F), ids (N, L) or 0, filled (N, L), context (N, C), outcome (N, L).

    ``cluster`` names what slates share (a user): folds and errors are by cluster.
    """

    features: NDArray[np.float32]
    ids: NDArray[np.int64]
    filled: NDArray[np.bool_]
    context: NDArray[np.float32]
    outcome: NDArray[np.float32]
    cluster: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.filled)

    def taken(self, rows: Rows) -> SlateTable:
        """These slates."""
        return SlateTable(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Setting:
    """The sizes of a model and of its training."""

    loss: str  # item or choice
    dim: int = 32
    heads: int = 4
    epochs: int = 30
    decay: float = DECAY
    dropout: float = 0.1
    batch: int = 256  # slates
    members: int = 1  # networks whose arguments are averaged
    own_ids: bool = True  # whether the first term knows which item it is, or attention alone does


class InteractionModel(nn.Module):
    """The one-layer model; without attention it is its base term."""

    def __init__(self, table: SlateTable, n_ids: int, setting: Setting, attends: bool) -> None:
        super().__init__()
        self.setting, self.attends = setting, attends
        width, context, d, h = table.features.shape[2], table.context.shape[1], setting.dim, setting.heads
        self.item = nn.Embedding(n_ids, d)
        nn.init.normal_(self.item.weight, std=0.05)
        known = width + d if setting.own_ids else width
        self.own = nn.Sequential(nn.Linear(known, 2 * d), nn.ReLU(), nn.Dropout(setting.dropout), nn.Linear(2 * d, d))
        self.direct = nn.Linear(width, 1)
        self.user = nn.Linear(context, d)
        self.bias = nn.Linear(context, 1)
        if attends:
            self.query, self.key = nn.Linear(width + d, h * d), nn.Linear(width + d, h * d, bias=False)
            self.value = nn.Linear(width + d, h * d)
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)
            self.reader = nn.Linear(context, h * d)
            self.sink = nn.Linear(width + d, h)

    def forward(self, part: dict[str, Tensor], other: dict[str, Tensor]) -> Tensor:
        """a_i of every item (B, L); ``other`` has the company, which is ``part`` itself but for the placebo."""
        x = self._read(part)
        u = 1 + self.user(part["context"])
        argument = (
            (self.own(x if self.setting.own_ids else part["features"]) * u[:, None]).sum(2)
            + self.direct(part["features"])[..., 0]
            + self.bias(part["context"])
        )
        if self.attends and other is part:
            argument = argument + self._attended(part, x)
        elif self.attends:
            argument = argument + self._attended_elsewhere(part, x, self._read(other), other["filled"])
        return argument

    def _read(self, part: dict[str, Tensor]) -> Tensor:
        return torch.cat([part["features"], self.item(part["ids"])], dim=2)

    def _attended(self, part: dict[str, Tensor], x: Tensor) -> Tensor:
        (b, length, _), h, d = x.shape, self.setting.heads, self.setting.dim
        q, k, v = (layer(x).view(b, length, h, d) for layer in (self.query, self.key, self.value))
        logit = torch.einsum("bihd,bjhd->bhij", q, k) / d**0.5
        filled = part["filled"][:, None, None] | torch.eye(length, dtype=torch.bool)
        sink = self.sink(x).permute(0, 2, 1)[..., None]
        weight = torch.softmax(torch.cat([sink, logit.masked_fill(~filled, -torch.inf)], dim=3), dim=3)[..., 1:]
        reader = (1 + self.reader(part["context"])).view(b, 1, h, d)
        score = (v * reader).sum(3).permute(0, 2, 1)
        return (weight * score[:, :, None]).sum(dim=(1, 3))

    def _attended_elsewhere(self, part: dict[str, Tensor], x: Tensor, y: Tensor, filled: Tensor) -> Tensor:
        """The same, where each item attends to itself and to the members y of another slate."""
        (b, length, _), h, d = x.shape, self.setting.heads, self.setting.dim
        q, own_k = (layer(x).view(b, length, h, d) for layer in (self.query, self.key))
        k = self.key(y).view(b, length, h, d)
        logit = torch.einsum("bihd,bjhd->bhij", q, k) / d**0.5
        itself = torch.einsum("bihd,bihd->bhi", q, own_k) / d**0.5
        eye = torch.eye(length, dtype=torch.bool)
        logit = torch.where(eye, itself[..., None], logit)
        logit = logit.masked_fill(~(filled[:, None, None] | eye), -torch.inf)
        sink = self.sink(x).permute(0, 2, 1)[..., None]
        weight = torch.softmax(torch.cat([sink, logit], dim=3), dim=3)[..., 1:]
        reader = (1 + self.reader(part["context"])).view(b, 1, h, d)
        score, own = ((self.value(z).view(b, length, h, d) * reader).sum(3).permute(0, 2, 1) for z in (y, x))
        crossed = torch.where(eye, own[..., None], score[:, :, None])
        return (weight * crossed).sum(dim=(1, 3))


def losses_of(argument: Tensor, part: dict[str, Tensor], loss: str) -> Tensor:
    """The loss of each slate: (B,); a sum over its items, or that of its choice."""
    if loss == "choice":
        logit = argument.masked_fill(~part["filled"], -torch.inf)
        return -(torch.log_softmax(logit, dim=1).masked_fill(~part["filled"], 0.0) * part["outcome"]).sum(1)
    target = part["outcome"].to(argument.dtype)
    each = nn.functional.binary_cross_entropy_with_logits(argument, target, reduction="none")
    return (each * part["filled"]).sum(1)


def partners_of(table: SlateTable, kind: str, rng: np.random.Generator) -> Rows:
    """The slate whose members each slate attends to: itself, or another one with as many items."""
    rows = np.arange(len(table))
    if kind != PLACEBO:
        return rows
    lengths, other = table.filled.sum(axis=1), rows.copy()
    for length in np.unique(lengths):
        mine = rng.permutation(np.flatnonzero(lengths == length))
        other[mine] = np.roll(mine, 1)
    return other


def trained(
    table: SlateTable, n_ids: int, setting: Setting, kind: str, seed: int, start: InteractionModel | None = None
) -> InteractionModel:
    """A model of the slates, stopped early on a tenth of the clusters."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.unique(table.cluster))
    held = np.isin(table.cluster, clusters[: max(1, len(clusters) // 10)])
    training, validation = np.flatnonzero(~held), np.flatnonzero(held)
    model = InteractionModel(table, n_ids, setting, kind != ALONE)
    if start is not None:
        model.load_state_dict(start.state_dict(), strict=False)
    tensors, other = _tensors(table), partners_of(table, kind, rng)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=setting.decay, fused=True)
    best, kept, waited = np.inf, None, 0
    for _ in range(setting.epochs):
        model.train()
        for rows in np.array_split(rng.permutation(training), max(1, len(training) // setting.batch)):
            part = _some(tensors, rows)
            around = _some(tensors, other[rows]) if kind == PLACEBO else part
            total = losses_of(model(part, around), part, setting.loss).mean()
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
        with torch.no_grad():
            argument = _arguments(model, tensors, validation, other)
            found = float(losses_of(argument, _some(tensors, validation), setting.loss).mean())
        waited += 1
        if found < best:
            best, waited = found, 0
            kept = {name: one.clone() for name, one in model.state_dict().items()}
        if waited >= PATIENCE:
            break
    model.load_state_dict(kept or model.state_dict())
    return model


def held_out_arguments(
    table: SlateTable, setting: Setting, kinds: tuple[str, ...], folds: int, seed: int, most: int | None = None
) -> dict[str, Floats]:
    """a_i of every item (N, L) by each kind of model, from folds over clusters; ``most`` folds at most are run.

    Folds and members are trained side by side, a process for each core.
    """
    fold = fold_of(table.cluster, folds, seed)
    result = {kind: np.full(table.filled.shape, np.nan) for kind in kinds}
    tasks = [(number, member) for number in range(min(most or folds, folds)) for member in range(setting.members)]
    with ProcessPoolExecutor(min(len(tasks), os.cpu_count() or 1), get_context("spawn")) as pool:
        drawn = [seed + number + MEMBER_SEEDS * member for number, member in tasks]
        tests = [np.flatnonzero(fold == number) for number, _ in tasks]
        arguments_of = pool.map(partial(_fold_arguments, table, setting, kinds), tests, drawn)
        for test, arguments in zip(tests, arguments_of, strict=True):
            for kind in kinds:
                result[kind][test] = np.nan_to_num(result[kind][test]) + arguments[kind] / setting.members
    return result


def _fold_arguments(
    table: SlateTable, setting: Setting, kinds: tuple[str, ...], test: Rows, seed: int
) -> dict[str, Floats]:
    """a_i of the items of one fold by models of the others."""
    train, part = table.taken(np.setdiff1d(np.arange(len(table)), test)), table.taken(test)
    start, result = None, {}
    for kind in kinds:
        model = trained(train, int(table.ids.max()) + 1, setting, kind, seed, start)
        start = model if kind == ALONE else start
        other = partners_of(part, kind, np.random.default_rng(seed))
        result[kind] = _arguments(model, _tensors(part), np.arange(len(part)), other).numpy()
    return result


def fold_of(cluster: NDArray[np.int64], folds: int, seed: int) -> Rows:
    """The fold of each slate; the slates of a cluster share one."""
    names, label = np.unique(cluster, return_inverse=True)
    return np.random.default_rng(seed).permutation(len(names))[label] % folds


def slate_losses(argument: Floats, table: SlateTable, loss: str) -> Floats:
    """The loss of each slate (N,); NaN where there is no argument."""
    tensors = _tensors(table)
    known = np.isfinite(argument).all(axis=1)
    result = np.full(len(table), np.nan)
    part = _some(tensors, np.flatnonzero(known))
    result[known] = losses_of(torch.as_tensor(argument[known]), part, loss).numpy()
    return result


def _tensors(table: SlateTable) -> dict[str, Tensor]:
    names = ("features", "ids", "filled", "context", "outcome")
    return {name: torch.as_tensor(np.ascontiguousarray(getattr(table, name))) for name in names}


def _some(tensors: dict[str, Tensor], rows: Rows) -> dict[str, Tensor]:
    chosen = torch.as_tensor(rows)
    return {name: part[chosen] for name, part in tensors.items()}


@torch.no_grad()
def _arguments(model: InteractionModel, tensors: dict[str, Tensor], rows: Rows, other: Rows) -> Tensor:
    model.eval()
    result = []
    for some in np.array_split(rows, max(1, len(rows) // 2048)):
        part = _some(tensors, some)
        around = part if (other[some] == some).all() else _some(tensors, other[some])
        result.append(model(part, around).double())
    return torch.cat(result)


# --- the report ---


def interaction_rows(name: str, table: SlateTable, arguments: dict[str, Floats], loss: str, seed: int) -> list[Row]:
    """One row a model: loss a unit (item, or slate of a choice), gain over own features with its clustered error.

    ``order`` is Spearman's correlation of predicted and observed sums of outcomes over slates, for losses of items.
    """
    unit = table.filled.sum(axis=1).astype(float) if loss == "item" else np.ones(len(table))
    losses = {kind: slate_losses(argument, table, loss) for kind, argument in arguments.items()}
    known = np.isfinite(losses[ALONE])
    rows = []
    for kind, each in losses.items():
        better, error = gain(losses[ALONE], each, table.cluster, unit)
        order = None
        if loss == "item":
            predicted = (1 / (1 + np.exp(-arguments[kind][known])) * table.filled[known]).sum(axis=1)
            observed = (table.outcome[known] * table.filled[known]).sum(axis=1)
            order = float(spearmanr(predicted, observed).statistic)
        rows.append(
            {
                "data": name, "seed": seed, "model": kind, "slates": int(known.sum()), "items": int(unit[known].sum()),
                "loss": each[known].sum() / unit[known].sum(), "gain": better, "error": error, "order": order,
            }
        )  # fmt: skip
    return rows

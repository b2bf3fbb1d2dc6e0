"""A shop's slates of nine items with purchases: what company says beyond an item's own features.

    python experiments/shop_slates.py --data ../shared/data                or:  setwise reproduce

RL4RS: 8,077 slates, three items in each of three lists; a list can be bought from only when all items of the list
before it were. Held-out log loss an item, from five folds over users, of

* **own features**: the item (id, price, list, codes), the user (ten codes), and both together;
* **with company**, **placebo**: see slate_interaction.py;
* **sell-out chain**: the own-features model with the rule of the shop: an item's probability is that of all earlier
  lists being sold out times its own where they are. The latter is learned where they were; the former is a logistic
  function of Σ log p of the list, fitted to the other folds, since purchases of a list are not independent.

Slates are also ranked by predicted sales, against those that were made. All are logged slates: no outcome of another
slate is claimed. Settings were chosen with the folds of seed 0; the report has seed 1.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
from interaction_report import ALONE, INTERACTION, PLACEBO, Floats, run_parts
from kept_rows import Row
from slate_interaction import Setting, SlateTable, fold_of, held_out_arguments, interaction_rows

from setwise.training.calibration import fit_logistic

FOLDER = "sets/rl4rs_bigdatacup"
FILES = (f"{FOLDER}/slates.csv.gz", f"{FOLDER}/items.csv.gz")
SIZE, LISTS = 9, 3
FOLDS = 5
CHAIN = "sell-out chain"
SETTING, NETWORKS = Setting("item", dim=16, heads=2), 3


def read(data: Path) -> SlateTable:
    """The slates; items are listed by list."""
    items = _rows(data / FILES[1])
    known = np.zeros((max(int(row["item_id"]) for row in items) + 1, 10), np.float32)
    for row in items:
        place = [float(row["location"] == str(number)) for number in (1, 2, 3)]
        codes = [float(row[f"vec{number}"]) for number in range(1, 6)]
        known[int(row["item_id"])] = [np.log1p(float(row["price"])), float(row["price"]) > 0, *place, *codes]
    known = (known - known[1:].mean(axis=0)) / (known[1:].std(axis=0) + 1e-6)
    slates = _rows(data / FILES[0])
    ids, bought = (
        np.array([[int(row[f"{name}{place}"]) for place in range(1, SIZE + 1)] for row in slates])
        for name in ("item", "bought")
    )
    codes = [name for name in slates[0] if name.startswith("portrait")]
    context = np.array([[float(row[name]) for name in codes] for row in slates], np.float32)
    user = np.array([int(row["user_id"]) for row in slates])
    return SlateTable(known[ids], ids, np.ones(ids.shape, bool), context, bought.astype(np.float32), user)


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_list(table: SlateTable) -> Floats:
    """Purchases (N, lists, items of a list)."""
    return table.outcome.reshape(len(table), LISTS, -1).astype(np.float64)


def unlocked(table: SlateTable) -> SlateTable:
    """The same slates with the items alone that could be bought."""
    all_bought = by_list(table).all(axis=2)
    before = np.cumprod(np.concatenate([np.ones((len(table), 1), bool), all_bought[:, :-1]], axis=1), axis=1)
    filled = np.repeat(before.astype(bool), SIZE // LISTS, axis=1)
    return SlateTable(table.features, table.ids, filled, table.context, table.outcome, table.cluster)


def chained(argument: Floats, table: SlateTable, seed: int) -> Floats:
    """The argument of an item by the chain, from those of the items where they can be bought."""
    own = 1 / (1 + np.exp(-argument)).reshape(len(table), LISTS, -1)
    sold, open_ = by_list(table).all(axis=2), unlocked(table).filled.reshape(len(table), LISTS, -1)[:, :, 0]
    summed = np.log(own).sum(axis=2)
    fold, chance = fold_of(table.cluster, FOLDS, seed), np.ones((len(table), LISTS))
    for number in np.unique(fold[np.isfinite(summed).all(axis=1)]):
        mine = fold == number
        for place in range(LISTS - 1):
            others = np.isfinite(summed[:, place]) & open_[:, place] & ~mine
            others = others if others.any() else mine & open_[:, place]  # a single fold was run
            fit = fit_logistic(summed[others, place], sold[others, place].astype(float))
            chance[mine, place + 1] = 1 / (1 + np.exp(-fit.scale * summed[mine, place] - fit.bias))
    probability = np.clip(np.cumprod(chance, axis=1)[:, :, None] * own, 1e-6, 1 - 1e-6)
    return np.log(probability / (1 - probability)).reshape(len(table), -1)


def run(name: str, table: SlateTable, setting: Setting, seed: int, most: int | None) -> list[Row]:
    """All models: losses, gains over own features, and the order of slates by sales."""
    arguments = held_out_arguments(table, setting, (ALONE, INTERACTION, PLACEBO), FOLDS, seed, most)
    alone = held_out_arguments(unlocked(table), setting, (ALONE,), FOLDS, seed, most)[ALONE]
    arguments[CHAIN] = chained(alone, table, seed)
    return interaction_rows(name, table, arguments, setting.loss, seed)


def rows_of(part: str, data: Path, seed: int, quick: bool, networks: int) -> list[Row]:
    """All folds."""
    table, setting, most = read(data), replace(SETTING, members=networks), None
    if quick:
        table, setting, most = table.taken(np.arange(1500)), Setting("item", 4, 1, epochs=2), 1
    return run(part, table, setting, seed, most)


def main() -> None:
    """Run all folds."""
    run_parts("Shop slates", ["RL4RS"], rows_of, NETWORKS)


if __name__ == "__main__":
    main()

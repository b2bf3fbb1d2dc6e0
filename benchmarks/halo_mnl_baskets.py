"""Prediction of an item from the rest of its basket: held-out NLL of MNL and Halo-MNL on real baskets.

Every member of a basket is a choice given the others, among the items that are not one of these others. MNL models the
popularity of items, Halo-MNL also their interactions. Baskets are split 70/15/15; the middle part chooses the ridge.

    python benchmarks/halo_mnl_baskets.py [--data ../shared/data] [--items 80] [--seed 0] [--out rows.csv]
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from setwise.preferences.choice_log import ChoiceLog
from setwise.preferences.halo_mnl import MNL, Fit, HaloMNL
from setwise.preferences.likelihood import Score

RIDGES = (3.0, 10.0, 30.0, 100.0)
PARTS = (0.70, 0.85)  # where training ends and where validation ends

Baskets = list[list[str]]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a gzipped CSV file; Ta-Feng's starts with a byte-order mark."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)


def ta_feng(data: Path) -> Baskets:
    """One basket a customer and day."""
    baskets = defaultdict(set)
    for row in rows(data / "sequences" / "ta_feng.csv.gz"):
        baskets[row["TRANSACTION_DT"], row["CUSTOMER_ID"]].add(row["PRODUCT_ID"])
    return [sorted(basket) for basket in baskets.values()]


def online_retail(data: Path) -> Baskets:
    """One basket an invoice, without cancellations; codes that are no articles (postage, fees) start with a letter."""
    baskets = defaultdict(set)
    for row in rows(data / "sequences" / "online_retail.csv.gz"):
        if row["InvoiceNo"].isdigit() and int(row["Quantity"]) > 0 and row["StockCode"][0].isdigit():
            baskets[row["InvoiceNo"]].add(row["StockCode"])
    return [sorted(basket) for basket in baskets.values()]


FIELDS = ("data", "baskets", "learned", "held_out", "model", "ridge", "nll", "accuracy", "converged", "items", "seed")
READERS = {"Ta-Feng": ta_feng, "Online Retail": online_retail}


class Comparison(NamedTuple):
    """Both models on one data set, and what they make of its held-out baskets."""

    baskets: int
    ridge: float
    mnl: tuple[Fit, Score]
    halo: tuple[Fit, Score]


def compare(baskets: Baskets, n_items: int, seed: int, ridges: tuple[float, ...] = RIDGES) -> Comparison:
    """Fit both on the same split of the baskets that hold two or more of the ``n_items`` most frequent items."""
    frequent = [item for item, _ in Counter(item for basket in baskets for item in basket).most_common(n_items)]
    known = set(frequent)
    kept = [chosen for basket in baskets if len(chosen := [item for item in basket if item in known]) > 1]
    order = np.random.default_rng(seed).permutation(len(kept))
    parts = np.split(order, [int(share * len(kept)) for share in PARTS])
    train, validation, test = (ChoiceLog.from_baskets([kept[i] for i in part], frequent) for part in parts)
    tried = {ridge: HaloMNL.fit(train, validation, ridge=ridge) for ridge in ridges}
    ridge = min(tried, key=lambda one: tried[one].held_out.nll)
    mnl, halo = MNL.fit(train), tried[ridge]
    return Comparison(len(kept), ridge, (mnl, mnl.model.score(test)), (halo, halo.model.score(test)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--items", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a CSV file for the rows")
    options = parser.parse_args()
    found_rows = []
    print(f"{options.items} most frequent items, seed {options.seed}, baskets split 70/15/15")
    print("| data | baskets | train | held out | model | ridge | NLL | accuracy | converged |\n|" + "---|" * 9)
    for name, read in READERS.items():
        for row in compared(name, compare(read(options.data), options.items, options.seed)):
            found_rows.append(row | {"items": options.items, "seed": options.seed})
            counts = f"{row['baskets']:,} | {row['learned']:,} | {row['held_out']:,}"
            figures = f"{row['nll']:.4f} | {row['accuracy']:.4f} | {'yes' if row['converged'] else 'no'}"
            print(f"| {name} | {counts} | {row['model']} | {row['ridge'] or '-'} | {figures} |", flush=True)
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(found_rows)


def compared(name: str, found: Comparison) -> list[dict]:
    """A row a model."""
    return [
        {
            "data": name,
            "baskets": found.baskets,
            "learned": fit.train.observations,
            "held_out": test.observations,
            "model": model,
            "ridge": ridge,
            "nll": test.nll,
            "accuracy": test.accuracy,
            "converged": fit.converged,
        }
        for model, (fit, test), ridge in (("MNL", found.mnl, None), ("Halo-MNL", found.halo, found.ridge))
    ]


if __name__ == "__main__":
    main()

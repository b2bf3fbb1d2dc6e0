"""Lists of hotels with the click: what the other hotels say about which one is chosen.

    python experiments/hotel_lists.py --data ../shared/data                or:  setwise reproduce

Trivago, 100,003 rows of whole sessions: lists of at least five hotels whose click is in the list. Features of a hotel:
its place, its price on four scales, what the user did with it before in the session, and its clicks so far; context:
device, filters, length of the list. Held-out log loss of a choice, from five folds over users: own features, with
company, placebo (slate_interaction.py). Lists without a click are not in the data.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from interaction_report import ALONE, INTERACTION, PLACEBO, run_parts
from kept_rows import Row
from slate_interaction import Setting, SlateTable, held_out_arguments, interaction_rows

FILE = "sets/trivago_100k/sessions.csv.gz"
PLACES, LEAST = 25, 5
FOLDS = 5
SETTING = Setting("choice", dim=16, heads=2, dropout=0.3, epochs=15)
NETWORKS = 3


def read(data: Path, most: int | None = None) -> SlateTable:
    """The lists in the order of the file; ``most`` cuts it, for a quick run."""
    clicks: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    session, last = "", ""
    features, filled, outcome, context, user = [], [], [], [], []
    number_of: dict[str, int] = {}
    with gzip.open(data / FILE, "rt", encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if most is not None and number >= most:
                break
            if row["session_id"] != session:
                session, last = row["session_id"], ""
                seen.clear()
            hotels = row["impressions"].split("|")[:PLACES]
            if row["action_type"] == "clickout item" and row["reference"] in hotels and len(hotels) >= LEAST:
                price = np.log(np.array(row["prices"].split("|")[:PLACES], float) + 1)
                features.append(_features(hotels, price, seen, last, clicks))
                filled.append(np.arange(PLACES) < len(hotels))
                outcome.append(
                    [float(place < len(hotels) and hotels[place] == row["reference"]) for place in range(PLACES)]
                )
                filters = len(row["current_filters"].split("|")) if row["current_filters"] else 0
                device = [float(row["device"] == kind) for kind in ("mobile", "desktop", "tablet")]
                context.append([*device, np.log1p(filters), len(hotels) / PLACES, np.log1p(sum(seen.values()))])
                user.append(number_of.setdefault(row["user_id"], len(number_of)))
                clicks[row["reference"]] += 1
            if row["reference"].isdigit():
                seen[row["reference"]] += 1
                last = row["reference"]
    x, mask = np.array(features, np.float32), np.array(filled)
    x = np.where(mask[:, :, None], (x - x[mask].mean(axis=0)) / (x[mask].std(axis=0) + 1e-6), 0.0).astype(np.float32)
    around = np.array(context, np.float32)
    around = (around - around.mean(axis=0)) / (around.std(axis=0) + 1e-6)
    return SlateTable(x, np.zeros(mask.shape, np.int64), mask, around, np.array(outcome, np.float32), np.array(user))


def _features(hotels: list[str], price: np.ndarray, seen: Counter[str], last: str, clicks: Counter[str]) -> np.ndarray:
    """(places, features), zeros after the end of the list."""
    rank = np.argsort(np.argsort(price, kind="stable")) / len(price)
    table = np.zeros((PLACES, 9), np.float32)
    for place, hotel in enumerate(hotels):
        table[place] = [
            np.log1p(place), place == 0, place == 1, price[place], price[place] - price.mean(), rank[place],
            np.log1p(seen[hotel]), hotel == last, np.log1p(clicks[hotel]),
        ]  # fmt: skip
    return table


def rows_of(part: str, data: Path, seed: int, quick: bool, networks: int) -> list[Row]:
    """All folds."""
    table = read(data, 4000 if quick else None)
    setting, most = (Setting("choice", 4, 1, epochs=2), 1) if quick else (replace(SETTING, members=networks), None)
    found = held_out_arguments(table, setting, (ALONE, INTERACTION, PLACEBO), FOLDS, seed, most)
    return interaction_rows(part, table, found, setting.loss, seed)


def main() -> None:
    """Run all folds."""
    run_parts("Hotel lists", ["Trivago"], rows_of, NETWORKS)


if __name__ == "__main__":
    main()

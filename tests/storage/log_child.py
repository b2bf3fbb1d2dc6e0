"""Writes to the log in a folder until it is killed: prints what it sends before, and "stored" after, every write."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from setwise.storage.slate_log import ItemOutcome, ShownSlate, SlateLog, new_id


def main(folder: Path, seed: int) -> None:
    rng, log = random.Random(seed), SlateLog(folder)
    slates: list[str] = []
    while True:
        fresh = [ShownSlate(new_id(), None, "v", json.dumps(["a", "b", 3]), [0.5, 0.25, 0.25]) for _ in range(2)]
        slates += [one.id for one in fresh]
        chosen = [(rng.choice(slates[-50:]), rng.choice(["a", "b", 3])) for _ in range(20)]  # some of them twice
        print(json.dumps(chosen), flush=True)
        log.write([fresh, [ItemOutcome(*one) for one in chosen]])
        print("stored", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

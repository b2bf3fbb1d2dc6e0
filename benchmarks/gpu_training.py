"""Training on a GPU and on the processor: seconds, and whether the models are equally good.

    python benchmarks/gpu_training.py --sessions baskets.txt.gz --slates 60000 --seeds 3 --out rows.csv

On both devices, with the same seeds and the same held-out data: ``fit`` on sessions (base models, attention) and its
hits of ten on held-out sessions; ``fit`` on slates of a simulated world and its log loss on new slates. The last lines
state the mean difference between the devices and its standard error over seeds. ``--sessions`` is any file that
``setwise.datasets.read`` reads; without it these rows are left out.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise.datasets import Sessions, World, random_split, read
from setwise.datasets.splits import HistorySplit
from setwise.training import SimpleTransformer
from setwise.training.on_policy import on_policy_slates

K = 10
DEVICES = ("cpu", "cuda" if torch.cuda.is_available() else "cpu")
FIELDS = ("data", "seed", "device", "seconds", "measure", "figure")


def session_rows(path: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Hits on a tenth of the sessions."""
    everything = read(path, baskets=True)
    assert isinstance(everything, Sessions)
    usable = everything.distinct().trimmed(least_sessions=5, least_items=4)
    kept, held = random_split(len(usable), (0.9, 0.1), 0)
    held_out = HistorySplit.first(usable.taken(held))
    for seed in range(seeds):
        for device in DEVICES:
            began = time.perf_counter()
            model = SimpleTransformer.fit(usable.taken(kept), k=K, seed=seed, device=device, progress=False)
            seconds = time.perf_counter() - began
            slates = on_policy_slates(model, held_out, K)
            parts = ", ".join(f"{one['model']} {one['weight']:.2g}" for one in model.summary["base"])
            name = f"{len(usable):,} sessions, {usable.n_items:,} items ({parts}; {model.summary['kept']})"
            yield row(name, seed, device, seconds, "hits", float(slates.outcome.sum() / len(slates)))


def slate_rows(count: int, seeds: int) -> Iterator[dict[str, Any]]:
    """Log loss on new slates of the same world, with the outcomes that they had."""
    world = World.make(n_items=2000)
    kept, held = random_split(len(log := world.log(count)), (0.9, 0.1), 0)
    new = log.taken(held)
    for seed in range(seeds):
        for device in DEVICES:
            began = time.perf_counter()
            model = SimpleTransformer.fit(
                log.taken(kept), seed=seed, heads=4, embeddings="spectral", device=device, progress=False
            )
            seconds = time.perf_counter() - began
            chance = np.clip(model.predict(new), 1e-12, 1 - 1e-12)
            loss = -np.mean(np.where(new.outcome > 0, np.log(chance), np.log1p(-chance)))
            yield row(f"{count:,} slates, {log.n_items:,} items", seed, device, seconds, "log loss", float(loss))


def row(data: str, seed: int, device: str, seconds: float, measure: str, figure: float) -> dict[str, Any]:
    """One line of the file, printed as well."""
    line = dict(zip(FIELDS, (data, seed, device, round(seconds, 2), measure, round(figure, 5)), strict=True))
    print(line, flush=True)
    return line


def main() -> None:
    """Fit on both devices and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=Path, nargs="*", default=[])
    parser.add_argument("--slates", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none: both columns are the processor's"
    print(f"GPU: {gpu}; {os.cpu_count()} cores; torch {torch.__version__}")
    rows = list(slate_rows(arguments.slates, arguments.seeds))
    for path in arguments.sessions:
        rows += session_rows(path, arguments.seeds)
    for measure in ("log loss", "hits"):
        for data in dict.fromkeys(line["data"].split(" (")[0] for line in rows if line["measure"] == measure):
            report(data, [line for line in rows if line["data"].startswith(data)])
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


def report(data: str, rows: list[dict[str, Any]]) -> None:
    """The difference between the devices."""
    cpu, gpu = (np.array([line["figure"] for line in rows[at::2]]) for at in (0, 1))
    seconds = [float(np.median([line["seconds"] for line in rows[at::2]])) for at in (0, 1)]
    error = (gpu - cpu).std(ddof=1) / np.sqrt(len(cpu)) if len(cpu) > 1 else float("nan")
    print(f"{data}: {rows[0]['measure']} {cpu.mean():.4f} on the processor, difference {np.mean(gpu - cpu):+.4f}")
    print(f"  +- {error:.4f} over {len(cpu)} seeds; {seconds[0]:.1f} s, on the GPU {seconds[1]:.1f} s (medians)")


if __name__ == "__main__":
    main()

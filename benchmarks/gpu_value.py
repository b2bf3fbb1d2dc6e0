"""Value of slates from the device at ten million items, as a share of the best known: trained rows, bootstrapped.

    python benchmarks/gpu_value.py catalogs/playlists_one_head.npz                   one GPU; ``shared/data/catalogs``
    python benchmarks/gpu_value.py ….npz --items 30000 --users 3 --cells 64          a trial, also without a GPU

Items are rows of the trained catalogue, drawn again and jittered by a tenth of the standard deviation, as in
experiments/scaling.py; an item is in the cell of the row that it came from. The *best known* of a user is the best of the
slate itself and of two longer searches: swap search on four times the candidates with more perturbations, and from both
sets the best exchange of one member for any item of the catalogue, repeated until none raises the value. Every value is
recomputed by the reference. ``upper_bound`` is that of the device. Rows go to benchmarks/rows/gpu_value.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from gpu import DEVICE

import setwise as sw
from setwise.bounds.catalog.device_bound import DeviceBound
from setwise.ranking import device_swap
from setwise.recommend import device_pipeline
from setwise.retrieval.clusters import clusters
from setwise.retrieval.device_catalog import DeviceCatalog, DeviceUsers
from setwise.retrieval.device_rewards import evaluated
from setwise.retrieval.partition import Partition

JITTER, K = 0.1, 10
_TOGETHER = 1 << 20  # items whose exchanges are valued at a time


def bootstrapped(path: Path, n: int, cells: int, count: int) -> tuple[sw.Catalog, Partition, list[sw.User]]:
    """So many items, their cells, and the users that the rows were trained beside."""
    with np.load(path, allow_pickle=False) as arrays:
        reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
        parts = {name: arrays[name] for name in ("query", "key", "value")}
        users = [sw.User(one) for one in arrays["user_heads"][:count]]
    source = clusters(sw.Catalog(**parts, reward=reward), cells, 0)
    draw = torch.Generator(DEVICE).manual_seed(0)
    rows = torch.randint(len(source.cell_of), (n,), generator=draw, device=DEVICE)
    made = {}
    for name, array in parts.items():
        own = torch.from_numpy(array.astype(np.float32)).to(DEVICE)
        scale, made[name] = JITTER * own.std(0), np.empty((n, *array.shape[1:]), np.float32)
        for first in range(0, n, _TOGETHER):
            some = own[rows[first : first + _TOGETHER]]
            noise = torch.randn(some.shape, generator=draw, device=DEVICE)
            torch.from_numpy(made[name][first : first + len(some)]).copy_(some + scale * noise)
        made[name].flags.writeable = False
    catalog = sw.Catalog(**made, reward=reward)
    return catalog, Partition.of(catalog, source.cell_of[rows.cpu().numpy()], source.n_cells), users


def best_exchange(catalog: DeviceCatalog, users: DeviceUsers, members: torch.Tensor) -> tuple[float, int, int]:
    """The best value after exchanging one of the members (k,) for any item; the slot, and the item."""
    k, best = len(members), (-np.inf, 0, 0)
    score, base = (each[0] for each in catalog.scores(members[None], users))  # (H, k), (k,)
    query, key = catalog.query[members].double(), catalog.key[members].double()
    among = torch.einsum("ihd,jhd->hij", query, key)
    for first in range(0, len(catalog.query), _TOGETHER):
        rows = torch.arange(first, min(len(catalog.query), first + _TOGETHER), device=catalog.device)
        own_query, own_key = catalog.query[rows].double(), catalog.key[rows].double()
        s, b = (each[0] for each in catalog.scores(rows[None], users))
        to_item = torch.einsum("ihd,chd->hic", query, own_key)
        to_member = torch.einsum("chd,jhd->hjc", own_query, key)
        itself = (own_query * own_key).sum(2).T
        for slot in range(k):
            others = [at for at in range(k) if at != slot]
            top = among[:, others][:, :, others].amax(2)
            weight = torch.exp(among[:, others][:, :, others] - top[..., None])
            above, below = (weight * score[:, None, others]).sum(2), weight.sum(2)
            x = torch.exp(to_item[:, others] - top[..., None])
            a = base[others][:, None] + ((above[..., None] + x * s[:, None]) / (below[..., None] + x)).sum(0)
            top_c = torch.maximum(to_member[:, others].amax(1), itself)
            w, w_c = torch.exp(to_member[:, others] - top_c[:, None]), torch.exp(itself - top_c)
            a_c = b + (((w * score[:, others][..., None]).sum(1) + w_c * s) / (w.sum(1) + w_c)).sum(0)
            value = evaluated(catalog.rewards, None, a).sum(0) + evaluated(catalog.rewards, None, a_c)
            inside = members[(members >= first) & (members < first + len(rows))] - first
            value[inside] = -torch.inf
            high, at = value.max(0)
            if float(high) > best[0]:
                best = float(high), slot, first + int(at)
    return best


def climbed(catalog: DeviceCatalog, user: sw.User, rows: np.ndarray, steps: int = 12) -> float:
    """The reference value after the best exchanges over the whole catalogue."""
    users, members = catalog.users([user]), torch.from_numpy(np.array(rows)).to(catalog.device)
    value = sw.set_value(catalog.catalog, user, rows)
    for _ in range(steps):
        found, slot, item = best_exchange(catalog, users, members)
        if not found > value * (1 + 1e-9):
            break
        members[slot] = item
        value = max(value, sw.set_value(catalog.catalog, user, members.cpu().numpy()))
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=150.0, help="no further user is begun after so many")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "gpu_value.csv")
    options = parser.parse_args()
    began = time.perf_counter()
    catalog, partition, users = bootstrapped(options.trained, options.items, options.cells, options.users)
    index = sw.Index.build(catalog, partition=partition, backend="gpu")
    rec, wide = sw.Recommender(index, certify=False), sw.Recommender(index, certify=False, candidates=1600)
    device = rec._snapshot.device
    if device is None:
        raise SystemExit("queries and keys do not fit the device beside the index")
    print(f"{options.items:,} items ready after {time.perf_counter() - began:.1f} s", flush=True)
    bound, rows = DeviceBound.of(device.catalog), []
    for number, user in enumerate(users):
        if time.perf_counter() - began > options.seconds:
            break
        slate = rec.recommend(user, k=K)
        longer = mock.patch.object(device_pipeline, "swap", lambda problem, k: device_swap.swap(problem, k, rounds=6))
        with longer:
            other = wide.recommend(user, k=K)
        whole = [climbed(device.catalog, user, each.indices) for each in (slate, other)]
        best = max(slate.value, other.value, *whole)
        rows.append({"user": number, "value": slate.value, "longer": other.value, "best_known": best})
        rows[-1]["upper_bound"] = bound.upper(user, K)
        print(f"user {number}: {slate.value:.5f} of {best:.5f}, share {slate.value / best:.5f}", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    share = np.array([each["value"] / each["best_known"] for each in rows])
    gap = np.median([1 - each["value"] / each["upper_bound"] for each in rows])
    print(f"n={options.items} users={len(share)} mean share {share.mean():.5f}, least {share.min():.5f}, gap {gap:.4f}")


if __name__ == "__main__":
    main()

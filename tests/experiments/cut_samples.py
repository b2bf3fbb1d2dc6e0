"""The public samples, cut so that every experiment runs in seconds."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path

import numpy as np

ITEMS, USERS = 2000, 100  # of a trained catalogue
PLAYLISTS, BASKET_LINES, WORDS = 600, 20_000, 5000
STEPS = 5000  # lines of trivago
PROBLEMS, SOLVERS, FEATURES = 60, 6, 20
SLATES = ("rl4rs_bigdatacup", "ebnerd_demo", "dota2_uci")


def cut_samples(data: Path, folder: Path) -> Path:
    """Write the first part of every sample that the plan reads into ``folder``, and return the folder."""
    for name in ("playlists_one_head", "playlists_four_heads"):
        cut_catalog(data / "catalogs" / f"{name}.npz", folder / "catalogs" / f"{name}.npz")
    cut_playlists(data / "playlists", folder / "playlists")
    for name in ("ta_feng", "online_retail"):
        cut_lines(data / "sequences" / f"{name}.csv.gz", folder / "sequences" / f"{name}.csv.gz", BASKET_LINES)
    cut_words(data / "embeddings", folder / "embeddings")
    for name in ("sets/gb1_fourfold", *(f"sets/{one}" for one in SLATES)):
        shutil.copytree(data / name, folder / name)
    hotels = "sets/trivago_100k/sessions.csv.gz"
    cut_lines(data / hotels, folder / hotels, STEPS)
    for path in (data / "sets" / "aslib_portfolios").glob("*.npz"):
        cut_portfolios(path, folder / "sets" / "aslib_portfolios" / path.name)
    return folder


def cut_catalog(path: Path, out: Path) -> None:
    """Keep the first items and users; a history names other items of the same number."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with np.load(path) as arrays:
        n = len(arrays["query"])
        cut = {name: array[:ITEMS] if array.shape[:1] == (n,) else array for name, array in arrays.items()}
    cut |= {name: cut[name][:USERS] for name in ("user_heads", "user_base") if name in cut}
    np.savez(out, **cut | {"history": cut["history"][:USERS] % ITEMS})


def cut_lines(path: Path, out: Path, count: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "rb") as source, gzip.open(out, "wb", compresslevel=1) as target:
        target.writelines(itertools.islice(source, count))


def cut_playlists(data: Path, folder: Path) -> None:
    """Keep the first playlists, and the titles of their tracks."""
    name, titles = "mpd_followed_playlists.jsonl.gz", "mpd_followed_tracks.csv.gz"
    cut_lines(data / name, folder / name, PLAYLISTS)
    popular = "polimi2018_playlists.jsonl.gz"
    cut_lines(data / popular, folder / popular, PLAYLISTS)
    with gzip.open(folder / name, "rt", encoding="utf-8") as file:
        last = max(max(json.loads(line)["tracks"], default=0) for line in file)
    cut_lines(data / titles, folder / titles, last + 2)


def cut_portfolios(path: Path, out: Path) -> None:
    """Keep some instances from all families, some solvers and some features."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with np.load(path) as arrays:
        rows = np.arange(0, len(arrays["solved"]), len(arrays["solved"]) // PROBLEMS)
        cut = {"solved": arrays["solved"][rows, :SOLVERS], "instances": arrays["instances"][rows]}
        if "features" in arrays.files:
            cut["features"] = arrays["features"][rows, :FEATURES]
    np.savez(out, **cut)


def cut_words(data: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    name = "glove100_words_0-59999.npz"
    with np.load(data / name) as arrays:
        words = bytes(arrays["words"]).decode().split("\n")[:WORDS]
        np.savez(
            folder / name, words=np.frombuffer("\n".join(words).encode(), np.uint8), vectors=arrays["vectors"][:WORDS]
        )

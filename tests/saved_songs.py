"""A small saved recommender, and how a person calls a verb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from setwise import cli
from setwise.model.encoder import Encoder
from setwise.training import SimpleTransformer
from worlds import random_catalog

N = 60


def model(seed: int = 0, text_ids: bool = True) -> SimpleTransformer:
    """Sixty songs of ten artists with prices, two heads, a base, random arrays."""
    rng = np.random.default_rng(seed)
    attributes = {
        "title": [f"Song [{i}]" for i in range(N)],
        "artist": [f"artist {i % 10}" if i % 7 else None for i in range(N)],
        "price": [float(i) if i % 9 else float("nan") for i in range(N)],
        "year": [1990 + i % 5 for i in range(N)],
    }
    ids = [f"s{i}" for i in range(N)] if text_ids else list(range(100, 100 + N))
    catalog, _ = random_catalog(seed, n=N, heads=2, base=True, ids=ids, attributes=attributes)
    shapes = {
        "items": (N, 4),
        "heads_weight": (2, 3, 4),
        "heads_bias": (2, 3),
        "base_weight": (2, 4),
        "base_bias": (2,),
    }
    return SimpleTransformer(catalog, Encoder(**{name: rng.normal(size=shape) for name, shape in shapes.items()}))


def run(*arguments: object):
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def said(result) -> str:
    return " ".join(result.output.split())


def sessions_file(folder: Path, ids: list[str], lengths: int = 8, count: int = 12) -> Path:
    rng, file = np.random.default_rng(0), folder / "held.csv"
    rows = [f"{number},{one}" for number in range(count) for one in rng.choice(ids, lengths, replace=False)]
    file.write_text("\n".join(["playlist,track", *rows]) + "\n")
    return file

"""The plan of ``setwise reproduce``: which experiment runs with which sizes, and what it needs.

``standard`` takes some 175 minutes of one core in all, so that two cores are done in 90; ``quick`` only shows that
everything runs. Seeds are fixed, and where a recipe was tuned on some seed, another is taken: 3 for the splits of
Tables 1 and 2, 2 for the closed loop, 1 for the held-out playlists.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

PLAYLISTS = "playlists/mpd_followed_playlists.jsonl.gz"
TITLES = ("playlists/mpd_followed_tracks.csv.gz", "embeddings/glove100_words_0-59999.npz")
HOTELS = "sets/trivago_100k/sessions.csv.gz"
ONE_HEAD, FOUR_HEADS = "catalogs/playlists_one_head.npz", "catalogs/playlists_four_heads.npz"
BASKETS = ("sequences/ta_feng.csv.gz", "sequences/online_retail.csv.gz")
PROTEINS = "sets/gb1_fourfold/gb1_variants.csv.gz"
SOLVERS = tuple(
    f"sets/aslib_portfolios/{name}.npz"
    for name in ("CSP-MZN-2013", "QBF-2014", "SAT11-HAND", "SAT12-HAND", "SAT12-INDU")
)
SHOP = ("sets/rl4rs_bigdatacup/slates.csv.gz", "sets/rl4rs_bigdatacup/items.csv.gz")
NEWS = ("sets/ebnerd_demo/impressions.csv.gz", "sets/ebnerd_demo/history_train.npz")
MATCHES = "sets/dota2_uci/dota2_matches.npz"
FASTER = "--rankers paper lp_search swap beam --users 60"
LESS = "--epochs 12 --draws 2"


@dataclass(frozen=True)
class Step:
    """One run of one script."""

    name: str
    script: str
    standard: str  # the arguments beside --data, --cache and --out
    quick: str
    minutes: float  # of one core, about: the long ones begin first
    needs: tuple[str, ...] = ()  # files under the data folder; a step without any takes no --data
    caches: bool = False  # takes --cache, where learned catalogues are kept
    after: str | None = None  # a step that learns what this one finds in the cache

    def command(self, data: Path, out: Path, quick: bool) -> list[str]:
        """As one would type it in the checkout."""
        arguments = shlex.split(self.quick if quick else self.standard)
        arguments += ["--data", str(data)] if self.needs else []
        arguments += ["--cache", str(out / "catalogues")] if self.caches else []
        return ["python", self.script, *arguments, "--out", str(rows_of(out, self.name))]


def rows_of(out: Path, name: str) -> Path:
    """Where the raw rows of a step are."""
    return out / "rows" / f"{name}.csv"


def _table(name: str, script: str, task: str, effort: str, minutes: float, *needs: str) -> Step:
    """Of Table 1 or 2; the effort is less than the scripts' own, which take an hour and half an hour."""
    arguments = f"{task} --seeds 3"
    return Step(name, f"experiments/{script}.py", f"{arguments} {effort}", f"{arguments} --quick", minutes, needs)


def _closed_loop(name: str, world: str, minutes: float) -> Step:
    small = "--slates 1500 --items 150 --users 6 --epochs 1"
    script = "experiments/closed_loop.py"
    arguments = f"--worlds {world} --seeds 2"
    return Step(name, script, arguments, f"{arguments} {small}", minutes)


def _scaling(name: str, source: str, sizes: str, minutes: float, *needs: str) -> Step:
    script, arguments = "experiments/scaling.py", f"--sources {source}"
    return Step(name, script, f"{arguments} --sizes {sizes}", f"{arguments} --quick", minutes, needs)


def _figure_3(name: str, catalogue: str, others: str, minutes: float, *needs: str) -> Step:
    arguments = f"--catalogues {catalogue} {others}"
    script = "experiments/figure_3_budget.py"
    return Step(name, script, arguments, f"{arguments} --quick", minutes, needs, caches=True)


PLAN = (
    _table(
        "table_1_cooccurrence", "table_1_accuracy", "--tasks playlists --vectors cooccurrence", LESS, 3.3, PLAYLISTS
    ),
    _table("table_1_titles", "table_1_accuracy", "--tasks playlists --vectors titles", LESS, 3.3, PLAYLISTS, *TITLES),
    _table("table_1_hotels", "table_1_accuracy", "--tasks hotels", "--epochs 8 --folds 3", 6.0, HOTELS),
    _table("table_2_playlists", "table_2_depth", "--tasks playlists", "--epochs 6 --draws 2", 4.0, PLAYLISTS),
    _table("table_2_hotels", "table_2_depth", "--tasks hotels", "--epochs 3 --folds 2", 5.0, HOTELS),
    _figure_3("figure_3_one_head", "playlists_one_head", "--ks 5", 7.5, ONE_HEAD),
    _figure_3("figure_3_few", "playlists_one_head", f"--ks 5 10 --candidates 160 {FASTER}", 6.0, ONE_HEAD),
    _figure_3("figure_3_four_heads", "playlists_four_heads", f"--ks 5 --candidates 160 {FASTER}", 6.0, FOUR_HEADS),
    _figure_3("figure_3_trivago", "trivago", "--ks 5", 5.0, HOTELS),
    Step(
        "figure_4",
        "experiments/figure_4_scatter.py",
        "--catalogues playlists_one_head playlists_four_heads trivago",
        "--catalogues playlists_one_head playlists_four_heads trivago --quick",
        6.0,
        (ONE_HEAD, FOUR_HEADS, HOTELS),
        caches=True,
        after="figure_3_trivago",
    ),
    Step(
        "reach",
        "experiments/reach.py",
        "--catalogues playlists_one_head playlists_four_heads --users 60",
        "--quick",
        8.0,
        (ONE_HEAD, FOUR_HEADS),
    ),
    _closed_loop("closed_loop_with", "'set effects'", 12.0),
    _closed_loop("closed_loop_without", "'no set effects'", 12.0),
    Step(
        "held_out_hits",
        "experiments/held_out_hits.py",
        "--seeds 1",
        "--seeds 1 --quick --users 20",
        6.5,
        (PLAYLISTS,),
    ),
    Step(
        "certificates",
        "benchmarks/requests.py",
        "--requests 100 --budgets 100 200",
        "--requests 3 --budgets 20 --catalogues playlists_one_head",
        1.6,
        (ONE_HEAD, FOUR_HEADS),
    ),
    _scaling("scaling", "bootstrapped", "10000 100000 1000000 3000000", 6.0, ONE_HEAD, FOUR_HEADS),
    _scaling("scaling_simulated", "simulated", "10000 100000 1000000", 5.0),
    Step(
        "retrieval",
        "benchmarks/retrieval.py",
        "--sizes 100000 300000 1000000",
        "--sizes 2000 4000 --cells 16 --repeats 2",
        2.5,
    ),
    Step("proteins", "experiments/proteins.py", "", "--sizes 500 --draws 1 --designs 0", 30.0, (PROTEINS,)),
    Step("portfolios", "experiments/portfolios.py", "", "--scenarios SAT11-HAND --splits random", 15.0, SOLVERS),
    Step("shop_slates", "experiments/shop_slates.py", "", "--quick", 4.0, SHOP),
    Step("news_lists", "experiments/news_lists.py", "", "--quick --parts 5-6", 12.0, NEWS),
    Step("hotel_lists", "experiments/hotel_lists.py", "", "--quick", 6.0, (HOTELS,)),
    Step("line_ups", "experiments/line_ups.py", "", "--quick", 20.0, (MATCHES,)),
    Step("halo", "benchmarks/halo_mnl_baskets.py", "", "--items 8", 1.5, BASKETS),
)

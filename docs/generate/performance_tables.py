"""The tables of docs/evidence/performance.md, computed from the raw rows in benchmarks/rows.

    python docs/generate/performance_tables.py      rewrites the tables; a test compares them with the rows

A table stands between the lines `<!-- table: NAME -->` and `<!-- /table -->`.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "rows"
PAGE = ROOT / "docs" / "evidence" / "performance.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)
RANKERS = (("knn", ""), ("greedy", ""), ("beam", "100"), ("swap", ""))
REJECT_MS = 20  # a rejection must not take longer

Row = dict[str, str]


def read_rows(name: str) -> list[Row]:
    """The rows of a CSV file of benchmarks/rows, gzipped or not."""
    content = (ROWS / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    return list(csv.DictReader(text.splitlines()))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table that ends with a newline."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def quantile(numbers: Sequence[float], share: float) -> float:
    """The smallest number that is at least as large as this share of all numbers."""
    return sorted(numbers)[min(int(share * len(numbers)), len(numbers) - 1)]


# --- one function a table ---


def retrieval_table() -> str:
    """Time of a retrieval pass by catalogue size and backend, and its ratio to the numpy backend."""
    rows = read_rows("retrieval.csv")
    reference = {(row["data"], row["n"]): float(row["ms_1"]) for row in rows if row["backend"] == "numpy"}
    head = ("Vectors", "Items", "Backend", "Recall", "ms, 1 user", "of numpy", "ms a user, 32 users", "of numpy")
    return markdown_table(head, (_retrieval_row(row, reference[row["data"], row["n"]]) for row in rows))


def _retrieval_row(row: Row, reference_ms: float) -> list[str]:
    measured = [float(row[name] or "nan") for name in ("ms_1", "ms_32")]
    times = ["" if math.isnan(ms) else cell for ms in measured for cell in (f"{ms:.2f}", f"{ms / reference_ms:.3f}")]
    return [row["data"], f"{int(row['n']):,}", f"`{row['backend']}`", f"{float(row['recall']):.4f}", *times]


def ranking_table() -> str:
    """Mean share of the best known value, by family of instances and ranker."""
    return _by_family(lambda row: max(0.0, float(row["value"]) / float(row["best_known"])), ".3f")


def ranking_time_table() -> str:
    """Mean milliseconds, by family of instances and ranker."""
    return _by_family(lambda row: float(row["microseconds"]) / 1000, ".1f")


def _by_family(number: Callable[[Row], float], form: str) -> str:
    rows = read_rows("ranking.csv")
    body = []
    for family in dict.fromkeys(row["family"] for row in rows):
        groups = (
            [number(row) for row in rows if (row["family"], row["ranker"], row["budget"]) == (family, *method)]
            for method in RANKERS
        )
        body.append([family, *(f"{statistics.fmean(group):{form}}" for group in groups)])
    return markdown_table(("Family", *(f"`{ranker}` {budget}".strip() for ranker, budget in RANKERS)), body)


def serving_table() -> str:
    """What HTTP adds to a request, for requests with and without an upper bound."""
    rows = read_rows("serving.csv")

    def median(way: str, kind: str) -> float:
        return statistics.median(float(row["ms"]) for row in rows if (row["way"], row["kind"]) == (way, kind))

    body = []
    for kind, label in (("certified", "with an upper bound"), ("fast", "vector search by score, no bound")):
        http, inside, other = (median(way, kind) for way in ("http", "in process", "elsewhere"))
        times = [f"{http:.2f}", f"{inside:.2f}", f"{other:.2f}"]
        body.append([label, *times, f"{http - inside:+.2f}", f"{http - other:+.2f}"])
    head = ("Request", "HTTP, ms", "`recommend` in the worker, ms", "in another process, ms", "HTTP adds", "or")
    return markdown_table(head, body)


def _two_quantiles(numbers: Sequence[float]) -> str:
    """Median and 99th percentile; none of no numbers."""
    return f"p50 {quantile(numbers, 0.5):.2f}, p99 {quantile(numbers, 0.99):.2f}" if numbers else "none was rejected"


def overload_table() -> str:
    """Statuses and latencies while five times the capacity is offered."""
    rows = [row for row in read_rows("overload.csv.gz") if row["phase"] in ("overload", "overload 5")]
    requests = [row for row in rows if row["what"] == "recommend"]
    rejected = [float(row["ms"]) for row in requests if row["status"] == "503"]
    probes = [row for row in rows if row["what"] != "recommend"]
    failed = sum(row["status"] != "200" for row in probes)
    fast = sum(ms <= REJECT_MS for ms in rejected)
    body = [
        ["requests offered", f"{len(requests):,}"],
        ["answered with a slate (200)", f"{sum(row['status'] == '200' for row in requests):,}"],
        ["rejected (503)", f"{len(rejected):,}"],
        [f"rejected within {REJECT_MS} ms", f"{fast:,} of {len(rejected):,}"],
        ["time of a rejection, ms", _two_quantiles(rejected)],
        ["slowest rejection, ms", f"{max(rejected):.2f}" if rejected else "none was rejected"],
        ["failed probes", f"{failed:,} of {len(probes):,}"],
    ]
    return markdown_table(("Quantity", "Measured"), body)


TABLES: dict[str, Callable[[], str]] = {
    "retrieval": retrieval_table,
    "ranking": ranking_table,
    "ranking_time": ranking_time_table,
    "serving": serving_table,
    "overload": overload_table,
}


def with_current_tables(page: str) -> str:
    """The page with every marked table computed anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", page)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(with_current_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Mutation test: change one operator, constant or call in a module, run the module's own tests, count what they notice.

    python benchmarks/mutants.py --per-module 6 --seed 0
    python benchmarks/mutants.py --only ranking/beam --per-module 20
    python benchmarks/mutants.py --processes 16 --per-module 8     on many cores

A mutant is *killed* if a test fails, and *survives* if all tests pass; one whose tests run four times as long as
without the change and half a minute more, such as an endless loop, is counted by itself. The score is the share of
killed mutants; survivors are printed with line and change, to be read one by one: some change nothing that a caller can
observe (a tolerance, a limit of sizes, the order of equal items). Mutants are drawn from all places of a module where
an operator applies, without docstrings, annotations, decorators and messages of errors. The tests run in a copy of the
package, so the working tree is never changed; with ``--processes`` N mutants run at the same time, each in a copy of
its own, which first compiles what its tests need.

Of the modules of compiled loops, those are included whose tests run interpreted (``NUMBA_DISABLE_JIT``), or compile
within seconds. The others are left out: a change makes numba compile all their callers for minutes, and interpreted
their tests take longer still. Rows go to report/mutants.csv as they come; rows of earlier runs are kept, and their
mutants are not run again. What survived is explained in docs/evidence/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 4  # times as long as without the change, and SECONDS more
SECONDS = 30.0
KILLED, SURVIVED, ENDLESS = "killed", "survived", "endless"
FIELDS = ("module", "number", "line", "change", "result", "seconds")

NO_SHRINKING = """
from hypothesis import Phase, settings
settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
settings.load_profile("mutants")  # the profile of the tests is derived from it: a first failure is enough
"""

# module: its tests
TARGETS: dict[str, tuple[str, ...]] = {
    "kernels/cache.py": ("kernels/test_cache.py",),
    "model/added_scores.py": ("model/test_added_scores.py",),
    "model/alone.py": ("model/test_alone.py",),
    "model/base_terms.py": ("model/test_base_terms.py",),
    "model/batch_objective.py": ("model/test_batch_objective.py",),
    "model/catalog.py": ("model/test_catalog.py", "model/test_objective.py"),
    "model/constraints.py": ("model/test_constraints.py", "ranking/test_greedy.py", "ranking/test_lower_limits.py"),
    "model/eligibility.py": ("model/test_eligibility.py",),
    "model/encoder.py": ("model/test_encoder.py",),
    "model/ids.py": ("model/test_ids.py",),
    "model/instance.py": ("model/test_instance.py", "model/test_alone.py"),
    "model/objective.py": ("model/test_objective.py",),
    "model/rewards.py": ("model/test_rewards.py", "model/test_registered_rewards.py"),
    "retrieval/kmeans.py": ("retrieval/test_kmeans.py",),
    "retrieval/clusters.py": ("retrieval/test_partition.py",),
    "retrieval/partition.py": ("retrieval/test_partition.py",),
    "ranking/beam.py": ("ranking/test_beam.py",),
    "ranking/paper.py": ("ranking/test_paper.py",),
    "ranking/partial_set.py": ("ranking/test_kernels.py", "ranking/test_beam.py"),
    "bounds/candidates/branch_and_bound.py": (
        "bounds/test_candidates.py",
        "bounds/test_upward_rounding.py",
        "bounds/test_workspace.py",
    ),
    "bounds/candidates/upper_bound.py": ("bounds/test_candidates.py",),
}

# small modules of compiled loops, whose tests run interpreted
INTERPRETED: dict[str, tuple[str, ...]] = {
    "kernels/heap.py": ("kernels/test_heap.py",),
    "kernels/largest.py": ("kernels/test_heap.py",),
    "retrieval/partner_kernels.py": ("retrieval/test_partners.py",),
}
# the same, compiled again for every mutant
COMPILED: dict[str, tuple[str, ...]] = {"kernels/softmax.py": ("kernels/test_softmax.py",)}
ALL = TARGETS | INTERPRETED | COMPILED

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
RENAMED = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
    "any": "all", "all": "any", "ceil": "floor", "floor": "ceil", "exp": "expm1", "log1p": "log",
}  # fmt: skip

Change = tuple[int, str, Callable[[], None]]


def changes(tree: ast.Module) -> Iterator[Change]:
    """Line, description and action of every change that can be made to the tree."""
    for node in _code(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Compare):
            for place, operator in enumerate(node.ops):
                if type(operator) in SWAPPED:
                    yield line, _named(operator), lambda n=node, p=place, o=operator: n.ops.__setitem__(p, _other(o))
        elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPPED:
            yield line, _named(node.op), lambda n=node: setattr(n, "op", _other(n.op))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield line, f"{node.value} to {_next(node.value)}", lambda n=node: setattr(n, "value", _next(n.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield line, f"{node.value} to {not node.value}", lambda n=node: setattr(n, "value", not n.value)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield line, "negate the condition", lambda n=node: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        elif isinstance(node, ast.Attribute) and node.attr in RENAMED:
            yield line, f"{node.attr} to {RENAMED[node.attr]}", lambda n=node: setattr(n, "attr", RENAMED[n.attr])
        elif isinstance(node, ast.Name) and node.id in RENAMED:
            yield line, f"{node.id} to {RENAMED[node.id]}", lambda n=node: setattr(n, "id", RENAMED[n.id])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
            yield line, "drop a sign", lambda n=node: setattr(n, "op", ast.UAdd()) if _signed(n) else _plain(n)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, decorators, imports, errors and their messages."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            skipped = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)
            if isinstance(child, ast.AST) and not isinstance(child, skipped):
                yield from _code(child)


def _other(operator: ast.AST) -> ast.AST:
    return SWAPPED[type(operator)]()


def _named(operator: ast.AST) -> str:
    return f"{type(operator).__name__} to {SWAPPED[type(operator)].__name__}"


def _next(value: float) -> float:
    return value + 1 if isinstance(value, int) else value * 2 + 0.5 * (value == 0)


def _signed(node: ast.UnaryOp) -> bool:
    return isinstance(node.op, ast.USub)


def _plain(node: ast.UnaryOp) -> None:
    """Replace not x and ~x by bool(x) and x: a double negation keeps the type."""
    node.operand = ast.UnaryOp(copy.deepcopy(node.op), node.operand)


def mutant(source: str, number: int) -> tuple[int, str, str]:
    """Line, description and source of the mutant of this number."""
    tree = ast.parse(source)
    line, description, act = list(changes(tree))[number]
    act()
    return line, description, ast.unparse(ast.fix_missing_locations(tree))


def outcome(folder: Path, module: str, limit: float | None) -> str:
    """What the tests of the module say about the copy."""
    tests = [str(ROOT / "tests" / name) for name in ALL[module]]
    plugins = [part for name in ("no:xdist", "no:cacheprovider", "no_shrinking") for part in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *plugins, *tests]
    places = [str(folder / "src"), str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]  # the copy comes first
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "CI": "1"}
    own = folder / "compiled"  # elsewhere, so that the machine code in the copy is not removed as stale
    if module in INTERPRETED or module in COMPILED:
        shutil.rmtree(own, ignore_errors=True)
        environment |= {"NUMBA_CACHE_DIR": str(own), "NUMBA_DISABLE_JIT": str(int(module in INTERPRETED))}
    try:
        run = subprocess.run(command, cwd=ROOT, env=environment, timeout=limit, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return ENDLESS
    if run.returncode == 5:  # no tests; a crash by a signal is noticed like a failure
        raise RuntimeError(run.stdout.decode()[-2000:])
    return KILLED if run.returncode else SURVIVED


class Copies:
    """Copies of the package; each runs the tests of one mutant at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(count):
            copied = folder / str(number)
            shutil.copytree(ROOT / "src", copied / "src", copy_function=shutil.copy2)
            (copied / "no_shrinking.py").write_text(NO_SHRINKING)
            self._free.put(copied)

    def seconds(self, module: str) -> float | None:
        """How long the tests of a module take without a change; None if they fail."""
        folder = self._free.get()
        try:
            start = time.perf_counter()
            passed = outcome(folder, module, None) == SURVIVED
            return time.perf_counter() - start if passed else None
        finally:
            self._free.put(folder)

    def run(self, module: str, number: int, limit: float) -> dict[str, object]:
        """The row of one mutant."""
        folder = self._free.get()
        path = folder / "src" / "setwise" / module
        source, stamp = path.read_text(), path.stat()
        line, change, text = mutant(source, number)
        try:
            path.write_text(text)
            start = time.perf_counter()
            result = outcome(folder, module, limit)
        finally:
            path.write_text(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # compiled code of the original stays valid
            self._free.put(folder)
        known = {"module": module, "number": number, "line": line, "change": change, "result": result}
        return known | {"seconds": round(time.perf_counter() - start, 1)}


def drawn(options: argparse.Namespace, done: set[tuple[str, int]]) -> dict[str, list[int]]:
    """The mutants to run, by module."""
    result = {}
    for module in (one for one in ALL if one.startswith(options.only)):
        total = len(list(changes(ast.parse((ROOT / "src/setwise" / module).read_text()))))
        numbers = random.Random(f"{options.seed} {module}").sample(range(total), min(options.per_module, total))
        if numbers := [one for one in numbers if (module, one) not in done]:
            result[module] = numbers
    return result


def run_all(copies: Copies, wanted: dict[str, list[int]], processes: int) -> Iterator[dict[str, object]]:
    """The rows of all mutants as they come; the mutants of the longest tests first."""
    with ThreadPoolExecutor(processes) as pool:
        measured = dict(zip(wanted, pool.map(copies.seconds, wanted), strict=True))
        for module in (one for one, took in measured.items() if took is None):
            print(f"{module} is left out: its tests fail without a change", file=sys.stderr)
        seconds = {module: took for module, took in measured.items() if took is not None}
        waiting = [
            pool.submit(copies.run, module, number, SECONDS + PATIENCE * seconds[module])
            for module in sorted(seconds, key=lambda one: -seconds[one])
            for number in wanted[module]
        ]
        for future in as_completed(waiting):
            yield future.result()


def read_rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-module", type=int, default=6, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules whose name starts so")
    parser.add_argument("--rows", type=Path, default=Path("report/mutants.csv"))
    parser.add_argument("--processes", type=int, default=1, help="mutants that run at the same time")
    options = parser.parse_args()
    options.rows.parent.mkdir(exist_ok=True)
    wanted = drawn(options, {(row["module"], int(row["number"])) for row in read_rows(options.rows)})
    with tempfile.TemporaryDirectory() as name:
        for row in run_all(Copies(Path(name), options.processes), wanted, options.processes):
            append(options.rows, row)
            print(row, flush=True)
    report(read_rows(options.rows))


def append(path: Path, row: dict[str, object]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def report(rows: list[dict[str, str]]) -> None:
    count = {result: sum(row["result"] == result for row in rows) for result in (KILLED, SURVIVED, ENDLESS)}
    share = count[KILLED] / max(1, count[KILLED] + count[SURVIVED])
    print(f"{share:.1%} of {count[KILLED] + count[SURVIVED]} mutants killed, {count[ENDLESS]} endless; survivors:")
    for row in rows:
        if row["result"] == SURVIVED:
            print(f"  {row['module']}:{row['line']} {row['change']}")


if __name__ == "__main__":
    main()

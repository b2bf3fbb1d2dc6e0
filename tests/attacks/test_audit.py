"""Python's audit events while hostile names are loaded, recommended and saved: no file elsewhere, no connection, no process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import processes
import setwise as sw
from worlds import random_catalog

pytestmark = pytest.mark.nightly

NAMES = 2000
PIECES = (
    "../", "..\\", "/etc/passwd", "file:///etc/shadow", "http://127.0.0.1:1/", "\\\\host\\share", "~root", "$HOME", "|id",
    "`id`", "$(id)", "; rm -rf x", "CON", "nul", "\x1b[2J", "\u202e", "%2e%2e%2f", "{0.__class__}", "%s%n", "__import__('os')",
    "=cmd()", "<script>", "' OR 1=1 --", "*", "?", "\u0000"[:0] + "a\tb", "\ud7ff", "a" * 300, "/proc/self/environ", "/dev/zero",
)  # fmt: skip
CHILD = """
import json, sys
from pathlib import Path
import numpy as np
import setwise as sw
root, work = Path(sys.argv[1]), Path(sys.argv[2])
sw.Recommender.load(root).recommend(np.ones((2, 3)), k=3, budget_ms=500)  # what is compiled or imported later is so now
allowed = [str(Path(one).resolve()) for one in (root, work, sys.prefix, sys.base_prefix, Path(sw.__file__).parent)]
seen = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode(errors="replace")
        if not any(str(Path(path).resolve()).startswith(one) for one in allowed):
            seen.append([event, path])
    elif event.startswith(("socket.", "subprocess.", "os.exec", "os.system", "os.fork", "ctypes.dlopen", "urllib")):
        seen.append([event, repr(arguments)[:200]])
sys.addaudithook(hook)
recommender = sw.Recommender.load(root)
names = list(recommender.index.catalog.ids)
for number, name in enumerate(names):
    user = np.random.default_rng(number).normal(size=(2, 3))
    slate = recommender.recommend(user, k=2, include=[name], where={"kind": str(name)}, budget_ms=2, certify=False)
    assert name in slate.items.tolist()
    if number % 10 == 0:
        slate.save(work / "slate.json")
        repr(slate), slate.to_dict(), recommender.explain(slate)
    try:
        recommender.recommend(user, k=2, exclude=[name + "x"], where={name: 1}, budget_ms=2)
    except sw.errors.SetwiseError as error:
        str(error)
recommender.index.save(work / "index")
print(json.dumps([len(names), seen]))
"""


@pytest.mark.promise("audit")
def test_hostile_names_open_nothing(tmp_path: Path, count, record_property) -> None:
    rng = np.random.default_rng(3)
    wanted = count(NAMES)
    names = {"".join(rng.choice(PIECES, rng.integers(1, 4))) + str(number) for number in range(wanted)}
    catalog, _ = random_catalog(0, n=wanted, heads=2, ids=sorted(names), attributes={"kind": sorted(names)})
    (tmp_path / "work").mkdir()
    sw.Recommender(sw.Index.build(catalog, cells=4, progress=False)).save(tmp_path / "root")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "root"), str(tmp_path / "work")]
    found = processes.run(command, limit=3600)
    assert found.returncode == 0, found.stderr[-2000:]
    used, seen = json.loads(found.stdout)
    assert not seen
    assert used == wanted
    record_property("seen", f"{used} names: no file elsewhere, no connection, no process")

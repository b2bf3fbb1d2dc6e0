"""A new argument of a request is an entry of recommend/arguments.py and its use in ``Query.parse``: two files.

setwise gets the argument ``fewer`` by copies of these two files alone, and is asked for it at every door.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import processes
import setwise

ENTRY = (
    '    """What all users of a call share."""\n',
    '\n    fewer: Annotated[int | None, Argument("So many items fewer than k.")]\n',
)
PARAMETER = ("        *,\n        k: int | None = SLATE_SIZE,\n", "        fewer: int | None = None,\n")
USE = ("        size = size_within(k, sums)", " - (fewer or 0)")
TESTS = Path(__file__).parents[1]
K, FEWER = 5, 2

ASK = """
import importlib.util, inspect, json, sys, time
from pathlib import Path

class Changed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        file = Path(sys.argv[1], f"{name}.py")
        return importlib.util.spec_from_file_location(name, file) if file.exists() else None

sys.meta_path.insert(0, Changed)
import msgspec, numpy as np, pyarrow.parquet
from typer.testing import CliRunner
import setwise as sw
from in_process import cluster_of, world
from setwise import cli
from setwise.service.decoding import decode_recommend
from setwise.service.handlers import Handlers, TaskMessage
from setwise.service.http import ROUTES
from setwise.service.openapi import document
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings

folder, k, fewer = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
catalog, user = world(0, 40)
recommender, vector = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), user.heads.ravel().tolist()
recommender.save(folder / "saved")
front = cluster_of(recommender, folder / "cluster", 2)[0]
sizes, said = {}, {}
for name, door in {"python": recommender, "cluster": front}.items():
    sizes[name] = len(door.recommend(user, k, fewer=fewer).items)
    sizes[f"{name}, many"] = len(door.recommend_many([user], k, fewer=fewer)[0].items)
    said[name] = [str(inspect.signature(call)) for call in (door.recommend, door.recommend_many)]

body = json.dumps({"user": {"heads": user.heads.tolist()}, "k": k, "fewer": fewer, "certify": False})
request, now = msgspec.json.encode(decode_recommend(body.encode(), Settings())), time.monotonic()
handlers = Handlers(ServedArtifact.open(folder / "saved", "v"), Settings())
reply = next(handlers.replies([TaskMessage("recommend", msgspec.Raw(request), now, now + 60)]))
sizes["http"] = len(json.loads(reply.outcome)["items"])
said["http"] = [json.dumps(document(ROUTES, Settings(), False)["components"]["schemas"]["RecommendRequest"])]

def run(*arguments):
    result = CliRunner().invoke(cli.app, [*map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout

(folder / "user.json").write_text(json.dumps(user.heads.tolist()))
asked = "--k", k, "--fewer", fewer, "--json"
answer = run("recommend", folder / "saved", "--user-json", folder / "user.json", *asked)
sizes["command line"] = len(json.loads(answer)["items"])
said["command line"] = [run("recommend", "--help"), run("batch", "--help")]
(folder / "users.jsonl").write_text(json.dumps({"user": "u", "vector": vector}))
table = "batch", folder / "users.jsonl", "--model", folder / "saved", "--out", folder / "slates.parquet"
run(*table, "--vector", "vector", "--processes", 1, *asked)
sizes["batch"] = len(pyarrow.parquet.read_table(folder / "slates.parquet").to_pylist()[0]["items"])
print("ANSWERS", json.dumps([sizes, said]))
"""


def changed(module: str, folder: Path, *additions: tuple[str, str]) -> None:
    """A copy of the module with each second text added after the first, which is there once."""
    text = Path(setwise.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
    for place, addition in additions:
        assert text.count(place) == 1, place
        text = text.replace(place, place + addition)
    (folder / f"{module}.py").write_text(text)


def test_a_new_argument_is_taken_at_every_door_from_two_files(tmp_path: Path) -> None:
    changed("setwise.recommend.arguments", tmp_path, ENTRY)
    changed("setwise.recommend.query", tmp_path, PARAMETER, USE)
    path = ":".join(map(str, (Path(setwise.__file__).parents[1], TESTS)))
    command = [sys.executable, "-c", ASK, tmp_path, K, FEWER]
    result = processes.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    sizes, said = json.loads(result.stdout.split("ANSWERS ")[1])
    assert sizes == dict.fromkeys(sizes, K - FEWER)
    assert len(sizes) == 7
    assert all("fewer" in text for texts in said.values() for text in texts)
    assert "So many items fewer than k." in said["http"][0]
    assert all("So many items fewer than k." in text for text in said["command line"])

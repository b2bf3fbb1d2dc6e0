"""Saved artifacts changed at random, with digests that are right again, and what opening and using them does.

Each mutant is opened and used in a child process: a signal, an endless loop and memory are then seen from outside. A
child goes through a range of seeds and writes each outcome to a file at once, so that the seed of a signal is known.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from setwise.errors import DamagedArtifact, SetwiseError
from setwise.storage import artifact

SECONDS = 60  # a mutant that takes longer is endless, on the slowest machine
MEMORY = 64 << 20  # bytes that opening and using may take beside twice the file
EXTREMES = (0, 1, -1, 2, 127, -128, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1)
REALS = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 1e38)
DTYPES = tuple(np.dtype(kind) for kind in ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u1", "?"))
OTHERS = (None, True, -1, 2**70, 1.5, 1e308, "", "x", [], {}, [[]], [None], {"a": 1})


def mutant(folder: Path, source: Path, kind: str, seed: int) -> str:
    """Write the mutant of this seed to ``folder``; what was changed."""
    rng = np.random.default_rng([seed, 17])
    saved = artifact.read(source, kind)
    arrays, meta = {name: np.array(one) for name, one in saved.arrays.items()}, copy.deepcopy(saved.meta)
    done = []
    for _ in range(int(rng.integers(1, 3))):
        change = (array_change, array_change, array_change, meta_change)[rng.integers(4)]
        done.append(change(rng, arrays, meta))
    artifact.write(folder, kind, arrays, meta)
    if rng.random() < 0.15:
        done.append(file_change(rng, folder))
    return "; ".join(done)


def array_change(rng: np.random.Generator, arrays: dict[str, Any], meta: Any) -> str:
    """Change, drop, rename or replace one array."""
    if not arrays:
        return "nothing left"
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, way = arrays[name], int(rng.integers(9))
    if way < 3 and array.size:
        count = int(rng.integers(1, 4))
        values = REALS if array.dtype.kind == "f" else EXTREMES
        for _ in range(count):
            value = values[rng.integers(len(values))]
            with np.errstate(all="ignore"):
                array.reshape(-1)[rng.integers(array.size)] = np.array(value).astype(array.dtype)
    elif way == 3:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(DTYPES[rng.integers(len(DTYPES))])
    elif way == 4:
        del arrays[name]
    elif way == 5:
        arrays[name] = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    elif way == 6:
        arrays[name] = array.reshape(-1) if rng.random() < 0.5 else array[None]
    elif way == 7:
        flat = array.reshape(-1).copy()
        rng.shuffle(flat)
        arrays[name] = flat.reshape(array.shape)
    else:
        other = sorted(arrays)[rng.integers(len(arrays))]
        arrays[name], arrays[other] = arrays[other], array
        return f"{name} and {other} exchanged"
    return f"{name}: way {way}"


def meta_change(rng: np.random.Generator, arrays: dict[str, Any], meta: Any) -> str:
    """Replace, drop or add a node of the metadata."""
    places = list(nodes(meta))
    if not places:
        return "no metadata"
    parent, key = places[rng.integers(len(places))]
    if rng.random() < 0.3:
        del parent[key]
        return f"metadata without {key!r}"
    parent[key] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    return f"metadata {key!r}: {parent[key]!r}"


def nodes(tree: Any) -> Any:
    """All places in a tree of JSON data: (container, key)."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from nodes(tree[key])


def file_change(rng: np.random.Generator, folder: Path) -> str:
    """Change the header of the data file or the manifest itself, with digests that fit."""
    content = json.loads((folder / "manifest.json").read_bytes())["manifest"]
    if rng.random() < 0.5:
        parent, key = (places := list(nodes(content)))[rng.integers(len(places))]
        parent[key] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
        what = f"manifest {key!r}: {parent[key]!r}"
    else:
        what = header_change(rng, folder, content)
    (folder / "manifest.json").write_bytes(artifact._canonical(content))
    return what


def header_change(rng: np.random.Generator, folder: Path, content: dict[str, Any]) -> str:
    """Change one number of the header of the data file; the digest in the manifest's content follows."""
    path = folder / content["data"]["file"]
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    parent, key = (places := list(nodes(header)))[rng.integers(len(places))]
    parent[key] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    body = json.dumps(header).encode()
    raw = len(body).to_bytes(8, "little") + body + raw[8 + size :]
    if rng.random() < 0.2:
        raw = int(EXTREMES[rng.integers(len(EXTREMES))] % 2**64).to_bytes(8, "little") + raw[8:]
    digest = hashlib.sha256(raw).hexdigest()
    path.unlink()
    content["data"] = {"file": f"arrays-{digest[:16]}.safetensors", "bytes": len(raw), "sha256": digest}
    (folder / content["data"]["file"]).write_bytes(raw)
    return f"header {key!r}: {parent[key]!r}"


def outcome(folder: Path, opened: Callable[[Path], Any], used: Callable[[Any], None]) -> str:
    """ "refused", "accepted", or what went wrong."""
    size = sum(entry.stat().st_size for entry in folder.iterdir())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        thing = opened(folder)
    except DamagedArtifact:
        return "refused"
    except BaseException:
        return "opening: " + traceback.format_exc(limit=-2)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > 2 * size + MEMORY:
        return f"opening: {grown} bytes for a file of {size}"
    try:
        used(thing)
    except SetwiseError:
        return "accepted"
    except BaseException:
        return "use: " + traceback.format_exc(limit=-2)
    return "accepted"


def outcomes(
    seeds: range, source: Path, kind: str, folder: Path, opened: Callable[[Path], Any], used: Callable[[Any], None]
) -> dict[int, str]:
    """The outcome of each mutant; children are started again after a signal."""
    found: dict[int, str] = {}
    left = list(seeds)
    while left:
        log = folder / "log"
        log.write_text("")
        child = os.fork()
        if child == 0:
            _child(left, source, kind, folder, opened, used, log)
        _, status = os.waitpid(child, 0)
        for line in log.read_text().splitlines():
            seed, *rest = json.loads(line)
            found[seed] = " | ".join(rest)
        left = [seed for seed in left if seed not in found]
        if os.WIFSIGNALED(status) and left:
            found[left[0]] = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
            left = left[1:]
    return found


def _child(left: list[int], source: Path, kind: str, folder: Path, opened: Any, used: Any, log: Path) -> None:
    """Go through the seeds and end the process."""
    with log.open("a") as file:
        for seed in left:
            signal.alarm(SECONDS)
            place = folder / f"m{seed}"
            try:
                what = mutant(place, source, kind, seed)
                result = outcome(place, opened, used)
            except BaseException:
                what, result = "harness", traceback.format_exc()
            file.write(json.dumps([seed, result, what]) + "\n")
            file.flush()
            for entry in place.iterdir() if place.is_dir() else ():
                entry.unlink()
            if place.is_dir():
                place.rmdir()
    os._exit(0)

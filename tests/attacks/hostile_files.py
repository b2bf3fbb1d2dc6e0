"""A corpus of hostile files, and a child process in which each is opened: what it did is seen from outside."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import resource
import signal
import struct
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np

from setwise.errors import SetwiseError

SECONDS = 120  # a file that takes longer is endless, on the slowest machine
MEMORY = 3 << 29  # bytes of address space that opening may take
BOMB = 3 << 30  # bytes of a decompressed bomb
BLOCK = 1 << 20  # bytes that are compressed once and repeated
HEADER = b"session,item\n"
SHAPE = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"  # of an array file


class Canary:
    """Unpickling it makes the folder ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (self.path,)


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_bomb(name: str, first: bytes) -> bytes:
    """A zip file with one member that decompresses to ``first`` and BOMB bytes."""
    packed, crc, size = deflated(first, b"0" * BLOCK)
    about = (20, 0, zipfile.ZIP_DEFLATED, 0, 33, crc, len(packed), size, len(name), 0)  # 33: the first of January 1980
    local = struct.pack("<4s5H3I2H", b"PK\3\4", *about) + name.encode() + packed
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, *about, 0, 0, 0, 0, 0) + name.encode()
    return local + entry + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)


def gzip_bomb(first: bytes, block: bytes) -> bytes:
    """A gzip file that decompresses to ``first`` and BOMB bytes."""
    packed, crc, size = deflated(first, block * (BLOCK // len(block)))
    return b"\x1f\x8b\x08" + b"\0" * 6 + b"\xff" + packed + struct.pack("<II", crc, size)


def deflated(first: bytes, block: bytes) -> tuple[bytes, int, int]:
    """``first`` and BOMB bytes of ``block`` after ``block``, compressed; their CRC-32 and size.

    After a full flush nothing refers to what came before, so one compressed block can be repeated. Another block
    changes the CRC by an affine map over GF(2), which is known by its values at 0 and at the 32 single bits.
    """
    packer, times = zlib.compressobj(1, wbits=-15), BOMB // len(block)
    start, part = (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH) for piece in (first, block))
    at_zero, crc = zlib.crc32(block), zlib.crc32(first)
    columns = [zlib.crc32(block, 1 << bit) ^ at_zero for bit in range(32)]
    for _ in range(times):
        crc = reduce(xor, (column for bit, column in enumerate(columns) if crc >> bit & 1), at_zero)
    return start + part * times + packer.flush(), crc, len(first) + times * len(block)


def npy(array: np.ndarray, pickled: bool = False) -> bytes:
    """An array file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def npy_header(text: str) -> bytes:
    """An array file with this header and no data."""
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def pickles(canary: Path) -> dict[str, bytes]:
    """Pickled objects in every wrapping that scientific Python has."""
    objects = np.array([Canary(canary)], object)
    plain = {f"protocol {number}": pickle.dumps(Canary(canary), number) for number in range(6)}
    return plain | {
        "object array": npy(objects, pickled=True),
        "object arrays in a zip": zipped({f"{name}.npy": npy(objects, pickled=True) for name in ("query", "key")}),
        "torch": zipped({"archive/data.pkl": pickle.dumps(Canary(canary)), "archive/version": b"3"}),
        "joblib": gzip.compress(pickle.dumps(Canary(canary))),
        "pickle before JSON": pickle.dumps(Canary(canary)) + b'{"sha256": 1}',
        "pickle after a header": HEADER + pickle.dumps(Canary(canary)),
    }


def texts() -> dict[str, bytes]:
    """Tables and JSON that are not what they seem."""
    deep = b"[" * 200_000 + b"]" * 200_000
    return {
        "empty": b"",
        "NUL": b"\0" * 1000,
        "deep JSON": deep,
        "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "huge number": b'{"session": 1, "item": ' + b"9" * 100_000 + b"}",
        "huge exponent": b'{"session": 1, "item": 1e999999999}',
        "NaN": b'{"session": NaN, "item": Infinity}',
        "same key twice": b'{"session": 1, "session": 2, "item": 3}',
        "lone surrogate": b'{"session": 1, "item": "\\ud800"}',
        "bytes that are no text": bytes(range(256)) * 40,
        "open quote": HEADER + b'1,"' + b"x" * 100_000,
        "one long cell": HEADER + b"1," + b"x" * 5_000_000,
        "many columns": b",".join(b"c%d" % i for i in range(100_000)) + b"\n",
        "UTF-16 without an end": b"\xff\xfe" + HEADER.decode().encode("utf-16-le") + b"\x00\xd8",
        "formula": HEADER + b'=cmd|"/c calc"!A1,2\n1,@SUM(1)\n',
        "template": HEADER + b"{{7*7}},${jndi:ldap://x}\n",
        "path as id": HEADER + b"../../etc/passwd,/dev/zero\n",
        "escape sequences": HEADER + b"\x1b[2J\x1b]0;x\x07,2\n",
        "HTML": b"<html><script>alert(1)</script></html>",
        "shell script": b"#!/bin/sh\ntouch canary\n",
        "XML entities": b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>',
        "YAML": b"!!python/object/apply:os.mkdir [canary]\n",
    }


def binaries() -> dict[str, bytes]:
    """Broken or lying binary files."""
    header = json.dumps({"query": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}).encode()
    tensors = len(header).to_bytes(8, "little") + header + b"\0" * 8
    arrays = {f"{name}.npy": npy(np.zeros((3, 1, 2), np.float32)) for name in ("query", "key", "value")}
    whole = zipped(arrays)
    return {
        "tensors": tensors,
        "tensors, long header": (2**63 - 1).to_bytes(8, "little") + header,
        "tensors, no header": b"\0" * 8,
        "arrays of 2^62": zipped({"query.npy": npy_header(SHAPE.format("<f4", "(4611686018427387904,)"))}),
        "arrays of negative shape": zipped({"query.npy": npy_header(SHAPE.format("<f4", "(-5,)"))}),
        "arrays without data": zipped({"query.npy": npy_header(SHAPE.format("<f4", "(1000000000,)"))}),
        "arrays with code as header": zipped({"query.npy": npy_header("__import__('os').mkdir('canary')")}),
        "arrays with a deep header": zipped({"query.npy": npy_header("(" * 60_000)}),
        "arrays, cut": whole[: len(whole) // 2],
        "arrays, wrong checksum": whole.replace(b"NUMPY", b"NUMPX"),
        "arrays, two of a name": _twice("query.npy", arrays["query.npy"]),
        "arrays outside": zipped({"../../query.npy": arrays["query.npy"], "/etc/key.npy": arrays["key.npy"]}),
        "arrays of text": zipped({"query.npy": npy(np.array(["a", "b"]))}),
        "arrays of dates": zipped({"query.npy": npy(np.array(["2020-01-01"], "M8[D]"))}),
        "arrays of records": zipped({"query.npy": npy(np.zeros(3, [("a", "f4"), ("b", "i8")]))}),
        "arrays of complex": zipped({"query.npy": npy(np.zeros((3, 1, 2), complex))}),
        "zip and tensors": tensors + whole,
        "PDF and zip": b"%PDF-1.4\n" + whole,
        "Parquet, cut": b"PAR1" + b"\0" * 100,
        "Parquet, long footer": b"PAR1" + b"\0" * 16 + struct.pack("<I", 0x7FFFFFFF) + b"PAR1",
        "SQLite": b"SQLite format 3\0" + b"\0" * 4096,
        "gzip, cut": gzip.compress(HEADER * 1000)[:60],
        "gzip in gzip": gzip.compress(gzip.compress(HEADER)),
        "ELF": b"\x7fELF" + b"\0" * 400,
    }


BOMBS: dict[str, Callable[[], bytes]] = {  # small files that decompress to gigabytes
    "gzip of one line": lambda: gzip_bomb(HEADER, b"x"),
    "gzip of NUL": lambda: gzip_bomb(b"", b"\0"),
    "gzip of UTF-16": lambda: gzip_bomb(b"\xff\xfe", b"a\0"),
    "zip of an array": lambda: zip_bomb("query.npy", npy_header(SHAPE.format("|u1", f"({BOMB},)"))),
}


def _twice(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
        archive.writestr(name.replace("q", "Q"), content)
    return buffer.getvalue().replace(name.replace("q", "Q").encode(), name.encode())


def opened_in_child(opened: Callable[[Path], Any], paths: list[Path], log: Path) -> Iterator[tuple[Path, str]]:
    """For each path "refused", "opened", or what went wrong. One child for all of them, and another after a signal."""
    left = list(paths)
    while left:
        log.write_text("")
        child = os.fork()
        if child == 0:
            _child(opened, left, log)
        _, status = os.waitpid(child, 0)
        done = [json.loads(line) for line in log.read_text().splitlines()]
        yield from zip(left, done, strict=False)
        left = left[len(done) :]
        if left and os.WIFSIGNALED(status):
            yield left.pop(0), f"ended by {signal.Signals(os.WTERMSIG(status)).name}"


def _child(opened: Callable[[Path], Any], paths: list[Path], log: Path) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, resource.RLIM_INFINITY))
    with log.open("a") as file:
        for path in paths:
            signal.alarm(SECONDS)
            try:
                opened(path)
                said = "opened"
            except SetwiseError as error:
                said = "refused" if "\n" not in str(error) and len(str(error)) < 1000 else f"long: {str(error)[:1000]}"
            except BaseException:
                said = traceback.format_exc(limit=-3)
            file.write(json.dumps(said) + "\n")
            file.flush()
    os._exit(0)

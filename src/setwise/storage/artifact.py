"""An artifact: a folder with one safetensors file of arrays and a manifest that commits it.

    folder/arrays-<digest>.safetensors     every array, named by the first digits of its own sha256
    folder/manifest.json                   kind, format version, that file's size and sha256, shapes, metadata

**Writing.** The arrays are written under their final name, flushed to the disk, and only then is the manifest replaced
by one ``rename`` of a flushed file: that rename is the commit. Killed before it, the folder still holds the old object;
killed after it, the new one. (Renaming a whole folder cannot do this: no portable call replaces a folder that is not
empty, and two renames leave a moment with neither.) Savers of one folder take turns by a lock that dies with its owner,
and what a killed one left behind is swept by the next.

**Reading.** The manifest carries a digest of its own and must be byte for byte what we would write; then the data file
is mapped and its sha256 compared; only then are arrays made, as views of the mapping. Nothing is copied or unpickled.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.errors import DamagedArtifact, InvalidInput

Part = TypeVar("Part")

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_DRAFTS = ".setwise-drafts"  # a name nobody else uses: it is swept
_DATA_FILE = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
           "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_}  # fmt: skip
_MANIFEST_LIMIT = 64 << 20  # bytes; a larger manifest is not one of ours
_ATTEMPTS = 5  # a reader that meets a save in progress looks again this often


@dataclass(frozen=True)
class Artifact:
    """What was read: its kind, arrays that view the mapped file, and the metadata."""

    kind: str
    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any]


def write(
    folder: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Save ``arrays`` and ``meta`` as an artifact of ``kind``, replacing atomically what ``folder`` held."""
    from safetensors.numpy import save_file

    folder = Path(folder)
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _refuse_unreadable(packed, meta)
    refuse_foreign(folder)
    _make(folder)
    with _turn(folder) as drafts:
        (drafts / "arrays").touch()
        mode = (drafts / "arrays").stat().st_mode  # as the umask wants it: the library lets the owner alone read
        save_file(packed, drafts / "arrays")
        (drafts / "arrays").chmod(mode)
        size, digest = _flush_and_digest(drafts / "arrays")
        data = folder / f"arrays-{digest[:16]}.safetensors"
        os.replace(drafts / "arrays", data)
        content = {
            "kind": kind,
            "version": FORMAT_VERSION,
            "data": {"file": data.name, "bytes": size, "sha256": digest},
            "arrays": {name: [str(array.dtype), list(array.shape)] for name, array in packed.items()},
            "meta": dict(meta),
        }
        _commit(folder, drafts / "manifest", content)
        for entry in folder.iterdir():
            if _DATA_FILE.fullmatch(entry.name) and entry.name != data.name:
                entry.unlink()


def read(folder: str | os.PathLike[str], *kinds: str, otherwise: str = "pass the folder of one") -> Artifact:
    """Open the artifact in ``folder``, checked and mapped; ``otherwise`` says what to do if it is of another kind."""
    folder = Path(folder)
    for _ in range(_ATTEMPTS):
        before = _manifest_bytes(folder)
        manifest = _checked_manifest(folder, before)
        if manifest.get("kind") not in kinds:
            reason = f"the kind is {manifest.get('kind')!r}, not {' or '.join(map(repr, kinds))}"
            raise DamagedArtifact(folder, reason, otherwise)
        try:
            mapped = _mapped(folder / manifest["data"]["file"])
        except FileNotFoundError:
            if _manifest_bytes(folder) != before:
                continue  # a save replaced the object between our two looks
            raise DamagedArtifact(folder, "the data file is missing") from None
        return Artifact(manifest["kind"], _checked_arrays(folder, mapped, manifest), manifest["meta"])
    raise DamagedArtifact(folder, "the manifest kept changing while it was read")


def under(prefix: str, parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts whose names begin with ``prefix``, by the rest of the name: an artifact may hold several objects."""
    return {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}


# --- writing -------------------------------------------------------------------------------------------------------


def _refuse_unreadable(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """What could not be read back must not replace what can."""
    for name, array in arrays.items():
        if array.dtype not in _DTYPES.values() or not array.dtype.isnative:
            raise InvalidInput(f"array '{name}'", "of a plain numeric type", f"dtype {array.dtype}", "convert it first")
    try:
        size = len(json.dumps(dict(meta), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput("metadata", "plain JSON data", str(error), "convert it first") from None
    if size > _MANIFEST_LIMIT // 4:  # indentation, names and shapes come on top
        raise InvalidInput("metadata", f"at most {_MANIFEST_LIMIT // 4:,} bytes", f"{size:,}", "save less with it")


def refuse_foreign(folder: Path) -> None:
    """Save only to a new or empty folder, or over an artifact of ours: nobody else's files are touched."""
    todo = "choose a folder that is new, empty or an artifact"
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir()}
        ours = {name for name in names if name == _DRAFTS or _DATA_FILE.fullmatch(name)}
        manifest = folder / _MANIFEST
        if (
            manifest.is_file()
            and manifest.stat().st_size <= _MANIFEST_LIMIT
            and b'"manifest":' in manifest.read_bytes()[:200]
        ):
            ours |= names
        if names - ours:
            raise InvalidInput("path", "a folder for this artifact alone", f"{folder} with other files", todo)
    elif folder.exists():
        raise InvalidInput("path", "a folder", f"the file {folder}", todo)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        todo = "choose a folder that can be written"
        raise InvalidInput("path", "a folder that can be made", f"{folder} ({error.strerror})", todo) from None


@contextmanager
def _turn(folder: Path) -> Iterator[Path]:
    """One saver at a time, with an empty folder for drafts; the lock is the folder's own and ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        drafts = folder / _DRAFTS
        shutil.rmtree(drafts, ignore_errors=True)
        drafts.mkdir()
        yield drafts
        drafts.rmdir()
    finally:
        os.close(descriptor)


def _canonical(content: Mapping[str, Any]) -> bytes:
    """The one spelling of ``content``; its own digest comes first, so that every byte of the file is covered."""
    body = json.dumps(content, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False).encode()
    return b'{"sha256": "' + hashlib.sha256(body).hexdigest().encode() + b'", "manifest":\n' + body + b"}\n"


def _flush_and_digest(path: Path) -> tuple[int, str]:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _commit(folder: Path, draft: Path, content: Mapping[str, Any]) -> None:
    with draft.open("wb") as file:
        file.write(_canonical(content))
        file.flush()
        os.fsync(file.fileno())
    _flush_folder(folder)  # the data file's name is on the disk before the manifest speaks of it
    os.replace(draft, folder / _MANIFEST)
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading -------------------------------------------------------------------------------------------------------


def _manifest_bytes(folder: Path) -> bytes:
    try:
        size = (folder / _MANIFEST).stat().st_size
        if size <= _MANIFEST_LIMIT:
            return (folder / _MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        todo = "check the path: it must be a folder that setwise saved"
        raise DamagedArtifact(folder, "there is no manifest.json", todo) from None
    raise DamagedArtifact(folder, f"manifest.json has {size} bytes, more than any of ours")


def _checked_manifest(folder: Path, raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)["manifest"]
        intact = _canonical(content) == raw
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise DamagedArtifact(folder, "manifest.json was altered or cut short")
    if content.get("version") != FORMAT_VERSION:
        raise DamagedArtifact(folder, f"the format version is {content.get('version')!r}, not {FORMAT_VERSION}")
    if not _DATA_FILE.fullmatch(str(content["data"]["file"])):
        raise DamagedArtifact(folder, "the manifest names a file outside the folder")
    return dict(content)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return b""  # an empty file cannot be mapped, and fails the size check next
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _checked_arrays(folder: Path, mapped: mmap.mmap | bytes, manifest: dict[str, Any]) -> dict[str, NDArray[Any]]:
    data = manifest["data"]
    if len(mapped) != data["bytes"]:
        raise DamagedArtifact(folder, f"{data['file']} has {len(mapped)} bytes, not {data['bytes']}")
    if hashlib.sha256(mapped).hexdigest() != data["sha256"]:
        raise DamagedArtifact(folder, f"{data['file']} does not match its sha256")
    arrays = _views(mapped)
    found = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    if found != manifest["arrays"]:
        raise DamagedArtifact(folder, f"{data['file']} holds other arrays than the manifest lists")
    return arrays


def _views(mapped: mmap.mmap | bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as views (the library's own reader copies them).

    The format: eight bytes N, little-endian; N bytes of JSON {name: {dtype, shape, data_offsets}}; then the data.
    """
    header_length = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + header_length])
    header.pop("__metadata__", None)
    start = 8 + header_length
    return {
        name: np.frombuffer(
            mapped,
            np.dtype(_DTYPES[entry["dtype"]]).newbyteorder("<"),
            math.prod(entry["shape"]),
            start + entry["data_offsets"][0],
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }

"""An artifact: a folder with one safetensors file of arrays and a manifest that commits it.

    folder/arrays-<digest>.safetensors     all arrays; the name holds the first digits of the file's sha256
    folder/manifest.json                   kind, format version, that file's size and sha256, shapes, metadata
    folder/.setwise-lock                   an empty file, locked during a save

**Writing.** The arrays are written under their final name and flushed to the disk. Then the manifest is replaced by one
``rename`` of a flushed file: that rename is the commit. A process killed before it leaves the old object, one killed
after it the new one. (Renaming a whole folder cannot do this: no portable call replaces a folder that is not empty, and
two renames leave a moment with neither.) Saves to one folder exclude each other by a lock that the system releases when
its process ends; the next save removes what a killed one left behind.

**Reading.** The manifest holds its own digest and must be byte for byte what ``write`` would write. Then the data file
is mapped and its sha256 compared. Only then are arrays created, as views of the mapping. Nothing is unpickled.

**Windows.** A folder cannot be flushed there, so a power failure may lose the last save (a killed process does not). A
data file that is mapped cannot be deleted; a later save removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import mmap
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.errors import DamagedArtifact, InvalidInput, MissingDependency, SaveFailed, SetwiseError

Part = TypeVar("Part")

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_DRAFTS = ".setwise-drafts"  # a name of our own: the folder is deleted without asking
_LOCK = ".setwise-lock"
_DATA_FILE = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
           "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_}  # fmt: skip
_MANIFEST_LIMIT = 64 << 20  # bytes; ``write`` makes no larger manifest
_STILL_MAPPED = (PermissionError,) if sys.platform == "win32" else ()  # raised on deleting a mapped file
_ATTEMPTS = 5  # a reader that meets a save in progress tries again this often
_REPLACE_WAITS = (0.01, 0.1, 1.0)  # seconds between attempts to replace a file that a reader has open, on Windows


@dataclass(frozen=True)
class Artifact:
    """The content of a folder: its kind, arrays that view the mapped file, and the metadata."""

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        todo = "choose a folder that can be written"
        raise InvalidInput("path", "a folder that can be made", f"{folder} ({error.strerror})", todo) from None
    with _writing(folder), _save_lock(folder) as drafts:
        (drafts / "arrays").touch()
        mode = (drafts / "arrays").stat().st_mode  # by the umask; save_file allows the owner only
        save_file(packed, drafts / "arrays")
        (drafts / "arrays").chmod(mode)
        size, digest = _flush_and_digest(drafts / "arrays")
        data = folder / f"arrays-{digest[:16]}.safetensors"
        _replace_data(drafts / "arrays", data)
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
                with contextlib.suppress(*_STILL_MAPPED):
                    entry.unlink()


def read(folder: str | os.PathLike[str], *kinds: str, otherwise: str = "pass the folder of one") -> Artifact:
    """Open the artifact in ``folder``, checked and mapped; ``otherwise`` is the advice if it is of another kind."""
    folder = Path(folder)
    for _ in range(_ATTEMPTS):
        before = manifest_bytes(folder)
        manifest = _checked_manifest(folder, before)
        if manifest.get("kind") not in kinds:
            reason = f"the kind is {manifest.get('kind')!r}, not {' or '.join(map(repr, kinds))}"
            raise DamagedArtifact(folder, reason, otherwise)
        try:
            mapped = _mapped(folder / manifest["data"]["file"])
        except FileNotFoundError:
            continue  # a save may have replaced the object between the two reads, and another one brought it back
        return Artifact(manifest["kind"], _checked_arrays(folder, mapped, manifest), manifest["meta"])
    changing = manifest_bytes(folder) != before
    raise DamagedArtifact(
        folder, "the manifest kept changing while it was read" if changing else "the data file is missing"
    )


def digest(folder: str | os.PathLike[str]) -> str:
    """The sha256 of the manifest, which holds that of the data: equal digests are equal artifacts."""
    return hashlib.sha256(manifest_bytes(Path(folder))).hexdigest()


def data_file(folder: Path, manifest: bytes) -> str:
    """The name of the file with the arrays, as a manifest has it that was checked."""
    return str(_checked_manifest(folder, manifest)["data"]["file"])


def kind_of(folder: str | os.PathLike[str]) -> str:
    """The kind of the artifact in ``folder``, by its manifest alone."""
    return str(_checked_manifest(Path(folder), manifest_bytes(Path(folder)))["kind"])


@contextmanager
def restoring(folder: str | os.PathLike[str]) -> Iterator[None]:
    """While objects are made of content that was read: whatever is wrong with it becomes ``DamagedArtifact``."""
    wrong = (SetwiseError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError)
    try:
        yield
    except (DamagedArtifact, MissingDependency):
        raise
    except wrong as error:
        what = str(error).split("; ")[0] or type(error).__name__
        raise DamagedArtifact(Path(folder), f"its content is not what setwise writes ({what})") from error


def under(prefix: str, parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts whose names begin with ``prefix``, by the rest of the name: an artifact may hold several objects."""
    return {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}


# --- writing -------------------------------------------------------------------------------------------------------


def _refuse_unreadable(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Refuse content that ``read`` could not read back, before it replaces an artifact that it can."""
    for name, array in arrays.items():
        if array.dtype not in _DTYPES.values() or not array.dtype.isnative:
            raise InvalidInput(f"array '{name}'", "of a plain numeric type", f"dtype {array.dtype}", "convert it first")
    try:
        size = len(json.dumps(dict(meta), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput("metadata", "plain JSON data", str(error), "convert it first") from None
    if size > _MANIFEST_LIMIT // 4:  # leaves room for indentation, names and shapes
        raise InvalidInput("metadata", f"at most {_MANIFEST_LIMIT // 4:,} bytes", f"{size:,}", "save less with it")


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds other files: saves go to new or empty folders, or replace an artifact."""
    todo = "choose a folder that is new, empty or an artifact"
    if folder.is_dir():
        if holds_others(folder):
            raise InvalidInput("path", "a folder for this artifact alone", f"{folder} with other files", todo)
    elif folder.exists():
        raise InvalidInput("path", "a folder", f"the file {folder}", todo)


def holds_others(folder: Path) -> bool:
    """Whether a folder holds files of others: it has no manifest of ours, and more than an interrupted save leaves."""
    names = {entry.name for entry in folder.iterdir()}
    ours = {name for name in names if name in (_DRAFTS, _LOCK) or _DATA_FILE.fullmatch(name)}
    manifest = folder / _MANIFEST
    is_ours = (
        manifest.is_file()
        and manifest.stat().st_size <= _MANIFEST_LIMIT
        and b'"manifest":' in manifest.read_bytes()[:200]
    )
    return bool(names - ours) and not is_ours


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the file system refuses becomes ``SaveFailed``; the library of the arrays has an error of its own for it."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        raise SaveFailed(folder, error.strerror or str(error)) from error
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        raise SaveFailed(folder, os.strerror(int(number[1])) if number else str(error)) from error


@contextmanager
def _save_lock(folder: Path) -> Iterator[Path]:
    """Exclude other saves to ``folder``, in this process or another; yields an empty folder for drafts."""
    from filelock import FileLock

    with FileLock(folder / _LOCK):
        drafts = folder / _DRAFTS
        shutil.rmtree(drafts, ignore_errors=True)
        drafts.mkdir()
        try:
            yield drafts
        finally:
            shutil.rmtree(drafts, ignore_errors=True)  # after a failure too: a full disk needs the space


def _canonical(content: Mapping[str, Any]) -> bytes:
    """The only valid bytes for ``content``; the digest comes first, so that every byte of the file is covered."""
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
    flush_folder(folder)  # the data file's name is on the disk before the manifest refers to it
    _replace(draft, folder / _MANIFEST)
    flush_folder(folder)


def _replace(source: Path, target: Path) -> None:
    """``os.replace``; on Windows it fails while a reader has ``target`` open, so it is attempted again."""
    for wait in _REPLACE_WAITS if sys.platform == "win32" else ():
        try:
            return os.replace(source, target)
        except PermissionError:
            time.sleep(wait)
    os.replace(source, target)


def _replace_data(draft: Path, data: Path) -> None:
    """Move the draft to its final name; on Windows an equal file that is mapped stays, as it cannot be replaced."""
    try:
        os.replace(draft, data)
    except PermissionError:
        if sys.platform != "win32" or _flush_and_digest(draft) != _flush_and_digest(data):
            raise
        draft.unlink()


def flush_folder(folder: Path) -> None:
    """Flush the names of the folder's files to the disk, where the system can."""
    if os.name != "posix":
        return  # folders cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading -------------------------------------------------------------------------------------------------------


def no_artifact(folder: Path) -> DamagedArtifact:
    """The error for a path that holds no artifact."""
    todo = "check the path: it must be a folder that setwise saved"
    there = "it is a file" if folder.is_file() else "the folder has none" if folder.is_dir() else "there is no folder"
    return DamagedArtifact(folder, f"there is no manifest.json ({there})", todo)


def manifest_bytes(folder: Path) -> bytes:
    """The manifest of an artifact as it is on the disk; its content is not checked."""
    try:
        with open_regular(folder / _MANIFEST) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= _MANIFEST_LIMIT:
                return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise no_artifact(folder) from None
    raise DamagedArtifact(folder, f"manifest.json has {size} bytes, more than the limit of {_MANIFEST_LIMIT}")


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading, or the one that it links to, unless reading might block or never end."""
    try:  # what is opened is not known yet, and may be a pipe without a writer
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link that leads to itself, a socket
            raise
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    raise DamagedArtifact(path.parent, f"{path.name} is not a regular file")


def _checked_manifest(folder: Path, raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)["manifest"]
        intact = _canonical(content) == raw and isinstance(content, dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise DamagedArtifact(folder, "manifest.json was altered or cut short")
    version = content.get("version")
    if type(version) is not int or version != FORMAT_VERSION:  # true and 1.0 are equal to 1, and are not versions
        todo = "save it again with this version of setwise, or install the version that saved it"
        raise DamagedArtifact(folder, f"the format version is {version!r}, not {FORMAT_VERSION}", todo)
    kinds = {"kind": str, "data": dict, "arrays": dict, "meta": dict}
    for name, kind in kinds.items():
        if not isinstance(content.get(name), kind):
            raise DamagedArtifact(folder, f"the manifest has no valid entry {name!r}")
    if not _DATA_FILE.fullmatch(str(content["data"].get("file"))):
        raise DamagedArtifact(folder, "the manifest names a file outside the folder")
    return dict(content)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""  # an empty file cannot be mapped, and fails the size check next
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _checked_arrays(folder: Path, mapped: mmap.mmap | bytes, manifest: dict[str, Any]) -> dict[str, NDArray[Any]]:
    data = manifest["data"]
    if len(mapped) != data.get("bytes"):
        raise DamagedArtifact(folder, f"{data['file']} has {len(mapped)} bytes, not {data.get('bytes')}")
    if hashlib.sha256(mapped).hexdigest() != data.get("sha256"):
        raise DamagedArtifact(folder, f"{data['file']} does not match its sha256")
    with restoring(folder):
        header_length = int.from_bytes(mapped[:8], "little")  # views: the reader of safetensors copies its arrays
        header = json.loads(mapped[8 : 8 + header_length])
        header.pop("__metadata__", None)
        arrays = {name: _view(mapped, 8 + header_length, **entry) for name, entry in header.items()}
    found = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    if found != manifest["arrays"]:
        raise DamagedArtifact(folder, f"{data['file']} holds other arrays than the manifest lists")
    return arrays


def _view(mapped: mmap.mmap | bytes, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    """One array; ``data_offsets`` are its first byte and the one after its last, counted from ``start``."""
    kind, (first, last) = np.dtype(_DTYPES[dtype]).newbyteorder("<"), data_offsets
    for number in (*shape, first):
        if type(number) is not int or number < 0:
            raise ValueError(f"a length or an offset of the data file is {number!r}")
    if last - first != math.prod(shape) * kind.itemsize or start + last > len(mapped):
        raise ValueError("an array of the data file is longer than its part of the file")
    return np.frombuffer(mapped, kind, math.prod(shape), start + first).reshape(shape)

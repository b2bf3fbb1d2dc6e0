"""The Spotify Million Playlist Dataset: slices of a thousand playlists, each a JSON file.

A path is a folder (or a folder whose ``data`` holds them) or a zip of files ``mpd.slice.FIRST-LAST.json``, gzipped or
not, read in the order of FIRST; or one JSON file of any name. A file is {"info": …, "playlists": […]} or the bare list
of playlists. One file is in memory at a time, and its playlists are decoded one by one.

Only ``tracks`` and their ``track_uri`` are required. Tracks are sorted by ``pos`` if all tracks of a playlist have it,
else they keep the order of the file; repeated tracks stay. ``num_tracks`` is ignored, ``pid`` need not be unique.

The standard library's decoder reads one playlist at a time. ijson was tried instead: it does not report lines; it
replaces a lone surrogate by "?", which can merge two tracks; and 100,000 opening brackets exhaust the memory.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, NoReturn, TypeVar

from setwise.datasets.grouping import as_int64
from setwise.datasets.id_encoder import IdEncoder
from setwise.datasets.sessions import Sessions
from setwise.datasets.text_files import DAMAGE, Source, decompressed, existing_file, progress_bar, raise_json_error
from setwise.errors import InvalidInput, MalformedFile
from setwise.model.ragged import Ragged

AnyPath = TypeVar("AnyPath", Path, PurePosixPath)

LARGEST_SLICE = 256 << 20  # bytes of JSON in one file; a slice of the MPD has 33 million

_SLICE = re.compile(r"mpd\.slice\.(\d{1,9})-(\d{1,9})\.json(\.gz)?", re.ASCII)
_SPACE = re.compile(r"[ \t\r\n]*")
_BAD_ZIP = (  # the errors of the standard library for a zip that is damaged, encrypted or compressed in other ways
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    struct.error,
)
_DECODER = json.JSONDecoder()


class Track(NamedTuple):
    """A track of a playlist; fields that the file does not have are None."""

    uri: str
    title: str | None
    artist: str | None
    album: str | None


@dataclass(frozen=True, slots=True)
class Playlist:
    """A playlist: its tracks in order, its name, number and whether it is collaborative."""

    tracks: tuple[Track, ...]
    name: str | None
    pid: int | None
    collaborative: bool | None


def playlists(path: Source, progress: bool = False) -> Iterator[Playlist]:
    """Iterate over all playlists."""
    return (playlist for _, _, playlist in _playlists(path, progress))


def read_mpd(path: Source, progress: bool = True) -> Sessions:
    """All playlists as sessions of track URIs, with the attributes title, artist and album (None where unknown)."""
    row_of, items, lengths = IdEncoder(Path(path)), array("q"), array("q")
    columns: tuple[list[str | None], ...] = ([], [], [])
    shared: dict[str | None, str | None] = {}  # names repeat: one string object each
    for file, line, playlist in _playlists(path, progress):
        row_of.file = file
        lengths.append(len(playlist.tracks))
        for track in playlist.tracks:
            row = row_of.row(line, track.uri)
            items.append(row)
            for column, given in zip(columns, track[1:], strict=True):
                if row == len(column):
                    column.append(shared.setdefault(given, given))
                elif column[row] is None:
                    column[row] = shared.setdefault(given, given)
    names = ("title", "artist", "album")
    return Sessions(Ragged.cut(as_int64(items), as_int64(lengths)), row_of.ids, dict(zip(names, columns, strict=True)))


# --- the files -----------------------------------------------------------------------------------------------------


def _playlists(path: Source, progress: bool) -> Iterator[tuple[Path, int, Playlist]]:
    """Iterate over all playlists, with file and line."""
    for file, text in _slices(Path(path), progress):
        objects = _objects(file, text)
        del text  # freed before the next file is read
        for line, given in objects:
            yield file, line, _playlist(file, line, given)


def _slices(path: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    """The files of a collection and their texts."""
    if path.is_dir():
        return _folder_texts(path, progress)
    file = existing_file(path)
    return _zip_texts(file, progress) if file.suffix.lower() == ".zip" else _file_texts([file], progress)


def _folder_texts(folder: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    files = [file for file in folder.iterdir() if file.is_file()]
    if not any(_SLICE.fullmatch(file.name) for file in files) and (folder / "data").is_dir():
        return _folder_texts(folder / "data", progress)
    return _file_texts(_sorted_slices(folder, files), progress)


def _file_texts(files: list[Path], progress: bool) -> Iterator[tuple[Path, str]]:
    with progress_bar("reading playlists", sum(file.stat().st_size for file in files), progress) as shown:
        for file in files:
            with file.open("rb") as raw:
                yield file, _text(file, decompressed(file, raw))
            shown.advance(file.stat().st_size)


def _zip_texts(file: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    try:
        archive = zipfile.ZipFile(file)
    except _BAD_ZIP as error:
        raise MalformedFile(file, 1, f"it must be a valid zip file, but: {str(error)[:100]}") from None
    with archive:
        members = _sorted_slices(file, [PurePosixPath(name) for name in archive.namelist()])
        with progress_bar("reading playlists", len(members), progress) as shown:
            for member in members:
                yield file / member, _member_text(file, archive, member)
                shown.advance(1)


def _member_text(file: Path, archive: zipfile.ZipFile, member: PurePosixPath) -> str:
    inside = file / member
    try:
        with archive.open(str(member)) as raw:
            return _text(inside, decompressed(inside, raw))
    except MalformedFile:
        raise
    except (*_BAD_ZIP, KeyError) as error:
        raise MalformedFile(inside, 1, f"this part of {file.name} is damaged: {str(error)[:100]}") from None


def _sorted_slices(source: Path, files: Iterable[AnyPath]) -> list[AnyPath]:
    """The files with names of slices, sorted by first playlist; slices must not overlap."""
    found = sorted(
        (int(match[1]), int(match[2]), file) for file in files if (match := _SLICE.fullmatch(file.name)) is not None
    )
    if not found:
        raise InvalidInput(
            "path",
            "a folder or zip of mpd.slice.*.json",
            f"{str(source)!r} without any",
            "pass where they are, or one file of another format",
        )
    for (_, last, file), (first, _, other) in pairwise(found):
        if first <= last:
            got = f"both {file.name} and {other.name}"
            raise InvalidInput("path", "a collection of distinct slices", got, "remove one")
    return [file for _, _, file in found]


def _text(file: Path, stream: IO[bytes]) -> str:
    """The text of a JSON file."""
    try:
        data = stream.read(LARGEST_SLICE + 1)
    except DAMAGE:
        raise MalformedFile(file, 1, "the compressed file is damaged; copy it again") from None
    if len(data) > LARGEST_SLICE:
        raise MalformedFile(file, 1, f"a slice must have at most {LARGEST_SLICE:,} bytes; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedFile(
            file, data.count(b"\n", 0, error.start) + 1, "the text must be UTF-8; convert the file"
        ) from None


# --- the JSON ------------------------------------------------------------------------------------------------------


def _objects(file: Path, text: str) -> Iterator[tuple[int, Any]]:
    """The playlists of a text, each with its line; the rest of the text is validated, too."""
    reader, found = _JsonScanner(file, text), False
    if reader.next_is("["):
        yield from reader.elements()
        found = True
    else:
        for name in reader.names():
            if name != "playlists":
                reader.value()
            elif found or not reader.next_is("["):
                reader.fail("'playlists' must be there once, and be a list")
            else:
                yield from reader.elements()
                found = True
    reader.end()
    if not found:
        raise MalformedFile(
            file,
            1,
            "there must be a list of playlists, or an object with 'playlists'; "
            "name a file of one JSON object a line .jsonl",
        )


class _JsonScanner:
    """Incremental reading of a JSON text: each value is decoded by the decoder of the standard library."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text, self._at = file, text, 0
        self._counted, self._line = 0, 1  # newlines up to here are counted

    def line(self) -> int:
        """The line of the current position."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def fail(self, reason: str) -> NoReturn:
        raise MalformedFile(self._file, self.line(), reason)

    def next_is(self, sign: str) -> bool:
        """Whether ``sign`` comes next."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # the pattern matches the empty string, too
        return self._text.startswith(sign, self._at)

    def skip(self, sign: str) -> None:
        """Advance past ``sign``, which must come next."""
        if not self.next_is(sign):
            got = repr(self._text[self._at : self._at + 1]) if self._at < len(self._text) else "the end of the file"
            self.fail(f"it must be JSON, with {sign!r} here, got {got}")
        self._at += len(sign)

    def value(self) -> Any:
        """The next value."""
        self.next_is("")
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise_json_error(self._file, getattr(error, "lineno", self.line()), error)
        return value

    def _separated(self, begin: str, end: str, one: Callable[[], Any]) -> Iterator[Any]:
        self.skip(begin)
        if not self.next_is(end):
            yield one()
            while self.next_is(","):
                self.skip(",")
                yield one()
        self.skip(end)

    def elements(self) -> Iterator[tuple[int, Any]]:
        """The elements of the list that comes next, each with its line."""
        return self._separated("[", "]", self._element)

    def _element(self) -> tuple[int, Any]:
        self.next_is("")
        return self.line(), self.value()

    def names(self) -> Iterator[Any]:
        """The names of the object that comes next; the caller must read the value after each name."""
        return self._separated("{", "}", self._name)

    def _name(self) -> Any:
        name = self.value() if self.next_is('"') else self.fail("it must be JSON, with a name in quotes here")
        self.skip(":")
        return name

    def end(self) -> None:
        """Raise an error if any text is left."""
        if self.next_is("") and self._at < len(self._text):
            self.fail("the file must end after its playlists")


# --- a playlist ----------------------------------------------------------------------------------------------------


def _playlist(file: Path, line: int, given: Any) -> Playlist:
    """Validate a playlist."""
    tracks = given.get("tracks") if isinstance(given, dict) else None
    if not isinstance(tracks, list):
        raise MalformedFile(file, line, "a playlist must be an object with a list of 'tracks'")
    positions, found = [], []
    for number, track in enumerate(tracks):
        try:
            found.append(_track(track))
            positions.append(_optional(track, "pos", int))
        except ValueError as error:
            raise MalformedFile(file, line, f"track {number} of this playlist {error}") from None
    if None not in positions:
        found = [found[at] for at in sorted(range(len(found)), key=positions.__getitem__)]
    try:
        name, pid = _optional(given, "name", str), _optional(given, "pid", int)
        return Playlist(tuple(found), name, pid, _collaborative(given))
    except ValueError as error:
        raise MalformedFile(file, line, f"this playlist {error}") from None


def _track(given: Any) -> Track:
    if not isinstance(given, dict):
        raise ValueError("must be an object")
    uri = given.get("track_uri")
    if type(uri) is not str or not uri:
        raise ValueError("must have a 'track_uri'")
    title, artist = _optional(given, "track_name", str), _optional(given, "artist_name", str)
    return Track(uri, title, artist, _optional(given, "album_name", str))


def _optional(given: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = given.get(name)
    if value is not None and type(value) is not kind:
        raise ValueError(f"must have {'text' if kind is str else 'a whole number'} as '{name}', or nothing")
    return value


def _collaborative(given: dict[str, Any]) -> bool | None:
    """``collaborative`` is the text "true" or "false" in the MPD."""
    value = given.get("collaborative")
    if value not in (None, True, False, "true", "false"):
        raise ValueError('must have "true" or "false" as \'collaborative\', or nothing')
    return None if value is None else value in (True, "true")

"""The Spotify Million Playlist Dataset: slices of a thousand playlists, each a JSON file.

A path is a folder (or a folder whose ``data`` holds them) or a zip of files ``mpd.slice.FIRST-LAST.json``, gzipped or
not, read in the order of FIRST; or one JSON file of any name. A file is {"info": …, "playlists": […]} or the bare list
of playlists. One file is held at a time, and one playlist of it is taken apart at a time.

Only ``tracks`` and their ``track_uri`` must be there. Tracks go by ``pos`` where all tracks of a playlist have it, else
as they stand; repeated tracks stay. ``num_tracks`` is not trusted, ``pid`` is not taken to be unique.
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

from setwise.datasets.id_encoder import IdEncoder, as_int64
from setwise.datasets.sessions import Sessions
from setwise.datasets.text_files import DAMAGE, Source, decompressed, existing_file, progress_bar, raise_json_error
from setwise.errors import InvalidInput, MalformedFile
from setwise.model.ragged import Ragged

AnyPath = TypeVar("AnyPath", Path, PurePosixPath)

LARGEST_SLICE = 1 << 30  # bytes of JSON in one file; a slice of the MPD has 33 million

_SLICE = re.compile(r"mpd\.slice\.(\d{1,9})-(\d{1,9})\.json(\.gz)?", re.ASCII)
_SPACE = re.compile(r"[ \t\r\n]*")
_BAD_ZIP = (  # what the standard library lets through from a zip that is damaged, encrypted or packed in other ways
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
    """A track of a playlist; None where the file does not say."""

    uri: str
    title: str | None
    artist: str | None
    album: str | None


@dataclass(frozen=True, slots=True)
class Playlist:
    """A playlist: its tracks in order, and what the file says of it."""

    tracks: tuple[Track, ...]
    name: str | None
    pid: int | None
    collaborative: bool | None


def playlists(path: Source, progress: bool = False) -> Iterator[Playlist]:
    """All playlists, one after another."""
    return (playlist for _, _, playlist in _playlists(path, progress))


def read_mpd(path: Source, progress: bool = True) -> Sessions:
    """All playlists as sessions of track URIs, with the attributes title, artist and album (None where unknown)."""
    row_of, items, lengths = IdEncoder(Path(path)), array("q"), array("q")
    columns: tuple[list[str | None], ...] = ([], [], [])
    shared: dict[str | None, str | None] = {}  # names recur: each is kept once
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
    """All playlists, with file and line."""
    for file, text in _slices(Path(path), progress):
        objects = _objects(file, text)
        del text  # gone before the next one is read
        for line, given in objects:
            yield file, line, _playlist(file, line, given)


def _slices(path: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    """The files of a collection and their texts."""
    if path.is_dir():
        return _of_folder(path, progress)
    file = existing_file(path)
    return _of_zip(file, progress) if file.suffix.lower() == ".zip" else _of_files([file], progress)


def _of_folder(folder: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    files = [file for file in folder.iterdir() if file.is_file()]
    if not any(_SLICE.fullmatch(file.name) for file in files) and (folder / "data").is_dir():
        return _of_folder(folder / "data", progress)
    return _of_files(_in_order(folder, files), progress)


def _of_files(files: list[Path], progress: bool) -> Iterator[tuple[Path, str]]:
    with progress_bar("reading playlists", sum(file.stat().st_size for file in files), progress) as shown:
        for file in files:
            with file.open("rb") as raw:
                yield file, _text(file, decompressed(file, raw))
            shown.advance(file.stat().st_size)


def _of_zip(file: Path, progress: bool) -> Iterator[tuple[Path, str]]:
    try:
        archive = zipfile.ZipFile(file)
    except _BAD_ZIP as error:
        raise MalformedFile(file, 1, f"it must be a sound zip, but: {str(error)[:100]}") from None
    with archive:
        members = _in_order(file, [PurePosixPath(name) for name in archive.namelist()])
        with progress_bar("reading playlists", len(members), progress) as shown:
            for member in members:
                yield file / member, _of_member(file, archive, member)
                shown.advance(1)


def _of_member(file: Path, archive: zipfile.ZipFile, member: PurePosixPath) -> str:
    inside = file / member
    try:
        with archive.open(str(member)) as raw:
            return _text(inside, decompressed(inside, raw))
    except MalformedFile:
        raise
    except (*_BAD_ZIP, KeyError) as error:
        raise MalformedFile(inside, 1, f"this part of {file.name} is damaged: {str(error)[:100]}") from None


def _in_order(source: Path, files: Iterable[AnyPath]) -> list[AnyPath]:
    """The files named like slices, by their first playlist; no playlist may be in two."""
    found = sorted(
        (int(match[1]), int(match[2]), file) for file in files if (match := _SLICE.fullmatch(file.name)) is not None
    )
    if not found:
        raise InvalidInput(
            "path", "a folder or zip of mpd.slice.*.json", f"{str(source)!r} without any", "pass where they are"
        )
    for (_, last, file), (first, _, other) in pairwise(found):
        if first <= last:
            got = f"both {file.name} and {other.name}"
            raise InvalidInput("path", "a collection of distinct slices", got, "remove one")
    return [file for _, _, file in found]


def _text(file: Path, stream: IO[bytes]) -> str:
    """A whole JSON file."""
    try:
        data = stream.read(LARGEST_SLICE + 1)
    except DAMAGE:
        raise MalformedFile(file, 1, "the compressed file is damaged") from None
    if len(data) > LARGEST_SLICE:
        raise MalformedFile(file, 1, f"a slice must have at most {LARGEST_SLICE:,} bytes; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedFile(file, data.count(b"\n", 0, error.start) + 1, "the text must be UTF-8") from None


# --- the JSON ------------------------------------------------------------------------------------------------------


def _objects(file: Path, text: str) -> Iterator[tuple[int, Any]]:
    """The playlists of a text, each with its line; the rest of the text is checked as well."""
    reader, found = _Json(file, text), False
    if reader.next_is("["):
        yield from reader.elements()
        found = True
    else:
        for name in reader.names():
            if name != "playlists":
                reader.value()
            elif found or not reader.next_is("["):
                reader.refuse("'playlists' must be there once, and be a list")
            else:
                yield from reader.elements()
                found = True
    reader.end()
    if not found:
        raise MalformedFile(file, 1, "there must be a list of playlists, or an object with 'playlists'")


class _Json:
    """A JSON text read from left to right: the decoder of the standard library takes the values one by one."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text, self._at = file, text, 0
        self._counted, self._line = 0, 1  # newlines are counted once

    def line(self) -> int:
        """The line of the place reached."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def refuse(self, reason: str) -> NoReturn:
        raise MalformedFile(self._file, self.line(), reason)

    def next_is(self, sign: str) -> bool:
        """Whether ``sign`` comes next."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing, too
        return self._text.startswith(sign, self._at)

    def skip(self, sign: str) -> None:
        """Past ``sign``, which must come next."""
        if not self.next_is(sign):
            got = repr(self._text[self._at : self._at + 1]) if self._at < len(self._text) else "the end of the file"
            self.refuse(f"it must be JSON, with {sign!r} here, got {got}")
        self._at += len(sign)

    def value(self) -> Any:
        """The next value."""
        self.next_is("")
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise_json_error(self._file, getattr(error, "lineno", self.line()), error)
        return value

    def _listed(self, begin: str, end: str, one: Callable[[], Any]) -> Iterator[Any]:
        self.skip(begin)
        if not self.next_is(end):
            yield one()
            while self.next_is(","):
                self.skip(",")
                yield one()
        self.skip(end)

    def elements(self) -> Iterator[tuple[int, Any]]:
        """The elements of the list that comes next, each with its line."""
        return self._listed("[", "]", self._element)

    def _element(self) -> tuple[int, Any]:
        self.next_is("")
        return self.line(), self.value()

    def names(self) -> Iterator[Any]:
        """The names in the object that comes next; whoever iterates takes the values."""
        return self._listed("{", "}", self._name)

    def _name(self) -> Any:
        name = self.value() if self.next_is('"') else self.refuse("it must be JSON, with a name in quotes here")
        self.skip(":")
        return name

    def end(self) -> None:
        """Refuse anything that is left."""
        if self.next_is("") and self._at < len(self._text):
            self.refuse("the file must end after its playlists")


# --- a playlist ----------------------------------------------------------------------------------------------------


def _playlist(file: Path, line: int, given: Any) -> Playlist:
    """A playlist, checked."""
    tracks = given.get("tracks") if isinstance(given, dict) else None
    if not isinstance(tracks, list):
        raise MalformedFile(file, line, "a playlist must be an object with a list of 'tracks'")
    places, found = [], []
    for number, track in enumerate(tracks):
        try:
            found.append(_track(track))
            places.append(_optional(track, "pos", int))
        except ValueError as error:
            raise MalformedFile(file, line, f"track {number} of this playlist {error}") from None
    if None not in places:
        found = [found[at] for at in sorted(range(len(found)), key=places.__getitem__)]
    try:
        name, pid = _optional(given, "name", str), _optional(given, "pid", int)
        return Playlist(tuple(found), name, pid, _truth(given))
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


def _truth(given: dict[str, Any]) -> bool | None:
    """``collaborative`` is the text "true" or "false" in the MPD."""
    value = given.get("collaborative")
    if value not in (None, True, False, "true", "false"):
        raise ValueError('must have "true" or "false" as \'collaborative\', or nothing')
    return None if value is None else value in (True, "true")

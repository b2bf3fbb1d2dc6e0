"""Playlists of the MPD: public files, malformed files, and memory that does not grow with the number of slices."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from setwise.datasets import spotify_mpd
from setwise.datasets.spotify_mpd import Playlist, Track, playlists, read_mpd
from setwise.errors import InvalidInput, MalformedFile


def track(uri: str, **more) -> dict:
    return {"track_uri": uri, **more}


def playlist(*uris: str, **more) -> dict:
    return {"tracks": [track(uri) for uri in uris], **more}


def slice_file(folder: Path, first: int, given: list[dict], ending: str = ".json") -> Path:
    path = folder / f"mpd.slice.{first}-{first + 999}{ending}"
    text = json.dumps({"info": {"slice": "x"}, "playlists": given}, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    return path


def uris(path: Path) -> list[list[str]]:
    return [[one.uri for one in playlist.tracks] for playlist in playlists(path)]


# --- fields ---------------------------------------------------------------------------------------------


def test_a_playlist_and_its_fields(tmp_path):
    whole = track("u", pos=0, track_name="T", artist_name="A", album_name="B", duration_ms=1)
    path = slice_file(
        tmp_path, 0, [{"name": "N", "pid": 7, "collaborative": "true", "num_tracks": 99, "tracks": [whole]}]
    )
    assert list(playlists(path)) == [Playlist((Track("u", "T", "A", "B"),), "N", 7, True)]
    result = read_mpd(path, progress=False)
    assert result.attributes == {"title": ["T"], "artist": ["A"], "album": ["B"]}


def test_fields_may_be_missing_and_are_filled_in_later(tmp_path):
    path = slice_file(tmp_path, 0, [playlist("u", "v"), {"tracks": [track("u", track_name="T", artist_name=None)]}])
    assert next(playlists(path)) == Playlist(
        (Track("u", None, None, None), Track("v", None, None, None)), None, None, None
    )
    result = read_mpd(path, progress=False)
    assert result.attributes == {"title": ["T", None], "artist": [None, None], "album": [None, None]}


def test_collaborative_is_text(tmp_path):
    given = [playlist("u", collaborative=value) for value in ("true", "false", True, False, None)]
    assert [one.collaborative for one in playlists(slice_file(tmp_path, 0, given))] == [True, False, True, False, None]


def test_repeated_tracks_stay_and_num_tracks_is_ignored(tmp_path):
    path = slice_file(tmp_path, 0, [playlist("u", "v", "u", num_tracks=1), playlist("u", pid=5), playlist("w", pid=5)])
    result = read_mpd(path, progress=False)
    assert [one.tolist() for one in result.items] == [[0, 1, 0], [0], [2]]
    assert result.distinct().items[0].tolist() == [0, 1]


def test_tracks_are_sorted_by_position_if_all_have_one(tmp_path):
    placed = {"tracks": [track("b", pos=4), track("a", pos=0), track("c", pos=9)]}
    half = {"tracks": [track("b", pos=4), track("a")]}
    assert uris(slice_file(tmp_path, 0, [placed, half, {"tracks": []}])) == [["a", "b", "c"], ["b", "a"], []]


def test_a_bare_list_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "any.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([playlist("ü")]).encode())
    assert uris(path) == [["ü"]]
    path.write_text("[]")
    assert len(read_mpd(path, progress=False)) == 0


# --- files and folders -------------------------------------------------------------------------------------------


def test_slices_are_sorted_by_number(tmp_path):
    for first in (10000, 2000, 0):
        slice_file(tmp_path, first, [playlist(str(first))], ".json.gz" if first else ".json")
    (tmp_path / "README.md").write_text("no slice")
    (tmp_path / "mpd.slice.0-999.first29.json").write_text("no slice either")
    assert uris(tmp_path) == [["0"], ["2000"], ["10000"]]


def test_a_folder_with_a_data_folder(tmp_path):
    (tmp_path / "data").mkdir()
    slice_file(tmp_path / "data", 0, [playlist("u")])
    (tmp_path / "stats.txt").write_text("")
    assert uris(tmp_path) == [["u"]]


def test_a_zip(tmp_path):
    for first in (1000, 0):
        slice_file(tmp_path, first, [playlist(str(first))])
    slice_file(tmp_path, 2000, [playlist("2000")], ".json.gz")
    with zipfile.ZipFile(tmp_path / "mpd.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in tmp_path.glob("mpd.slice.*"):
            archive.write(path, f"data/{path.name}")
        archive.writestr("__MACOSX/data/._mpd.slice.0-999.json", "resource fork")
        archive.writestr("stats.txt", "")
    assert uris(tmp_path / "mpd.zip") == [["0"], ["1000"], ["2000"]]
    assert len(read_mpd(tmp_path / "mpd.zip")) == 3


def test_missing_slices_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"path must be a folder or zip of mpd.slice.\*.json"):
        list(playlists(tmp_path))
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(InvalidInput, match=r"empty.zip' without any"):
        list(playlists(tmp_path / "empty.zip"))
    with pytest.raises(InvalidInput, match="path must be a file, got"):
        list(playlists(tmp_path / "none.json"))


def test_the_same_slice_twice(tmp_path):
    slice_file(tmp_path, 0, [playlist("u")])
    slice_file(tmp_path, 0, [playlist("u")], ".json.gz")
    with pytest.raises(
        InvalidInput, match=r"distinct slices, got both mpd.slice.0-999.json and mpd.slice.0-999.json.gz"
    ):
        list(playlists(tmp_path))


def test_slices_that_overlap(tmp_path):
    slice_file(tmp_path, 0, [])
    slice_file(tmp_path, 500, [])
    with pytest.raises(InvalidInput, match=r"both mpd.slice.0-999.json and mpd.slice.500-1499.json"):
        list(playlists(tmp_path))


def test_a_zip_that_holds_a_file_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "mpd.zip", "w") as archive:
        archive.writestr("mpd.slice.0-999.json", "[]")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("mpd.slice.0-999.json", "[]")
    with pytest.raises(InvalidInput, match="distinct slices"):
        list(playlists(tmp_path / "mpd.zip"))


# --- errors -----------------------------------------------------------------------------------------------

TRACKS = '{"playlists": [\n{"tracks": [{"track_uri": "u"}]},\n%s\n]}'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "it must be JSON, with '{' here, got the end of the file"),
        ("7", 1, "it must be JSON, with '{' here, got '7'"),
        ('{"info": {}}', 1, "there must be a list of playlists, or an object with 'playlists'"),
        ('{"info": {},\n "playlists": {}}', 2, "'playlists' must be there once, and be a list"),
        ('{"playlists": [],\n "playlists": []}', 2, "'playlists' must be there once"),
        ('{\nplaylists: []}', 2, "with a name in quotes here"),
        ('{"playlists": []\n,}', 2, "with a name in quotes here"),
        ('{"playlists": []}\n{}', 2, "the file must end after its playlists"),
        ("[\n{},]", 2, "a playlist must be an object with a list of 'tracks'"),
        (TRACKS % "7", 3, "a playlist must be an object with a list of 'tracks'"),
        (TRACKS % '{"tracks": [', 4, "it must be JSON"),
        (TRACKS % '{"tracks": []} {}', 3, "with ']' here, got '{'"),
        (TRACKS % '{"tracks": [7]}', 3, "track 0 of this playlist must be an object"),
        (TRACKS % '{"tracks": [{"track_uri": "u"}, {"pos": 1}]}', 3, "track 1 of this playlist must have a 'track_uri'"),
        (TRACKS % '{"tracks": [{"track_uri": 7}]}', 3, "track 0 of this playlist must have a 'track_uri'"),
        (TRACKS % '{"tracks": [{"track_uri": "u", "pos": "1"}]}', 3, "a whole number as 'pos', or nothing"),
        (TRACKS % '{"tracks": [{"track_uri": "u", "pos": true}]}', 3, "a whole number as 'pos', or nothing"),
        (TRACKS % '{"tracks": [{"track_uri": "u", "track_name": 1}]}', 3, "text as 'track_name', or nothing"),
        (TRACKS % '{"tracks": [], "name": []}', 3, "this playlist must have text as 'name'"),
        (TRACKS % '{"tracks": [], "pid": 1.5}', 3, "this playlist must have a whole number as 'pid'"),
        (TRACKS % '{"tracks": [], "collaborative": "maybe"}', 3, "\"true\" or \"false\" as 'collaborative'"),
        (TRACKS % '{"tracks": [{"track_uri": "\\ud800"}]}', 3, "an item must be valid Unicode"),
        ("[" * 100_000, 1, "it is nested too deeply"),
        ("[" + "9" * 5000 + "]", 1, "it must be JSON, but: Exceeds the limit"),
    ],
)  # fmt: skip
def test_malformed_json_is_refused_with_its_line(tmp_path, text, line, reason):
    path = tmp_path / "some.json"
    path.write_text(text)
    with pytest.raises(MalformedFile) as caught:
        read_mpd(path, progress=False)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"some.json, line {line}: ")


def test_invalid_utf8(tmp_path):
    path = tmp_path / "some.json"
    path.write_bytes(b'[\n{"name": "\xff"}]')
    with pytest.raises(MalformedFile, match="line 2: the text must be UTF-8"):
        list(playlists(path))


def test_a_truncated_gzip(tmp_path):
    path = slice_file(tmp_path, 0, [playlist(*map(str, range(1000)))], ".json.gz")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(MalformedFile, match="the compressed file is damaged"):
        list(playlists(tmp_path))


def test_a_damaged_part_of_a_zip(tmp_path):
    path = tmp_path / "mpd.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mpd.slice.0-999.json", json.dumps([playlist("good")]))
        archive.writestr("mpd.slice.1000-1999.json", json.dumps([playlist("broken")]))
    path.write_bytes(path.read_bytes().replace(b"broken", b"brOken"))
    found = playlists(path)
    assert next(found).tracks[0].uri == "good"
    with pytest.raises(MalformedFile, match=r"mpd.slice.1000-1999.json, line 1: this part of mpd.zip is damaged"):
        next(found)


def test_a_malformed_part_of_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "mpd.zip", "w") as archive:
        archive.writestr("data/mpd.slice.0-999.json", b"[\n\xff]")
    with pytest.raises(MalformedFile, match=r"mpd.slice.0-999.json, line 2: the text must be UTF-8"):
        list(playlists(tmp_path / "mpd.zip"))


def test_an_invalid_zip(tmp_path):
    (tmp_path / "mpd.zip").write_text("not a zip")
    with pytest.raises(MalformedFile, match="it must be a valid zip file"):
        list(playlists(tmp_path / "mpd.zip"))


def test_a_slice_above_the_size_limit(tmp_path, monkeypatch):
    path = slice_file(tmp_path, 0, [playlist("u")], ".json.gz")
    monkeypatch.setattr(spotify_mpd, "LARGEST_SLICE", 20)
    with pytest.raises(MalformedFile, match="a slice must have at most 20 bytes"):
        list(playlists(path))


# --- memory --------------------------------------------------------------------------------------------------------


def folder_of(folder: Path, slices: int) -> Path:
    folder.mkdir()
    for number in range(slices):
        given = [playlist(*(f"spotify:track:{number}-{p}-{t}" for t in range(30)), name="n" * 20) for p in range(100)]
        slice_file(folder, number * 1000, given)
    return folder


def peak(folder: Path) -> int:
    tracemalloc.start()
    try:
        assert sum(1 for _ in playlists(folder)) == 100 * len(list(folder.iterdir()))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_slices(tmp_path, count):
    few, many = folder_of(tmp_path / "few", count(4, 2)), folder_of(tmp_path / "many", count(40, 2))
    peak(few)  # fill caches first
    assert peak(many) < 1.2 * peak(few)


def test_sessions_are_stored_compactly(tmp_path):
    folder = folder_of(tmp_path / "some", 10)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = read_mpd(folder, progress=False)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(result.items.values) == 30_000
    assert held < 30_000 * 400  # 8 bytes an entry; the rest are 30,000 distinct ids and their columns


# --- public files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_playlists", "entries", "tracks", "long"),
    [
        ("mpd.slice.0-999.json.gz", 1000, 67_503, 34_443, 827),
        ("mpd.slice.0-999.first29.json.gz", 29, 1448, None, None),
        ("mpd_reduced_slice.520000-520999.json.gz", 15, None, None, None),
    ],
)
def test_public_slices(shared_data, name, n_playlists, entries, tracks, long):
    result = read_mpd(shared_data / "playlists" / name, progress=False)
    assert len(result) == n_playlists
    assert entries in (None, len(result.items.values))
    assert tracks in (None, result.n_items)
    assert long in (None, (result.items.lengths >= 20).sum())
    assert not any(title is None for title in result.attributes["title"])


def test_the_hand_edited_playlist(shared_data):
    second = list(playlists(shared_data / "playlists" / "mpd.slice.0-999.first29.json.gz"))[1]
    assert (second.pid, len(second.tracks)) == (1, 40)


def test_all_records(shared_data):
    files = sorted((shared_data / "playlists").glob("mpd_records_train_*.json.gz"))
    found = [one for file in files for one in playlists(file)]
    assert (len(files), len(found)) == (8, 800)
    assert sum(len(one.tracks) for one in found) == 49_393
    assert len({one.uri for playlist in found for one in playlist.tracks}) == 27_627
    assert sum(len(one.tracks) >= 20 for one in found) == 661


def test_other_files_of_a_folder_are_ignored(shared_data):
    assert len(read_mpd(shared_data / "playlists", progress=False)) == 1000

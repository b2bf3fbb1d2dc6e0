"""The data of ``setwise train``: what is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from setwise.cli.train.data import RANDOM, TIME, hold_out, prepared
from setwise.datasets import Sessions, Slates


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    """A hundred sessions of four items, a day each, in a random order of the file."""
    rng, file = np.random.default_rng(0), tmp_path / "timed.csv"
    rows = [f"d{day},i{one},{day}" for day in rng.permutation(100) for one in rng.choice(20, 4, replace=False)]
    file.write_text("\n".join(["session,item,time", *rows]) + "\n")
    return file


def test_the_latest_sessions_are_held_out(timed: Path) -> None:
    data, found = prepared(timed, {}, None, 0)
    assert found["sessions"] == 100
    training, held_out = hold_out(data, 0, TIME)
    assert held_out is not None
    assert held_out.starts is not None
    assert training.starts is not None
    assert sorted(held_out.starts) == list(range(90, 100))
    assert sorted(training.starts) == list(range(90))


def test_by_default_they_are_drawn_at_random(timed: Path) -> None:
    data, _ = prepared(timed, {}, None, 0)
    draws = [hold_out(data, seed, RANDOM)[1] for seed in (0, 0, 1)]
    starts = [sorted(one.starts) for one in draws if one is not None and one.starts is not None]
    assert starts[0] == starts[1] != starts[2]
    assert len(starts[0]) == 10


def test_slates_are_split_by_time(tmp_path: Path) -> None:
    rows = [f"u{n % 5},s{n},{one},{one % 2},{97 * n % 60}" for n in range(60) for one in range(3)]
    (tmp_path / "slates.csv").write_text("\n".join(["session,slate,item,outcome,time", *rows]) + "\n")
    data, _ = prepared(tmp_path / "slates.csv", {}, None, 0)
    training, held_out = hold_out(data, 0, TIME)
    assert held_out is not None
    assert held_out.starts is not None
    assert training.starts is not None
    assert sorted([*training.starts, *held_out.starts]) == list(range(60))
    assert min(held_out.starts) > max(training.starts)


def test_few_sessions_are_not_held_out(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("session,item,time\n1,a,1\n1,b,2\n2,a,3\n2,b,4\n")
    data, _ = prepared(tmp_path / "few.csv", {}, None, 0)
    assert hold_out(data, 0, TIME) == (data, None)


def test_sessions_that_repeat_one_item_are_not_evaluated(tmp_path: Path) -> None:
    rows = [f"{n},{'a' if n % 2 else n % 3}\n{n},a" for n in range(100)]
    (tmp_path / "repeated.csv").write_text("\n".join(["session,item", *rows]) + "\n")
    data, _ = prepared(tmp_path / "repeated.csv", {}, None, 0)
    training, held_out = hold_out(data, 0, RANDOM)
    assert isinstance(held_out, Sessions)
    assert 0 < len(held_out) < 10
    assert len(training) == 90
    assert all(len(set(items.tolist())) == 2 for items in held_out.items)


def test_attributes_of_another_table(tmp_path: Path) -> None:
    rows = [f'{{"playlist": {n}, "tracks": [{n % 3}, {3 + n % 2}]}}' for n in range(6)]
    (tmp_path / "playlists.jsonl").write_text("\n".join(rows))
    (tmp_path / "tracks.csv").write_text("track_id,artist,length\n0,Ada,180\n1,Bo,200\n2,Ada,\n3,Cy,90\n9,Di,1\n")
    named = {"items": tmp_path / "tracks.csv", "attributes": {"singer": "artist", "length": "length"}}
    data, found = prepared(tmp_path / "playlists.jsonl", named, None, 0)
    assert (found["sessions"], found["items"]) == (6, 5)
    singers = dict(zip(data.ids, data.attributes["singer"], strict=True))
    assert singers == {0: "Ada", 1: "Bo", 2: "Ada", 3: "Cy", 4: None}


def test_outcomes_without_slates_are_not_taken_for_choices_in_silence(tmp_path: Path) -> None:
    rows = [f"{n},{item},{(n + item) % 2}" for n in range(50) for item in range(3)]
    (tmp_path / "clicks.csv").write_text("\n".join(["user,item,clicked", *rows]) + "\n")
    _, found = prepared(tmp_path / "clicks.csv", {}, None, 0)
    (note,) = found["notes"]
    assert note.startswith("Column 'clicked' is not read: every row counts as an item that was chosen.")
    for read in ({"attributes": {"clicked": "clicked"}}, {"item": "clicked", "session": "item"}):
        assert not prepared(tmp_path / "clicks.csv", read, None, 0)[1]["notes"]
    slates, _ = prepared(tmp_path / "clicks.csv", {"slate": "user"}, None, 0)  # what the note proposes
    assert isinstance(slates, Slates)
    assert len(slates) == 50

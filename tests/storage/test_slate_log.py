"""The log of slates and outcomes: nothing accepted is lost, nothing counts twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st

import processes
from setwise.errors import InvalidInput
from setwise.storage.log_database import connect
from setwise.storage.slate_log import (
    ItemOutcome,
    ShownSlate,
    SlateLog,
    new_id,
    read_slates,
    read_totals,
    time_of,
    week_files,
    week_of,
)

CHILD = Path(__file__).with_name("log_child.py")
DAY = 86_400.0


def shown(now: float | None = None, key: str | None = None, **options: object) -> ShownSlate:
    return ShownSlate(new_id(now), key, "v1", json.dumps(["a", "b", 3]), [0.5, 0.25, 0.25], **options)


def stored(folder: Path) -> dict[tuple[str, object], float]:
    """{(slate, item): outcome} of the whole log."""
    return {
        (slate.id, slate.items[position]): outcome
        for slate in read_slates(folder)
        for position, outcome, _ in slate.outcomes
    }


class CountedText(str):
    """A text that counts its comparisons."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_unknown_slates_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """They are a week's that was deleted, say; while they are listed, all slates wait for the log."""
    log, n = SlateLog(tmp_path / "log"), 2000
    ids = [CountedText(new_id(1e9 + number)) for number in range(n)]
    (recorded,) = log.write([[ItemOutcome(each, "a") for each in (*ids, *ids)]])
    log.close()
    assert sorted(recorded.unknown_slates) == sorted(ids)
    assert CountedText.comparisons < 20 * n


def test_slates_and_outcomes(tmp_path: Path) -> None:
    log, now = SlateLog(tmp_path / "log"), time.time()
    one, two = shown(now, key="user 7"), shown(now + 1, propensity=0.01, explored=True)
    (recorded,) = log.write([[one, two]])[:1]
    assert (recorded.new, recorded.repeated) == (0, 0)
    outcomes = [ItemOutcome(one.id, "a"), ItemOutcome(one.id, 3, 0.5), ItemOutcome(one.id, "a")]
    strange = [
        ItemOutcome(one.id, "3"),
        ItemOutcome(new_id(), "a"),
        ItemOutcome("no id", "a"),
        ItemOutcome("f" * 32, 1),
    ]
    (recorded,) = log.write([[*outcomes, *strange]])
    assert (recorded.new, recorded.repeated) == (2, 1)
    assert recorded.not_shown == strange[:1], "the item 3 is not the item '3'"
    assert sorted(recorded.unknown_slates) == sorted(each.slate for each in strange[1:])
    log.close()
    first, second = read_slates(tmp_path / "log")
    assert (first.id, first.key, first.items, first.rewards) == (one.id, "user 7", ["a", "b", 3], one.rewards)
    assert [(position, outcome) for position, outcome, _ in first.outcomes] == [(0, 1.0), (2, 0.5)]
    assert (second.propensity, second.explored, second.outcomes) == (0.01, True, [])


@given(st.lists(st.tuples(st.sampled_from(["a", "b", 3]), st.floats(0, 1)), max_size=12), st.randoms())
def test_repeats_and_order_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[object, float]], rng: random.Random
) -> None:
    """An item's outcome is the largest that was received."""
    folder, one = tmp_path_factory.mktemp("log"), shown()
    log = SlateLog(folder)
    log.write([[one]])
    again = [*sent, *rng.sample(sent, len(sent) // 2)]
    rng.shuffle(again)
    recorded = [log.write([[ItemOutcome(one.id, *each)]])[0] for each in again]
    assert sum(each.new + each.repeated for each in recorded) == len(again)
    log.close()
    assert stored(folder) == {(one.id, item): max(o for i, o in sent if i == item) for item, _ in sent}


def test_outcomes_of_former_weeks(tmp_path: Path) -> None:
    now = time.time()
    slates = [shown(now - weeks * 7 * DAY) for weeks in range(9)]
    log = SlateLog(tmp_path)
    log.write([slates])
    assert [path.name for path in week_files(tmp_path)] == sorted(
        {f"week-{week_of(time_of(s.id))}.sqlite" for s in slates}
    )
    recorded = log.write([[ItemOutcome(one.id, "b")] for one in slates])
    assert [each.new for each in recorded] == [1] * 9
    log.close()
    assert stored(tmp_path) == {(one.id, "b"): 1.0 for one in slates}
    assert len(list(read_slates(tmp_path, since=now - 15 * DAY, before=now - 3 * DAY))) == 2


def test_only_so_many_weeks_are_kept(tmp_path: Path) -> None:
    now, log = time.time(), SlateLog(tmp_path, weeks=2)
    old = shown(now - 21 * DAY)
    log.write([[old]])
    log.write([[shown(now - 7 * DAY)]])
    assert len(week_files(tmp_path)) == 2
    (recorded,) = log.write([[ItemOutcome(old.id, "a")]])
    assert recorded.unknown_slates == [old.id]
    assert len(list(tmp_path.glob("*-wal"))) <= 2
    log.close()


@pytest.mark.parametrize("weeks", [1, 2])
def test_future_weeks_do_not_displace_this_one(tmp_path: Path, weeks: int) -> None:
    """A wrong clock made them: this week's database was deleted as soon as it was made, and nothing was logged."""
    now = time.time()
    future, last, present = shown(now + 30 * DAY), shown(now - 7 * DAY), shown(now)
    log = SlateLog(tmp_path)
    log.write([[future, shown(now + 60 * DAY)]])
    log.close()
    for path in week_files(tmp_path)[:-2]:  # this week's
        path.unlink()
    log = SlateLog(tmp_path, weeks=weeks)
    log.write([[last, present]])
    (recorded,) = log.write([[ItemOutcome(one.id, "a") for one in (last, present, future)]])
    assert recorded.new == 3
    assert len(week_files(tmp_path)) == 4
    log.write([[shown(now - 14 * DAY)]])
    assert len(week_files(tmp_path)) == 3 + weeks, "last week's goes, or the new one is the oldest"
    log.close()


def deleted(folder: Path, what: str) -> None:
    if what == "folder":
        shutil.rmtree(folder)
    else:
        for path in folder.glob("week-*" if what == "all files" else "week-*.sqlite"):
            path.unlink()


@pytest.mark.parametrize("what", ["folder", "all files", "database"])
def test_a_week_that_is_deleted_while_it_is_open(tmp_path: Path, what: str) -> None:
    """What is accepted afterwards is in the folder; what was deleted is unknown."""
    folder = tmp_path / "log"
    log, other = SlateLog(folder), SlateLog(folder)
    old, new = [shown(), shown()], [shown(), shown()]
    for one, slate in zip((log, other), old, strict=True):
        one.write([[slate], [ItemOutcome(slate.id, "a")]])
    deleted(folder, what)
    (recorded,) = log.write([[ItemOutcome(old[0].id, "b")]])
    assert (recorded.new, recorded.unknown_slates) == (0, [old[0].id])
    for one, slate in zip((log, other), new, strict=True):
        assert one.write([[slate], [ItemOutcome(slate.id, "a")]])[1].new == 1
    (recorded,) = other.write([[ItemOutcome(old[1].id, "b")]])
    assert recorded.unknown_slates == [old[1].id]
    log.close()
    assert other.write([[ItemOutcome(new[0].id, "b")]])[0].new == 1
    other.close()
    assert stored(folder) == {(new[0].id, "a"): 1.0, (new[1].id, "a"): 1.0, (new[0].id, "b"): 1.0}


def test_totals_by_week(tmp_path: Path) -> None:
    log = SlateLog(tmp_path)
    slates = [shown(DAY) for _ in range(4)] + [shown(DAY, explored=True)]
    log.write(
        [slates, [ItemOutcome(slates[0].id, "a"), ItemOutcome(slates[0].id, "b"), ItemOutcome(slates[4].id, 3, 0.5)]]
    )
    log.close()
    (_, version, explored, normal), (*_, other) = read_totals(tmp_path)
    assert (version, explored) == ("v1", False)
    assert (normal.slates, normal.answered, normal.promised, normal.had) == (4, 1, 4.0, 2.0)
    assert normal.difference == pytest.approx(-0.5)
    assert normal.error == pytest.approx((0.75 / 4) ** 0.5)
    assert (other.slates, other.had) == (1, 0.5)
    assert normal.plus(other).squares == pytest.approx(4.25)


# --- processes that are killed ---


def pairs(lines: list[str]) -> set[tuple[str, object]]:
    return {(slate, item) for line in lines if line.startswith("[") for slate, item in json.loads(line)}


@pytest.mark.nightly
@pytest.mark.promise("outcomes")
def test_killed_processes_lose_nothing(tmp_path: Path, count) -> None:
    """Two processes write to one folder, and are killed (SIGKILL) at any time; 200 times with --large."""
    rng, accepted, sent = random.Random(time.time_ns()), set(), set()
    for number in range(count(200) // 2):
        with ExitStack() as block:
            commands = [[sys.executable, CHILD, tmp_path, 2 * number + at] for at in range(2)]
            options = {"stdout": PIPE, "text": True}
            children = [block.enter_context(processes.started(command, **options)) for command in commands]
            texts = ["".join(child.stdout.readline() for _ in range(2)) for child in children]  # both are writing
            time.sleep(rng.uniform(0, 0.05))
            for child, text in zip(children, texts, strict=True):
                child.kill()
                lines = (text + child.stdout.read()).split("\n")
                assert child.wait(processes.LIMIT) == -signal.SIGKILL
                done = max(at for at, line in enumerate(lines) if line == "stored")
                accepted |= pairs(lines[:done])
                sent |= pairs([line for line in lines if line.endswith("]")])
    found = stored(tmp_path)
    assert accepted <= found.keys(), "an accepted outcome was lost"
    assert found.keys() <= sent
    total = sum(totals.had for *_, totals in read_totals(tmp_path))
    assert total == len(found), "each counts once"


# --- a disk that is full ---


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if processes.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", folder]).returncode:
        pytest.skip("mounting is not permitted")
    yield folder
    processes.run(["umount", folder], check=True)


def fill(log: SlateLog, limit: int) -> tuple[set[tuple[str, object]], bool]:
    """Write until it fails, at most so often: what was accepted, and whether it failed."""
    accepted = set()
    for _ in range(limit):
        slates = [shown() for _ in range(20)]
        outcomes = [ItemOutcome(one.id, item) for one in slates for item in ("a", "b")]
        try:
            log.write([slates, outcomes])
        except (sqlite3.Error, OSError):
            return accepted, True
        accepted |= {(one.slate, one.item) for one in outcomes}
    return accepted, False


def test_a_full_disk(tiny_disk: Path) -> None:
    filler = tiny_disk / "filler"
    filler.write_bytes(b"x" * 250_000)
    log = SlateLog(tiny_disk / "log")
    accepted, failed = fill(log, 10_000)
    assert failed
    assert accepted
    filler.unlink()
    more, _ = fill(log, 10)
    assert more, "with room again, outcomes are accepted again"
    log.close()
    assert stored(tiny_disk / "log").keys() == accepted | more


def test_a_limit_of_the_file_size(tmp_path: Path) -> None:
    """The same by RLIMIT_FSIZE: writes beyond it fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = SlateLog(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        accepted, failed = fill(log, 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert failed
    assert accepted
    more, failed = fill(log, 10)
    assert not failed
    log.close()
    assert stored(tmp_path).keys() == accepted | more


# --- bad folders ---


def test_folders_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--log must be a folder"):
        SlateLog(tmp_path / "file")
    with pytest.raises(InvalidInput, match="setwise serve --log"):
        list(read_slates(tmp_path))
    (tmp_path / "week-2026-W01.sqlite").write_bytes(os.urandom(5000))
    with pytest.raises(InvalidInput, match=r"week-2026-W01\.sqlite"):
        list(read_slates(tmp_path))
    (tmp_path / "week-2026-W01.sqlite").unlink()
    with sqlite3.connect(tmp_path / "week-2026-W01.sqlite") as database:
        database.execute("CREATE TABLE slates (id TEXT)")
    database.close()
    with pytest.raises(InvalidInput, match="not a log of slates"):
        list(read_slates(tmp_path))


ENDLESS = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT"


@pytest.mark.promise("hostile-files")
@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (
            f"DROP TABLE slates; CREATE VIEW slates AS {ENDLESS} 'a' AS id, '' AS key, '' AS version, '[]' AS items,"
            " '[]' AS rewards, 0.0 AS value, 1.0 AS propensity, 0 AS explored FROM more",
            "it has the view 'slates'",
        ),
        (f"DROP TABLE outcomes; CREATE TABLE outcomes AS {ENDLESS} n AS slate FROM more LIMIT 3", "'outcomes'"),
        ("CREATE TRIGGER t AFTER INSERT ON slates BEGIN DELETE FROM outcomes; END", "it has the trigger 't'"),
        ("CREATE INDEX i ON slates (hex(zeroblob(9)))", "it has the index 'i'"),
        ("DROP TABLE outcomes", "it lacks a table"),
    ],
)
def test_other_tables_are_refused_before_they_are_read(tmp_path: Path, statements: str, words: str) -> None:
    SlateLog(tmp_path).close()
    (path,) = tmp_path.glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(statements)
    before = path.read_bytes()
    for read in (read_slates, read_totals):
        with pytest.raises(InvalidInput, match=words):
            list(read(tmp_path))
    with pytest.raises(InvalidInput, match="--log must be"):
        SlateLog(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.promise("hostile-files")
def test_a_query_without_end_is_ended(tmp_path: Path) -> None:
    """More steps than a file of its size can need: pages of a damaged file may lead in circles."""
    log = SlateLog(tmp_path)
    fill(log, 1)
    log.close()
    assert len(list(read_slates(tmp_path))) == 20
    (path,) = tmp_path.glob("*.sqlite")
    with contextlib.closing(connect(path, read_only=True)) as database:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            database.execute(f"{ENDLESS} count(*) FROM more").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            database.execute("DELETE FROM slates")


def test_a_database_that_was_analysed_is_read(tmp_path: Path) -> None:
    log = SlateLog(tmp_path)
    fill(log, 1)
    log.close()
    (path,) = tmp_path.glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("ANALYZE; VACUUM")
    assert len(list(read_slates(tmp_path))) == 20


def test_damage_beyond_the_head_is_reported(tmp_path: Path) -> None:
    log = SlateLog(tmp_path)
    fill(log, 10)
    log.close()
    (path,) = tmp_path.glob("*.sqlite")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(size - 3 * 4096))
    for read in (read_slates, read_totals):
        with pytest.raises(InvalidInput, match=r"the log must be databases that can be read"):
            list(read(tmp_path))


@pytest.mark.promise("hostile-files")
@pytest.mark.parametrize(
    "change",
    [
        *(f"slates SET {name} = {text}" for name in ("items", "rewards") for text in ("'['", "'{}'", "x'ff'", "'[1]'")),
        "slates SET items = '[null, true, 1]'",
        "slates SET rewards = '[NaN, 0.1, 0.2]'",
        f"slates SET rewards = '{'[' * 50_000}'",
        "slates SET version = x'ff'",
        "outcomes SET position = 3",
        "outcomes SET position = -1",
        "outcomes SET outcome = 'a'",
        "outcomes SET received = 9e999",
    ],
)
def test_fields_that_no_service_wrote_are_refused(tmp_path: Path, change: str) -> None:
    """They ended setwise train --from-log with a traceback; a service still stores the outcomes of other slates."""
    log = SlateLog(tmp_path)
    damaged, sound = shown(), shown()
    log.write([[damaged], [ItemOutcome(damaged.id, "b", 1.0)]])
    (path,) = tmp_path.glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"UPDATE {change}")
    outcomes = [ItemOutcome(damaged.id, "a", 1.0), ItemOutcome(sound.id, "a", 1.0)]
    assert log.write([[sound], outcomes])[1].new >= 1
    log.close()
    with pytest.raises(InvalidInput, match="the log must be databases as setwise serve --log writes them, got week"):
        list(read_slates(tmp_path))


@pytest.mark.parametrize("change", ["version = x'ff'", "value = 9e999"])
def test_sums_that_are_no_numbers_are_refused(tmp_path: Path, change: str) -> None:
    log = SlateLog(tmp_path)
    fill(log, 3)
    log.close()
    (path,) = tmp_path.glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"UPDATE slates SET {change}")
    with pytest.raises(InvalidInput, match=r"week .* with a damaged slate or outcome"):
        list(read_totals(tmp_path))


@pytest.mark.parametrize("text", ["", "x" * 32, "F" * 32, "0" * 31, "0" * 33, "é" * 32])
def test_ids_of_no_slate(text: str) -> None:
    assert time_of(text) is None


def test_ids_are_in_the_order_of_time() -> None:
    ids = [new_id(second / 7) for second in range(100)]
    assert ids == sorted(ids)
    assert time_of(ids[7]) == 1.0
    assert week_of(1e15) is None
    assert time_of("f" * 32) is not None

"""trivago's steps and clickouts: public samples and malformed rows."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from setwise.datasets.grouping import LATEST
from setwise.datasets.trivago import (
    read_item_metadata,
    read_trivago,
    read_trivago_impressions,
    read_trivago_sessions,
)
from setwise.errors import InvalidInput, MalformedFile

HEADER = (
    "user_id,session_id,timestamp,step,action_type,reference,platform,city,device,current_filters,impressions,prices\n"
)


def step(number: int, action: str, reference: object, shown: str = "", prices: str = "", session: str = "s", user: str = "u", time: int | None = None) -> str:  # fmt: skip
    when = 1000 + number if time is None else time
    return f'{user},{session},{when},{number},{action},{reference},AU,"Sydney, Australia",mobile,,{shown},{prices}\n'


def image(number: int, hotel: object, **more) -> str:
    return step(number, "interaction item image", hotel, **more)


def click(number: int, hotel: object, shown: str, prices: str | None = None, **more) -> str:
    return step(number, "clickout item", hotel, shown, "|".join("9" for _ in shown.split("|")) if prices is None else prices, **more)  # fmt: skip


def written(folder: Path, *rows: str, name: str = "train.csv") -> Path:
    path = folder / name
    data = (HEADER + "".join(rows)).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def named(data, lists) -> list[list[int]]:
    return [[data.ids[row] for row in one] for one in lists]


def test_a_slate_for_every_clickout(tmp_path):
    path = written(
        tmp_path, image(1, 10), step(2, "search for poi", "Newtown"), step(3, "search for item", 11),
        click(4, 12, "11|12|13", "50|60|70"), image(5, 13), click(6, 11, "11|14", "55|80"), name="train.csv.gz",
    )  # fmt: skip
    slates = read_trivago(path, progress=False)
    assert named(slates, slates.shown) == [[11, 12, 13], [11, 14]]
    assert named(slates, slates.history) == [[10, 11], [10, 11, 12, 13]]
    assert slates.outcome.tolist() == [0, 1, 0, 1, 0]
    assert slates.outcome.dtype == np.float32
    prices = dict(zip(slates.ids, slates.attributes["price"], strict=True))
    assert np.isnan(prices.pop(10))
    assert prices == {11: 55, 12: 60, 13: 70, 14: 80}


def test_rows_in_any_order_and_separate_sessions(tmp_path):
    rows = [click(3, 12, "12|13", "1|2"), image(2, 11), image(1, 10), image(1, 99, session="t"), image(1, 98, user="v")]
    slates = read_trivago(written(tmp_path, *rows), progress=False)
    assert named(slates, slates.history) == [[10, 11]]


def test_the_latest_price_is_the_one_of_the_latest_time(tmp_path):
    rows = [click(2, 1, "1", "70", time=500), click(1, 1, "1", "60", time=400)]
    assert read_trivago(written(tmp_path, *rows), progress=False).attributes["price"].tolist() == [70]


def test_consecutive_steps_on_one_hotel_count_once(tmp_path):
    rows = [
        image(1, 1),
        image(2, 1),
        step(3, "filter selection", "Pool"),
        image(4, 1),
        image(5, 2),
        image(6, 1),
        click(7, 1, "1|2"),
    ]
    slates, sessions = (
        read(written(tmp_path, *rows), progress=False) for read in (read_trivago, read_trivago_sessions)
    )
    assert named(slates, slates.history) == [[1, 2, 1]]
    assert named(sessions, sessions.items) == [[1, 2, 1]]


def test_numbers_that_are_not_hotels(tmp_path):
    rows = [
        step(1, "search for destination", 1770),
        step(2, "filter selection", 5),
        step(3, "search for item", "unknown"),
        click(4, 1, "1"),
    ]
    slates = read_trivago(written(tmp_path, *rows), progress=False)
    assert slates.ids == [1]
    assert named(slates, slates.history) == [[]]


def test_clickouts_without_a_slate_are_counted(tmp_path):
    skipped: Counter[str] = Counter()
    rows = [click(1, 5, "1|2"), step(2, "clickout item", 6), click(3, "", "1|2"), click(4, 1, "1|2")]
    slates = read_trivago(written(tmp_path, *rows), progress=False, skipped=skipped)
    assert skipped == {
        "clickouts of a hotel that was not shown": 1,
        "clickouts without impressions": 1,
        "clickouts without a reference": 1,
    }
    assert named(slates, slates.history) == [[5, 6]]


def test_a_hotel_shown_twice_counts_once(tmp_path):
    slates = read_trivago(written(tmp_path, click(1, 2, "1|2|1|2", "5|6|7|8")), progress=False)
    assert named(slates, slates.shown) == [[1, 2]]
    assert slates.outcome.tolist() == [0, 1]
    assert dict(zip(slates.ids, slates.attributes["price"], strict=True)) == {1: 5, 2: 6}


def test_the_cost_of_a_long_session_is_linear(tmp_path):
    rows = [click(number, number, f"{number}|1") for number in range(2, 3 * LATEST)]
    slates = read_trivago(written(tmp_path, *rows), progress=False)
    assert slates.history.lengths.max() == LATEST
    assert [slates.ids[row] for row in slates.history[-2 + len(slates)]][-1] == 3 * LATEST - 3


def test_no_clickouts_at_all(tmp_path):
    path = written(tmp_path, image(1, 1))
    assert len(read_trivago(path, progress=False)) == 0
    assert len(read_trivago(written(tmp_path), progress=False)) == 0
    assert len(read_trivago_sessions(written(tmp_path), progress=False)) == 0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (click(1, 1, "1|2|3", "5|6"), "there must be a price for each of 3 impressions, got 2"),
        (click(1, 1, "1|2", ""), "impressions and prices must be whole numbers separated by '|'"),
        (click(1, 1, "1|x"), "impressions and prices must be whole numbers"),
        (click(1, 1, "1||2"), "impressions and prices must be whole numbers"),
        (click(1, 1, "1|2", "5|-6"), "impressions and prices must be whole numbers"),
        (image("one", 1, time=3), "'step' must be a whole number of at least 0, got 'one'"),
        (image(1, 1, time="2018-11-01"), "'timestamp' must be a whole number"),
        (image(1, 1, session=""), "a step must have a session_id"),
        ("u,s,1,1,clickout item\n", "there must be 12 cells, as in the header, got 5"),
        ('u,"s\n', "unexpected end of data"),
        ("u\0", "a text must not hold NUL bytes"),
    ],
)
def test_malformed_rows(tmp_path, row, reason):
    path = written(tmp_path, image(1, 1), row)
    for read in (read_trivago, read_trivago_sessions):
        if read is read_trivago_sessions and "price" in reason:
            continue
        with pytest.raises(MalformedFile) as caught:
            read(path, progress=False)
        assert str(caught.value).startswith("train.csv, line 3: ")
        assert reason in str(caught.value)


def test_a_missing_column(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("user_id,session_id\n")
    with pytest.raises(
        InvalidInput,
        match=r"column must be a column that train.csv has once, got no 'timestamp' among 'user_id', 'session_id'",
    ):
        read_trivago(path, progress=False)


def test_a_truncated_gzip(tmp_path):
    path = written(tmp_path, *(image(number, number) for number in range(1, 5000)), name="train.csv.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(MalformedFile, match="is damaged from here on"):
        read_trivago(path, progress=False)


# --- impressions and metadata --------------------------------------------------------------------------------------


def test_impressions_without_clicks(tmp_path):
    path = tmp_path / "impressions.csv"
    path.write_text("session_id,impressions,prices\na,1|2,10|20\nb,,\nc,2|3,25|30\n")
    sessions = read_trivago_impressions(path, progress=False)
    assert named(sessions, sessions.items) == [[1, 2], [2, 3]]
    assert sessions.attributes["price"].tolist() == [10, 25, 30]


def test_metadata_of_both_kinds(tmp_path):
    (tmp_path / "long.csv").write_text('item_id,properties\n1,"WiFi, free|Pool"\n2,\n')
    (tmp_path / "wide.csv").write_text("item_id,Pool,WiFi\n1,0,1\n2,1,1\n3,0,0\n")
    assert read_item_metadata(tmp_path / "long.csv") == {1: ("WiFi, free", "Pool"), 2: ()}
    assert read_item_metadata(tmp_path / "wide.csv") == {1: ("WiFi",), 2: ("Pool", "WiFi"), 3: ()}
    slates = read_trivago(written(tmp_path, click(1, 1, "1|7")), metadata=tmp_path / "long.csv", progress=False)
    assert slates.attributes["properties"] == ["WiFi, free|Pool", None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("item_id,properties\nx,Pool\n", "'item_id' must be a whole number"),
        ("item_id,Pool\n1,2\n", "a property must be 0 or 1"),
        ("item_id,Pool\n1,\n", "a property must be 0 or 1"),
        ("item_id,Pool\n1\n", "there must be 2 cells"),
    ],
)
def test_malformed_metadata(tmp_path, text, reason):
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(MalformedFile, match=reason):
        read_item_metadata(path)


def test_repeated_metadata_is_refused(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item_id,properties\n1,Pool\n1,WiFi\n")
    with pytest.raises(MalformedFile, match="line 3: a hotel must have one row, got 1 again"):
        read_item_metadata(path)


# --- public samples ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "clickouts", "kept"),
    [("train_head", 194, 193), ("train_random_rows", 1606, 1606), ("train_sessions_small", 12, 12)],
)
def test_public_clickouts(shared_data, name, clickouts, kept):
    skipped: Counter[str] = Counter()
    slates = read_trivago(shared_data / "trivago" / f"trivago_{name}.csv.gz", progress=False, skipped=skipped)
    assert (len(slates), len(slates) + skipped.total()) == (kept, clickouts)
    assert np.add.reduceat(slates.outcome, slates.shown.offsets[:-1]).tolist() == [1.0] * kept
    assert (slates.shown.lengths.min(), slates.shown.lengths.max()) >= (1, 1)
    assert slates.shown.lengths.max() <= 25
    assert not np.isnan(slates.attributes["price"][slates.shown.values]).any()


def test_histories_of_whole_sessions_and_of_random_rows(shared_data):
    head = read_trivago(shared_data / "trivago" / "trivago_train_head.csv.gz", progress=False)
    rows = read_trivago(shared_data / "trivago" / "trivago_train_random_rows.csv.gz", progress=False)
    assert (head.history.lengths > 0).mean() > 0.5
    assert (rows.history.lengths > 0).mean() < 0.02
    assert rows.shown.lengths.mean() == pytest.approx(22.8, abs=0.05)


def test_public_sessions(shared_data):
    sessions = read_trivago_sessions(shared_data / "trivago" / "trivago_train_head.csv.gz", progress=False)
    assert len(sessions) == 121  # each of the 121 complete sessions is about some hotel
    assert len(read_trivago_sessions(shared_data / "trivago" / "trivago_train_sessions_small.csv.gz")) == 7


def test_public_impressions_and_metadata(shared_data):
    folder = shared_data / "trivago"
    shown = read_trivago_impressions(folder / "trivago_session_impressions.csv.gz", progress=False)
    assert len(shown) == 12_543
    assert (shown.items.lengths.min(), shown.items.lengths.max()) == (1, 25)
    assert len(read_item_metadata(folder / "trivago_item_metadata_head.csv.gz", progress=False)) == 2333
    features = read_item_metadata(folder / "trivago_item_features_sample.csv.gz", progress=False)
    assert len(features) == 9271
    assert len({name for names in features.values() for name in names}) <= 157

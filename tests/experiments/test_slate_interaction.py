"""Prediction with company: attention finds what the other members say, the placebo does not; readers and errors."""

from __future__ import annotations

import csv
import gzip
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.nightly

COUNT = 1500
ROOT = Path(__file__).resolve().parents[2]


def small_table(network: ModuleType, loss: str) -> object:
    """Four items of two kinds; an item is a hit if the other three are of the other kind."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=(COUNT, 4))
    others = kind.sum(axis=1, keepdims=True) - kind
    alike = np.where(kind == 1, others, 3 - others)
    hit = (alike == 0).astype(np.float32)
    if loss == "choice":
        hit = np.eye(4, dtype=np.float32)[np.argmin(alike + rng.random((COUNT, 4)) * 0.1, axis=1)]
    features = np.stack([kind, rng.normal(size=(COUNT, 4))], axis=2).astype(np.float32)
    context = rng.normal(size=(COUNT, 2)).astype(np.float32)
    filled = np.ones((COUNT, 4), bool)
    return network.SlateTable(features, np.zeros((COUNT, 4), np.int64), filled, context, hit, np.arange(COUNT) // 2)


@pytest.mark.parametrize("loss", ["item", "choice"])
def test_company_is_found_and_the_placebo_gains_nothing(loss: str) -> None:
    network, report = import_module("slate_interaction"), import_module("interaction_report")
    table = small_table(network, loss)
    setting = network.Setting(loss, dim=8, heads=2, epochs=15, batch=50)
    kinds = (report.ALONE, report.INTERACTION, report.PLACEBO)
    found = network.held_out_arguments(table, setting, kinds, 3, 0, 1)
    rows = {row["model"]: row for row in network.interaction_rows("small", table, found, loss, 0)}
    assert rows[report.ALONE]["gain"] == 0
    assert rows[report.INTERACTION]["gain"] > 5 * rows[report.INTERACTION]["error"] > 0
    assert rows[report.PLACEBO]["gain"] < 0.3 * rows[report.INTERACTION]["gain"]
    assert 0.25 * COUNT < rows[report.ALONE]["slates"] < 0.42 * COUNT, "one fold of three"
    assert (rows[report.INTERACTION]["order"] is None) == (loss == "choice")


def test_a_copy_of_the_slate_is_the_same_company() -> None:
    network, report = import_module("slate_interaction"), import_module("interaction_report")
    table = small_table(network, "item").taken(np.arange(120))
    table.filled[::3, 3] = False
    model = network.trained(table, 1, network.Setting("item", dim=4, heads=2, epochs=2), report.INTERACTION, 0).eval()
    part, copy = (network._some(network._tensors(table), np.arange(40)) for _ in range(2))
    own, other = model(part, part)[part["filled"]], model(part, copy)[part["filled"]]
    np.testing.assert_allclose(own.detach().numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_errors_are_clustered() -> None:
    report = import_module("interaction_report")
    rng = np.random.default_rng(0)
    difference = np.repeat(rng.normal(size=200), 5)  # five equal slates a user
    zero, unit = np.zeros(1000), np.ones(1000)
    mean, clustered = report.gain(difference, zero, np.repeat(np.arange(200), 5), unit)
    _, apart = report.gain(difference, zero, np.arange(1000), unit)
    assert mean == pytest.approx(difference.mean())
    assert clustered == pytest.approx(apart * 5**0.5, rel=1e-9)
    assert clustered == pytest.approx(difference[::5].std() / 200**0.5, rel=1e-9)


def written(path: Path, header: list[str], rows: list[list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def test_the_chain_of_a_shop_that_sells_out(tmp_path: Path) -> None:
    shop = import_module("shop_slates")
    names = [f"{what}{place}" for what in ("item", "bought") for place in range(1, 10)]
    sales = [[1] * 3 + [0] * 6, [1] * 9, [0] * 9, [1] * 6 + [0, 1, 0]]
    written(tmp_path / shop.FILES[0], ["user_id", *names, "portrait_1"],
            [[n, *range(1, 10), *one, 1] for n, one in enumerate(sales)])  # fmt: skip
    written(tmp_path / shop.FILES[1], ["item_id", "price", "location", *(f"vec{i}" for i in range(1, 6))],
            [[i, 10 * i, (i + 2) // 3, 1, 2, 3, 4, 5] for i in range(1, 10)])  # fmt: skip
    table = shop.read(tmp_path)
    assert table.outcome.tolist() == sales
    assert shop.unlocked(table).filled.sum(axis=1).tolist() == [6, 9, 3, 9]
    argument = shop.chained(np.full((4, 9), 2.0), table, 0)
    probability = 1 / (1 + np.exp(-argument))
    assert (np.diff(probability[:, [0, 3, 6]], axis=1) < 0).all(), "later lists are bought less"
    assert probability[0, 0] == pytest.approx(1 / (1 + np.exp(-2.0)))


def test_news_are_counted_before_they_are_shown(tmp_path: Path) -> None:
    news = import_module("news_lists")
    header = ["impression_time", "user_id", "device_type", "is_sso_user", "is_subscriber", "article_id",
              "article_ids_inview", "article_ids_clicked"]  # fmt: skip
    rows = [[f"2023-05-18 07:00:{second:02}", 5, 1, 0, 0, "", "1|2|3|4|5", "2"] for second in range(3)]
    rows.append(["2023-05-18 08:00:00", 6, 2, 0, 1, "9", "1|2|3|4|5|6", "6"])
    rows.append(["2023-05-18 08:00:01", 6, 2, 0, 1, "9", "1|2|3|4|5|6", "6|1"])  # two clicks: left out
    written(tmp_path / news.FILES[0], header, rows)
    np.savez(tmp_path / news.FILES[1], user_id=[5], length=[1], article_id=[3])
    table = news.read(tmp_path, (5, 6))
    assert len(table) == 4
    assert table.filled.sum(axis=1).tolist() == [5, 5, 5, 6]
    assert table.outcome.argmax(axis=1).tolist() == [1, 1, 1, 5]
    views = table.features[:, 0, 0]
    assert (np.diff(views) > 0).all(), "views so far grow"
    clicks = table.features[:3, 1, 1]
    assert clicks[0] == table.features[0, 0, 1], "the click itself is not counted before it happened"


def test_hotels_and_line_ups(tmp_path: Path) -> None:
    hotels, matches = import_module("hotel_lists"), import_module("line_ups")
    header = ["user_id", "session_id", "action_type", "reference", "device", "current_filters", "impressions", "prices"]
    written(tmp_path / hotels.FILE, header, [
        ["u", "s", "interaction item image", "12", "mobile", "", "", ""],
        ["u", "s", "clickout item", "12", "mobile", "a|b", "11|12|13|14|15", "50|60|70|80|90"],
        ["u", "s", "clickout item", "99", "mobile", "", "11|12|13|14|15", "50|60|70|80|90"],
        ["v", "t", "clickout item", "11", "desktop", "", "11|12|13|14|15", "50|60|70|80|90"],
    ])  # fmt: skip
    table = hotels.read(tmp_path)
    assert len(table) == 2
    assert table.outcome.argmax(axis=1).tolist() == [1, 0]
    assert table.features[0, 1, 6] > table.features[0, 0, 6], "the user looked at it"
    assert table.features[1, 1, 6] == table.features[1, 0, 6], "another session"
    rng = np.random.default_rng(0)
    heroes = np.stack([rng.permutation(12) for _ in range(400)])
    (tmp_path / matches.FILE).parent.mkdir(parents=True)
    won = (heroes[:, :5] == 0).any(axis=1).astype(int)
    np.savez(tmp_path / matches.FILE, radiant=heroes[:, :5], dire=heroes[:, 5:10], radiant_win=won,
             official_test=np.arange(400) >= 300)  # fmt: skip
    data, official = matches.read(tmp_path)
    assert data.n_items == 24
    shuffled = matches.with_other_opponents(data, 0)
    np.testing.assert_array_equal(shuffled.sets[:, :5], data.sets[:, :5])
    assert (shuffled.sets[:, 5:] != data.sets[:, 5:]).any()
    rows = matches.run("Dota 2", data.taken(np.flatnonzero(~official)), data.taken(np.flatnonzero(official)), 2, 0)
    assert rows[0]["loss"] < 0.4, "one hero decides, so items alone explain it"
    assert {row["model"] for row in rows} == {"own features", "with company", "placebo", "pairwise"}


def test_the_section_of_the_report() -> None:
    sections, page = import_module("set_sections"), import_module("page")
    row = {"data": "shop", "seed": 1, "slates": 9, "items": 81, "loss": 0.5, "error": 0.001, "order": 0.25}
    rows = [row | {"model": name, "gain": gain} for name, gain in (("own features", 0.0), ("with company", 0.0446))]
    section = page.Section("interaction", "Set effects")
    sections.interaction(section, rows)
    text = page.markdown("Results", [], [section])
    assert "+0.0446 ± 0.0010" in text
    assert section.headlines == [("shop: gain of company over own features, nats", "", "+0.0446 ± 0.0010")]

"""The page in Chromium against the real service: use, text, keyboard, accessibility, errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import page_browser
import page_service
import pytest

import setwise as sw
from setwise.model import objective

pytest.register_assert_rewrite("page_checks")
from page_checks import assert_accessible, assert_fits, focused  # noqa: E402

PAGE = Path(sw.__file__).parent / "service" / "static"
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
PATIENCE = 120_000  # milliseconds to wait for anything: other tests may keep the machine busy
KEY = "a-key-of-sixteen-letters"


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with page_browser.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def songs() -> sw.Recommender:
    return page_service.with_hostile_titles(240)


@pytest.fixture(scope="module")
def address(chromium, songs, tmp_path_factory) -> Iterator[str]:
    with page_service.served(songs, tmp_path_factory.mktemp("page")) as url:
        yield url


@pytest.fixture
def open_page(chromium):
    """Opens pages whose every console message must be expected: none, unless ``expected`` says so."""
    opened, complaints = [], []

    def opener(url: str, fragment: str = "", expected: str = "", waits: bool = True, **options):
        context = chromium.new_context(**{"viewport": DESKTOP, **options})
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complain(f"{message.type}: {message.text}", expected))
        page.on("pageerror", lambda error: complain(str(error), expected))
        page.goto(url + fragment)
        if waits:
            settled(page)
        return page

    def complain(words: str, expected: str) -> None:
        if not (expected and expected in words):
            complaints.append(words)

    yield opener
    for context in opened:
        context.close()
    assert complaints == []


def slate_shown(page) -> None:
    """Wait until the page shows the slate of what was asked last."""
    page.wait_for_selector("#answer[aria-busy=false]")


def settled(page) -> None:
    """Wait until the page also shows the comparison with other methods, or why there is none."""
    page.wait_for_selector("#answer[aria-busy=false]:not([data-compared=pending])")


def held(page, pattern: str) -> list:
    """The requests to these addresses from now on, which wait until ``continue_()`` is called on them."""
    routes: list = []
    page.route(pattern, lambda route: routes.append(route))
    return routes


def asking(**state) -> str:
    return "#" + "&".join(f"{name}={quote(json.dumps(value))}" for name, value in state.items())


def suggestions(page):
    return page.locator("#suggestions [role=option]")


def add(page, words: str, place: int = 0) -> str:
    """Type words, choose a suggestion by mouse, and return its title."""
    page.locator("#search").press_sequentially(words)
    option = suggestions(page).nth(place)
    option.wait_for()
    page.wait_for_function(
        "words => [...document.querySelectorAll('[role=option]')].every((o) => o.textContent.toLowerCase().includes(words))",
        arg=words.lower(),
    )
    title = option.locator(".name").inner_text()
    option.click()
    settled(page)
    return title


def titles(page) -> list[str]:
    return page.locator("#items .name").all_inner_texts()


def worth(page) -> float:
    return float(page.locator("#certificate .worth strong").inner_text())


def rows_of(songs: sw.Recommender, names: list[str]) -> list[int]:
    known = list(songs.index.catalog.attributes["title"][:])
    return [known.index(name) for name in names]


def reference_value(songs: sw.Recommender, history: list[str], shown: list[str]) -> float:
    """The reference value of a slate for a history, both given by titles."""
    catalog = songs.index.catalog
    user = songs.recommend(history=catalog.ids[rows_of(songs, history)].tolist(), k=1, certify=False).user
    return sw.set_value(catalog, user, rows_of(songs, shown))


def test_from_a_title_to_a_certificate(open_page, address, songs) -> None:
    page = open_page(address)
    assert page.locator("#empty").inner_text().startswith("Add a song to begin.")
    assert len(titles(page)) == 10  # a user without a history gets a slate at once
    history = [add(page, "velvet"), add(page, "harbour"), add(page, "quiet", place=1)]
    assert page.locator("#chips li span").all_inner_texts() == history
    assert not set(history) & set(titles(page))
    assert worth(page) == pytest.approx(reference_value(songs, history, titles(page)), abs=6e-4)

    page.get_by_label("Length of the slate").fill("5")
    settled(page)
    assert page.locator("#k-text").inner_text() == "5 songs"
    assert 1 <= len(titles(page)) <= 5
    assert worth(page) == pytest.approx(reference_value(songs, history, titles(page)), abs=6e-4)

    methods = {one.get_attribute("data-ranker"): one for one in page.locator(".method").all()}
    assert list(methods) == ["top-k", "knn", "mmr", "dpp", "greedy", "beam", "swap"]
    for one in methods.values():
        shown = [words.removesuffix(" (not in the slate)") for words in one.locator("li").all_text_contents()]
        stated = float(one.locator(".worth strong").inner_text())
        assert stated == pytest.approx(reference_value(songs, history, shown), abs=6e-4)
        assert stated <= worth(page) + 1e-3
        assert re.fullmatch(r"[\d.]+ m?s", one.locator(".time").inner_text())

    meter = page.get_by_role("meter")
    value, bound = (float(meter.get_attribute(f"aria-value{end}")) for end in ("now", "max"))
    assert value == pytest.approx(worth(page), abs=6e-4)
    assert bound >= value
    verdict = page.locator(".verdict").inner_text()
    if bound > value + 1e-9:
        assert f"{bound:.3f}" in verdict
        assert f"{100 * value / bound:.0f} %" in verdict
    else:
        assert verdict.startswith("Proven optimal:")


def test_the_slate_is_shown_before_the_comparison(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=4))
    comparisons = held(page, "**/v1/explain")
    page.get_by_label("Length of the slate").fill("5")
    slate_shown(page)
    assert len(titles(page)) == 5
    assert page.get_by_role("meter").is_visible()
    page.get_by_text("Comparing with other methods").wait_for()
    assert page.locator(".figures .alone").all_inner_texts() == ["…"] * 5
    assert not page.locator(".method").first.is_visible()  # those on the page are of the slate before
    assert_accessible(page)

    page.get_by_label("Length of the slate").fill("3")  # cancels the comparison of five
    slate_shown(page)
    page.wait_for_function("() => document.querySelectorAll('#items li').length === 3")
    while len(comparisons) < 2:
        page.wait_for_timeout(50)
    comparisons[-1].continue_()
    settled(page)
    assert len(titles(page)) == 3
    assert "…" not in page.locator(".figures .alone").all_inner_texts()
    assert page.locator(".method[data-ranker=swap] li").count() == 3
    assert not page.get_by_text("Comparing with other methods").is_visible()


def test_a_slate_stays_where_its_comparison_fails(open_page, address) -> None:
    page = open_page(address, expected="504")
    body = {"error": {"code": "deadline", "message": "It took too long."}}
    page.route("**/v1/explain", lambda route: route.fulfill(status=504, json=body))
    page.get_by_label("Length of the slate").fill("3")
    settled(page)
    assert len(titles(page)) == 3
    assert page.get_by_text("Not compared: It took too long.").count() == 2
    assert page.get_by_role("alert").is_hidden()


def test_what_the_page_is_and_what_its_figures_mean(open_page, address) -> None:
    page = open_page(address, asking(k=7))
    assert "this page recommends a slate" in page.locator("#what").inner_text()
    assert page.locator("#certificate .worth").inner_text().endswith("expected hits of 7, the value of this slate")
    for card, term in (("slate", "Upper bound"), ("attention", "Contribution"), ("rivals", "Time")):
        assert not page.locator(f"#{card}-help").is_visible()
        page.locator(f"#{card} details:has(dl) summary").press("Enter")
        assert term in page.locator(f"#{card}-help dt").all_inner_texts()
    assert_accessible(page)


def test_the_graph_is_hidden_where_there_is_nothing_to_show(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=1))
    assert page.locator("#summary").inner_text() == "No item contributes to another item."
    for part in ("#graph", "#graph-legend", "#as-table", "#head"):
        assert not page.locator(part).is_visible()
    page.get_by_label("Length of the slate").fill("2")
    settled(page)
    for part in ("#graph svg", "#graph-legend", "#as-table", "#head"):
        assert page.locator(part).is_visible()


def test_a_large_graph_shows_the_strongest_ties(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=20))
    nodes, arrows = page.locator("#graph .node"), page.locator("#graph .arrows path")
    assert nodes.count() == len(titles(page)) == 20
    assert 1 <= arrows.count() <= 30
    page.get_by_text("The same as a table").click()
    assert page.locator("#matrix tbody td").count() == 400  # with every number


def test_a_limit_per_artist_holds(open_page, address) -> None:
    page = open_page(address, asking(k=8))
    page.get_by_label("At most per artist").fill("1")
    settled(page)
    artists = [words.split(" · ")[0] for words in page.locator("#items .byline").all_inner_texts()]
    assert len(artists) == len(set(artists)) > 1


def test_rewards_in_the_slate_and_by_themselves(open_page, address, songs) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"], k=6))
    catalog = songs.index.catalog
    rows = rows_of(songs, titles(page))
    user = songs.recommend(history=["song-1", "song-2"], k=1, certify=False).user
    for kind, wanted in (
        ("together", sw.item_rewards(catalog, user, rows)),
        ("alone", [sw.set_value(catalog, user, [row]) for row in rows]),
    ):
        stated = [words.split()[0] for words in page.locator(f".figures .{kind}").all_text_contents()]
        assert stated == [f"{reward:.2f}" for reward in wanted]


def test_the_graph_shows_contributions(open_page, address, songs) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"], k=6))
    names = titles(page)
    nodes = page.locator("#graph .node")
    assert nodes.count() == len(names)
    assert page.locator("#graph .arrows path").count() > 0
    nodes.nth(1).click()
    assert nodes.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator("#summary").inner_text().startswith(f"{names[1]} receives ")
    page.get_by_text("The same as a table").click()
    heads = page.locator("#matrix tbody th").all_inner_texts()
    assert heads == [f"{place}. {name}" for place, name in enumerate(names, 1)]

    catalog, rows = songs.index.catalog, rows_of(songs, names)
    weights = sw.attention(catalog, rows)
    user = songs.recommend(history=["song-1", "song-2"], k=1, certify=False).user
    lent = (weights * objective.scores(catalog, user, np.array(rows), None)[0][:, None, :]).sum(axis=0)
    assert first_row(page) == pytest.approx(lent[0].tolist(), abs=6e-3)
    strongest = max(abs(lent[i, j]) for i in range(len(rows)) for j in range(len(rows)) if i != j)
    assert widest(page) == {"width": 5.0, "kind": "positive" if strongest in lent else "negative"}

    page.get_by_label("Show").select_option(label="Attention of head 2")
    shares = weights[1, 0].tolist()
    assert first_row(page) == pytest.approx([*shares, 1 - sum(shares)], abs=6e-3)  # the rest is the sink's
    assert page.locator("#graph .arrows .negative").count() == 0  # attention is not negative


def first_row(page) -> list[float]:
    cells = page.locator("#matrix tbody tr").first.locator("td").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


def widest(page) -> dict:
    return page.locator("#graph .arrows path").last.evaluate(
        "arrow => ({ width: Number(arrow.getAttribute('stroke-width')), kind: arrow.classList[0] })"
    )


def test_by_keyboard_alone(open_page, address) -> None:
    page = open_page(address)
    press = page.keyboard.press
    press("Tab")
    assert focused(page) == {"what": "search", "visible": True}
    for words in ("velvet", "harbour", "quiet"):
        page.keyboard.type(words)
        page.wait_for_function(
            "words => document.querySelector('[role=option]')?.textContent.toLowerCase().includes(words)", arg=words
        )
        press("ArrowDown")
        assert page.locator("#search").get_attribute("aria-activedescendant") == "suggestion-0"
        press("Enter")
        settled(page)
    assert page.locator("#chips li").count() == 3
    press("Tab")
    assert focused(page)["what"].startswith("Remove ")
    press("Enter")
    settled(page)
    assert page.locator("#chips li").count() == 2
    assert focused(page)["what"].startswith("Remove ")  # the focus went to its neighbour
    seen = travelled(page, until="at-most")
    assert seen[-3:] == ["clear", "k", "at-most"]
    press("Shift+Tab")
    press("Home")
    press("ArrowRight")
    settled(page)
    assert page.locator("#k-text").inner_text() == "2 songs"
    assert travelled(page, until="head")[0] == "at-most"
    press("Tab")
    assert focused(page)["what"].startswith("1. ")
    press("ArrowRight")
    assert focused(page)["what"].startswith("2. ")
    press("Enter")
    assert page.locator("#graph .node").nth(1).get_attribute("aria-pressed") == "true"
    press("Tab")
    press("Enter")  # opens the table
    assert page.locator("#matrix").is_visible()


def travelled(page, until: str) -> list[str]:
    """Press Tab until something has the focus, which can be seen all the way; what was passed."""
    passed: list[str] = []
    while until not in passed:
        page.keyboard.press("Tab")
        here = focused(page)
        assert here is not None, f"the focus was lost after {passed}"
        assert here["visible"], here
        passed.append(here["what"])
        assert len(passed) < 60
    return passed


def test_suggestions_close_and_the_last_song_goes_by_backspace(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"]))
    box = page.locator("#search")
    box.click()
    suggestions(page).first.wait_for()  # the first items, before anything is typed
    assert box.get_attribute("aria-expanded") == "true"
    box.press("ArrowUp")
    assert box.get_attribute("aria-activedescendant") == "suggestion-7"
    box.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    box.fill("no such song anywhere")
    page.get_by_text("No match.").wait_for()
    box.press("Escape")
    assert box.input_value() == ""
    box.press("Backspace")
    settled(page)
    assert page.locator("#chips li").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_in_light_and_dark(open_page, address, scheme: str) -> None:
    page = open_page(
        address, asking(history=["song-1", "song-2", "song-7"]), color_scheme=scheme, reduced_motion="reduce"
    )
    assert_accessible(page)
    page.get_by_text("The same as a table").click()
    page.locator("#graph .node").nth(2).focus()
    page.locator("#search").click()
    suggestions(page).first.wait_for()
    page.locator("#search").press("ArrowDown")
    assert_accessible(page)


def test_on_a_phone(open_page, address) -> None:
    page = open_page(address, asking(history=["song-3", "song-4", "song-5"], k=20), viewport=PHONE)
    page.get_by_text("The same as a table").click()
    assert_fits(page)
    assert page.locator("#graph .title").count() == 0  # numbers alone: titles would not fit
    page.set_viewport_size(DESKTOP)
    page.locator("#graph .title").first.wait_for()
    assert_fits(page)


def test_stillness_where_it_is_wanted(open_page, address) -> None:
    page = open_page(address, reduced_motion="reduce")
    moving = "() => [...document.querySelectorAll('*')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0 || getComputedStyle(e).animationName !== 'none').length"
    assert page.evaluate(moving) == 0


def test_hostile_titles_stay_text(open_page, address) -> None:
    page = open_page(address, asking(history=["song-3"], k=12))
    for words in ("onerror", "Brien"):
        add(page, words)
    assert page.locator("#chips li span").all_inner_texts() == list(page_service.HOSTILE.values())
    page.get_by_label(f"Remove {page_service.HOSTILE[4]}").click()
    settled(page)
    assert page.locator("#chips li").count() == 2
    assert page.evaluate("window.hurt") is None
    assert page.locator("#answer img, #answer script, .ask img, .ask script").count() == 0


def test_the_address_keeps_what_was_asked(open_page, address) -> None:
    page = open_page(address, asking(history=["song-9", "song-1"], k=4, at_most=1))
    assert page.locator("#k-text").inner_text() == "4 songs"
    assert page.locator("#at-most-text").inner_text() == "1"
    page.locator("#items .add").nth(1).press("Enter")
    settled(page)
    assert focused(page)["what"] == f"Add {titles(page)[1]} to the history"  # the focus stays at its place
    chips, shown = page.locator("#chips li span").all_inner_texts(), titles(page)
    assert len(chips) == 3
    page.reload()
    settled(page)
    assert page.locator("#chips li span").all_inner_texts() == chips
    assert titles(page) == shown
    page.evaluate("location.hash = 'history=nonsense&k=1000&at_most=x'")  # unreadable parts are ignored
    page.wait_for_selector("#chips:empty", state="attached")
    settled(page)
    assert page.locator("#k-text").inner_text() == "20 songs"


def test_the_services_sentence_is_shown_as_it_is(open_page, address, songs) -> None:
    artists = list(songs.index.catalog.attributes["artist"][:])
    same = [f"song-{row}" for row, artist in enumerate(artists) if artist == artists[8]][:2]
    page = open_page(
        address, asking(history=["song-1"], include=same, at_most=1), expected="the server responded with a status of 4"
    )
    answer = page.request.post(
        address + "v1/recommend", data={"history": ["song-1"], "include": same, "at_most": {"artist": 1}}
    )
    assert page.get_by_role("alert").locator("p").inner_text() == answer.json()["error"]["message"]
    assert not page.locator(".card").first.is_visible()
    page.get_by_label("At most per artist").fill("2")
    settled(page)
    page.get_by_role("alert").wait_for(state="hidden")
    assert titles(page)


def test_unknown_ids_in_a_link_are_ignored_with_a_note(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1", "song-none"], include=[7], exclude=["song-lost"]))
    assert titles(page)
    assert page.locator(".chips li").count() == 1
    assert "Not in the catalogue, so ignored: song-none, 7, song-lost." in page.locator("#status").inner_text()
    assert "none" not in page.url
    page.get_by_label("Length of the slate").fill("3")
    settled(page)
    assert "ignored" not in page.locator("#status").inner_text()


def test_a_sample_to_start_from(open_page, address, songs) -> None:
    page = open_page(address)
    samples = page.locator("#sample-list button")
    samples.first.wait_for()
    assert samples.count() == 3
    assert_accessible(page)
    name, wanted = samples.nth(1).locator("span").all_inner_texts()
    samples.nth(1).press("Enter")
    settled(page)
    chosen = page.locator("#chips li span").all_inner_texts()
    assert ", ".join(chosen) == wanted
    columns = songs.index.catalog.attributes
    assert any(all(columns[key][row] == name for row in rows_of(songs, chosen)) for key in ("artist", "genre"))
    assert not page.locator("#samples").is_visible()
    assert focused(page)["what"] == "search"
    page.go_back()
    samples.first.wait_for()


def test_any_text_attribute_is_searched_and_shown(open_page, address, songs) -> None:
    page = open_page(address)
    attributes = songs.index.catalog.attributes
    page.get_by_label("Find a song by title, artist or genre").press_sequentially(f"velvet {attributes['genre'][0]}")
    page.wait_for_function("() => document.querySelector('#search-hint').textContent.endsWith('found')")
    for words in suggestions(page).locator(".byline").all_inner_texts():
        artist, genre, year = words.split(" · ")
        assert genre == attributes["genre"][0]
        assert artist in list(attributes["artist"][:])
        assert year.isdigit()


def test_think_longer_closes_the_gap(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"], k=20))
    before, value = page.get_by_role("meter").get_attribute("aria-valuemax"), worth(page)
    budgets: list[float] = []
    page.on(
        "request", lambda request: "recommend" in request.url and budgets.append(request.post_data_json["budget_ms"])
    )
    page.get_by_role("button", name="Think longer").press("Enter")
    page.wait_for_selector("#longer", state="hidden")
    settled(page)
    limit = page.request.get(address + "v1/info").json()["limits"]["deadline_ms"]
    assert budgets == sorted(budgets)
    assert len(budgets) >= 1
    assert budgets[-1] <= limit
    gaps = page.locator("#closing").inner_text().removeprefix("Gap to the upper bound: ").split(", ")
    assert len(gaps) == 1 + len(budgets)
    shares = [0.0 if words.startswith("none") else float(words.split(" %")[0]) for words in gaps]
    assert shares == sorted(shares, reverse=True)
    assert worth(page) >= value
    assert float(page.get_by_role("meter").get_attribute("aria-valuemax")) <= float(before)
    assert focused(page)["what"] == "copy"
    assert page.locator(".method[data-ranker=swap] .delta").inner_text() == "same"  # the comparison is of this slate
    assert_accessible(page)


def test_keep_one_and_leave_one_out(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=5))
    shown = titles(page)
    first, last = shown[0], shown[4]
    page.get_by_label(f"Keep {last} in the slate", exact=True).click()
    settled(page)
    assert page.get_by_label(f"Keep {last} in the slate", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_label(f"Leave {first} out of the slate", exact=True).click()
    settled(page)
    for _ in range(2):  # and again after a reload, from the address
        assert last in titles(page)
        assert not {first, *page.locator("#chips li span").all_inner_texts()} & set(titles(page))
        assert page.locator("#include li span").all_inner_texts() == [last]
        assert page.locator("#exclude li span").all_inner_texts() == [first]
        assert all(last in words for words in page.locator(".method ol").all_text_contents())
        page.reload()
        settled(page)
    assert_accessible(page)
    page.get_by_label(f"No longer keep {last}").click()
    page.get_by_label(f"Allow again {first}").click()
    settled(page)
    assert not page.locator("#kept, #barred").first.is_visible()
    assert page.locator(".chips li").count() == 1
    assert focused(page)["what"] == "search"


def test_what_is_kept_fits_in_the_slate(open_page, address) -> None:
    page = open_page(address, asking(include=["song-2", "song-9", "song-30"], k=1))
    assert page.locator("#k-text").inner_text() == "3 songs"
    assert len(titles(page)) == 3
    page.locator("#items .add").first.click()  # in the history, so no longer kept
    settled(page)
    assert page.locator("#include li").count() == 2


def test_back_undoes_a_change(open_page, address) -> None:
    page = open_page(address, asking(k=4))
    before = titles(page)
    page.get_by_label("Length of the slate").fill("6")
    settled(page)
    page.locator("#items .bar").first.click()
    settled(page)
    assert page.locator("#exclude li").count() == 1
    page.go_back()
    page.wait_for_selector("#barred", state="hidden")
    settled(page)
    assert page.locator("#k-text").inner_text() == "6 songs"
    page.go_back()
    page.get_by_text("4 songs", exact=True).wait_for()
    settled(page)
    assert titles(page) == before
    page.go_forward()
    page.get_by_text("6 songs", exact=True).wait_for()


def test_the_link_is_copied(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=3), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("copy the address of this page instead").wait_for()


def test_the_last_answer_wins(open_page, address) -> None:
    page = open_page(address)
    for k in (15, 3, 12, 8, 2):
        page.get_by_label("Length of the slate").fill(str(k))
        page.wait_for_timeout(190)  # long enough for the request to leave, not for its answer
    settled(page)
    page.wait_for_timeout(600)
    assert len(titles(page)) == 2


def test_a_busy_service_is_asked_again(open_page, address) -> None:
    page = open_page(address, expected="503")
    left = [2]

    def busy(route) -> None:
        left[0] -= 1
        if left[0] < 0:
            route.continue_()
        else:
            body = {"error": {"code": "busy", "message": "All is full."}}
            route.fulfill(status=503, headers={"Retry-After": "1"}, json=body)

    page.route("**/v1/recommend", busy)
    page.get_by_label("Length of the slate").fill("3")
    page.get_by_text("The service is busy. Trying again in 1 second.").wait_for()
    settled(page)
    assert left[0] < 0
    assert 1 <= len(titles(page)) <= 3


def test_a_key_is_asked_for_and_kept(open_page, address) -> None:
    page = open_page("about:blank", waits=False, expected="401")

    def guarded(route) -> None:
        if route.request.headers.get("authorization") == f"Bearer {KEY}":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": {"code": "unauthorized", "message": "The API key must be right."}})

    page.route("**/v1/**", guarded)
    page.goto(address)
    dialog = page.get_by_role("dialog", name="The service requires a key")
    dialog.get_by_text("The API key must be right.").wait_for()
    assert_accessible(page)
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('key').value === ''")  # asked again
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    settled(page)
    assert titles(page)
    page.reload()
    settled(page)
    assert not dialog.is_visible()
    page.evaluate("sessionStorage.clear()")
    page.get_by_label("Length of the slate").fill("3")
    dialog.wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("alert").locator("p").inner_text() == "The API key must be right."


def test_without_titles_ids_are_shown(open_page, tmp_path) -> None:
    bare = page_service.without_titles(120)
    with page_service.served(bare, tmp_path) as url:
        page = open_page(url, asking(history=[7]))
        assert page.locator("#limit").is_hidden()
        assert page.locator("#chips li span").all_inner_texts() == ["7"]
        assert all(name.isdigit() for name in titles(page))
        assert page.locator("#certificate .worth").inner_text().endswith(" value of this slate")
        assert "hit" not in page.locator("#what").inner_text()  # a ReLU is not a probability
        page.get_by_label("Find an item by id").press_sequentially("11")
        suggestions(page).get_by_text("11", exact=True).click()
        settled(page)
        assert page.locator("#chips li span").all_inner_texts() == ["7", "11"]
        assert_accessible(page)


def test_nothing_comes_from_elsewhere(chromium, address) -> None:
    context = chromium.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    settled(page)
    assert all(url.startswith(address) for url in asked)
    assert len(asked) > len(list(PAGE.glob("*.js")))
    context.close()


def test_the_source_makes_no_markup_of_data() -> None:
    for file in PAGE.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", file.read_text()
        ), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", file.read_text()), file.name
        assert file.read_text().startswith("// "), "a file states its subject"
        assert file.read_text().count("\n") <= 400
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?! type=\"module\" src=)", html)

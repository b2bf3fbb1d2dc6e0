"""Pictures on the page: from allowed hosts only, with a name, and without a hole where one does not load."""

from __future__ import annotations

from urllib.parse import urlsplit

import page_service
import pytest
from page_checks import assert_accessible, assert_fits
from page_use import PHONE, answer_pictures, asking, settled, titles

from setwise.errors import InvalidInput
from setwise.service.security_headers import parse_image_hosts, security_headers

pytestmark = pytest.mark.nightly

LOADED = "() => [...document.querySelectorAll('#items img')].map((img) => img.complete && img.naturalWidth > 0)"


def shown_pictures(page) -> dict[str, str]:
    """The address of the picture of each item that has one, by title."""
    rows = page.locator("#items li:has(img)")
    return {row.locator(".name").inner_text(): row.locator("img").get_attribute("src") for row in rows.all()}


def test_pictures_of_the_slate(open_page, odd_address) -> None:
    page = open_page(odd_address, asking(include=["song-10", "song-11", "song-12"], k=4), before=answer_pictures)
    page.wait_for_function(LOADED.replace("map", "every").replace("(img) =>", "(img) => "))
    names = {item["id"]: item["attributes"]["title"] for item in items(page, odd_address, "song-10,song-11,song-12")}
    found = shown_pictures(page)
    assert found[names["song-10"]] == "https://a.cdn.example/10.png"
    assert found[names["song-12"]] == "https://images.example/12.png"
    assert names["song-11"] not in found  # it has none
    assert page.get_by_alt_text(f"Picture of {names['song-12']}").count() == 1
    assert page.evaluate(LOADED) == [True] * len(found)
    assert_accessible(page)
    page.set_viewport_size(PHONE)
    assert_fits(page)


def items(page, url: str, ids: str) -> list[dict]:
    return page.request.get(url + "v1/items", params={"ids": ids}).json()["items"]


def test_a_broken_picture_leaves_no_hole(open_page, odd_address) -> None:
    asked: list[str] = []
    page = open_page(
        odd_address,
        asking(include=["song-11", "song-12", "song-13"], k=3),
        expected="404",
        before=lambda page: asked.append(answer_pictures(page, broken="/12.png")),  # type: ignore[arg-type]
    )
    page.wait_for_function("() => document.querySelectorAll('#items img').length === 1")
    left = page.evaluate("() => [...document.querySelectorAll('#items .name')].map((e) => e.getBoundingClientRect().x)")
    assert len(set(left)) == 2  # beside a picture, or at the edge
    page.get_by_label("Length of the slate").fill("4")
    settled(page)
    assert sum("/12.png" in url for url in asked[0]) == 1  # it is not asked for again


def test_no_picture_of_another_host(open_page, odd_address) -> None:
    last = [f"song-{120 - len(page_service.FORBIDDEN) + place}" for place in range(len(page_service.FORBIDDEN))]
    asked: list[list[str]] = []
    page = open_page(odd_address, asking(include=last, k=13), before=lambda page: asked.append(answer_pictures(page)))
    assert len(titles(page)) == 13
    assert {urlsplit(url).hostname for url in asked[0]} <= {"images.example", "a.cdn.example"}
    assert all(url.removeprefix("https://images.example/").removesuffix(".png").isdigit() for url in asked[0])
    assert page.locator("#items img").count() <= 2
    assert page.evaluate("window.hurt") is None
    byline = page.locator("#items .byline").all_inner_texts()
    assert not any("example" in words or "javascript" in words for words in byline)


def test_the_browser_is_forbidden_the_rest(open_page, odd_address) -> None:
    page = open_page(odd_address, before=answer_pictures, expected="violates the following Content Security Policy")
    blocked = """address => new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), { once: true });
      const img = document.createElement("img");
      img.onload = () => resolve("loaded");
      img.src = address;
    })"""
    assert page.evaluate(blocked, "https://images.example/1.png") == "loaded"
    assert page.evaluate(blocked, "https://elsewhere.example/1.png") == "img-src"
    assert page.evaluate(blocked, "http://images.example/1.png") == "img-src"
    assert page.evaluate(blocked, "data:image/png;base64,AAAA") == "img-src"


def test_no_pictures_by_default(open_page, tmp_path) -> None:
    with page_service.served(page_service.odd_songs(120), tmp_path) as url:
        asked: list[list[str]] = []
        page = open_page(url, before=lambda page: asked.append(answer_pictures(page)))
        assert len(titles(page)) == 10
        assert page.locator("#items img").count() == 0
        assert asked == [[]]
        assert "img-src" not in page.request.get(url).headers["content-security-policy"]
        info = page.request.get(url + "v1/info").json()
    assert info["image_hosts"] == []
    kinds = {one["name"]: (one["kind"], one["low"], one["high"]) for one in info["attributes"]}
    assert kinds["cover"] == ("url", None, None)
    assert kinds["live"] == ("boolean", None, None)
    assert kinds["Price"] == ("number", 1.0, 30.75)


def test_hosts_of_pictures() -> None:
    assert parse_image_hosts("") == parse_image_hosts("  ") == ()
    hosts = parse_image_hosts("Images.example, *.cdn.example:8443,localhost,images.example")
    assert hosts == ("images.example", "*.cdn.example:8443", "localhost")
    policy = security_headers(hosts).split(b"\r\n")[0]
    assert policy.endswith(b"; img-src 'self' https://images.example https://*.cdn.example:8443 https://localhost")
    for bad in ("https://a.example", "a.example/x", "*", "*.example", "a.example;script-src *", "a b", "a.example,",
                "a.example\r\nx: y", "-a.example", "a..example", "a.example:0", "'self'", "é.example", "a" * 64):  # fmt: skip
        with pytest.raises(InvalidInput, match="--image-hosts must be names of hosts"):
            parse_image_hosts(bad)

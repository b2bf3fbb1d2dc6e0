"""Accessibility checks in Chromium: the rules of axe-core, and names, headings, contrast in SVG, sizes and focus."""

from __future__ import annotations

from itertools import pairwise

from axe_playwright_python.sync_playwright import Axe

NAMED = {
    "button", "combobox", "textbox", "slider", "option", "listbox", "link", "img", "image", "meter", "table", "dialog", "region", "checkbox", "radio", "menuitem",
}  # fmt: skip

CONTRAST = """() => {
  const parse = (css) => { const p = (css.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number); return [p[0], p[1], p[2], p[3] ?? 1]; };
  const over = (top, under) => [0, 1, 2].map((c) => top[c] * top[3] + under[c] * (1 - top[3])).concat(1);
  const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const drawn = e.matches("g.node") ? getComputedStyle(e.querySelector("circle")).fill : getComputedStyle(e).backgroundColor;
      if (!(e.matches("g.node") && element.matches(".title"))) layers.unshift(parse(drawn));
    }
    return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const seen = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.closest(".unseen, title, desc, noscript");
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const words = walker.currentNode.data.trim();
    if (!words || !seen(e)) continue;
    const style = getComputedStyle(e);
    let opacity = 1;
    for (let a = e; a; a = a.parentElement) opacity *= Number(getComputedStyle(a).opacity);
    const under = ground(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    found.push([words, ratio(over([ink[0], ink[1], ink[2], ink[3] * opacity], under), under), 4.5]);
  }
  for (const e of document.querySelectorAll("input:not([type=range]), select")) {
    if (seen(e)) found.push([`the border of #${e.id}`, ratio(parse(getComputedStyle(e).borderTopColor), ground(e.parentElement)), 3]);
  }
  return found;
}"""

HEADINGS = "() => [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]))"

PICTURES = """() => [...document.querySelectorAll('svg, img, canvas')].filter((p) => p.checkVisibility())
  .filter((p) => !(p.getAttribute('alt') || p.querySelector(':scope > title')?.textContent || p.getAttribute('aria-label'))).map((p) => p.outerHTML.slice(0, 80))"""

DOUBLE_IDS = "() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i); }"

OUTSIDE = """() => [...document.body.querySelectorAll('*')].filter((e) => e.checkVisibility() && !e.closest('.sideways, .unseen, svg'))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""

SMALL_TARGETS = """() => [...document.querySelectorAll('button, select, input, summary, .node')].filter((e) => e.checkVisibility())
  .map((e) => [e.outerHTML.slice(0, 60), e.getBoundingClientRect()]).filter(([, box]) => box.width < 24 || box.height < 24).map(([what]) => what)"""

FOCUS = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const style = getComputedStyle(e);
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  const thick = e.matches('.node') && parseFloat(getComputedStyle(e.querySelector('circle')).strokeWidth) > 3;
  return { what: e.id || e.getAttribute('aria-label') || e.tagName, visible: ring || thick };
}"""


def assert_accessible(page) -> None:
    """Check the current page by axe-core, and its names, pictures, headings, ids and contrast."""
    assert violations(page) == []
    assert nameless(page) == []
    assert page.evaluate(PICTURES) == []
    assert page.evaluate(DOUBLE_IDS) == []
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(levels))
    texts = page.evaluate(CONTRAST)
    assert len(texts) > 5
    assert [(words, round(ratio, 2)) for words, ratio, least in texts if ratio < least] == []


def violations(page) -> list[str]:
    """What breaks a rule of axe-core, best practices included: the rule and the element."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {element['html'][:100]}" for rule in found for element in rule["nodes"]]


def nameless(page) -> list[str]:
    """Controls and pictures without an accessible name."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    found = [
        (node.get("role", {}).get("value"), node.get("name", {}).get("value")) for node in nodes if not node["ignored"]
    ]
    assert sum(role in NAMED for role, _ in found) > 3
    return [role for role, name in found if role in NAMED and not name]


def assert_fits(page) -> None:
    """The page does not scroll sideways, and every control is large enough for touch."""
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(SMALL_TARGETS) == []


def focused(page) -> dict | None:
    """The focused element, and whether its focus is visible."""
    return page.evaluate(FOCUS)

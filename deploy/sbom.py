"""Print a bill of materials: every package that is installed for setwise, as CycloneDX JSON.

    python deploy/sbom.py serve > sbom.json      # with the extras that are named; needs the package "packaging"

It reads the metadata of what is installed, so it lists the versions that run, not those that may.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed(extras: Iterable[str]) -> dict[str, metadata.Distribution]:
    """The distributions of setwise and of all that it requires with these extras, by canonical name."""
    found: dict[str, metadata.Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [("setwise", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        found[name] = metadata.distribution(name)
        for text in found[name].requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(one.name), more) for more in ("", *one.extras)]
    return dict(sorted(found.items()))


def component(name: str, one: metadata.Distribution) -> dict[str, Any]:
    """The entry of a package."""
    url = f"pkg:pypi/{name}@{one.version}"
    entry: dict[str, Any] = {"type": "library", "bom-ref": url, "name": name, "version": one.version, "purl": url}
    if licence := _licence(one):
        entry["licenses"] = [{"license": {"name": licence}}]
    return entry


def _licence(one: metadata.Distribution) -> str:
    """The licence as the package states it: as an expression, as a name, or by its classifiers."""
    stated = one.metadata.get("License-Expression") or one.metadata.get("License", "").partition("\n")[0]
    classes = [text for text in one.metadata.get_all("Classifier") or () if text.startswith("License ::")]
    return stated or ", ".join(text.rpartition(" :: ")[2] for text in classes)


def bill(extras: Iterable[str] = ()) -> dict[str, Any]:
    """The document: setwise, and the packages that it requires."""
    packages = installed(extras)
    entries = {name: component(name, one) for name, one in packages.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": entries.pop("setwise") | {"type": "application"}},
        "components": [*entries.values()],
    }


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1:]), indent=1))

"""The registry of rankers: a new ranker needs its own file and an entry; every caller then accepts its name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise.model.constraints import Constraints
from setwise.ranking import DEFAULT, RANKERS, Ranker, Ranking, rank_many, ranker_named
from worlds import random_catalog

SOURCE = Path(sw.__file__).parent


# --- a toy ranker: this function and its Ranker are the new file ---


def first_allowed(instance: sw.Instance, constraints: Constraints, *, last: bool = False) -> Ranking:
    """Add the first (or last) candidate that the constraints allow, until the set is full."""
    chosen = list(constraints.pinned)
    while len(chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(chosen))
        if not len(allowed):
            break
        chosen.append(allowed[-1 if last else 0])
    indices = np.array(chosen, np.intp)
    return Ranking(indices, instance.value(indices), evaluations=1)


TOY = Ranker("toy", first_allowed, "first allowed", uses_attention=False, interactive=True)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Ranker:
    """The entry in the registry."""
    monkeypatch.setitem(RANKERS, TOY.name, TOY)
    return TOY


def test_rank_accepts_a_registered_ranker(registered: Ranker) -> None:
    catalog, user = random_catalog(1)
    instance = sw.Instance.from_catalog(catalog, user, np.arange(12))
    found = sw.rank(instance, 3, registered.name, exclude=[0])
    assert sorted(found.indices.tolist()) == [1, 2, 3]
    assert found.value == pytest.approx(instance.value(found.indices))
    assert sorted(sw.rank(instance, 2, registered.name, last=True).indices.tolist()) == [10, 11]
    assert [len(one.indices) for one in rank_many([instance, instance], 2, registered.name)] == [2, 2]


def test_a_recommender_accepts_a_registered_ranker(registered: Ranker) -> None:
    catalog, user = random_catalog(1)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2, backend="numpy"), certify=False)
    slate = recommender.recommend(user, k=3, ranker=registered.name)
    assert sorted(slate.indices.tolist()) == [0, 1, 2]
    assert slate.value == pytest.approx(sw.set_value(catalog, user, slate.indices))


def test_the_command_line_accepts_a_registered_ranker(registered: Ranker, tmp_path: Path) -> None:
    from setwise.cli import app

    catalog, user = random_catalog(1)
    sw.Recommender(sw.Index.build(catalog, cells=2, backend="numpy"), certify=False).save(tmp_path / "saved")
    (tmp_path / "user.json").write_text(json.dumps({"heads": user.heads.tolist(), "base": None}))
    command = ["recommend", str(tmp_path / "saved"), "--user-json", str(tmp_path / "user.json"), "--json"]
    found = CliRunner().invoke(app, [*command, "--k", "3", "--ranker", registered.name])
    assert found.exit_code == 0, found.output
    assert len(json.loads(found.stdout)["items"]) == 3


def test_names_are_keys_and_the_default_is_registered() -> None:
    assert {name: ranker.name for name, ranker in RANKERS.items()} == {name: name for name in RANKERS}
    assert RANKERS[DEFAULT.name] is DEFAULT is ranker_named(DEFAULT.name)
    assert len({ranker.title for ranker in RANKERS.values()}) == len(RANKERS)


@pytest.mark.parametrize("ranker", RANKERS.values(), ids=lambda ranker: ranker.name)
def test_capabilities_are_those_of_the_search(ranker: Ranker) -> None:
    assert ranker.takes_budget == ("budget_ms" in ranker.options)
    assert ranker.takes_evaluations == ("evaluations" in ranker.options)
    if ranker.default_evaluations is not None:
        assert ranker.default_evaluations(1, 1) >= 1
        assert ranker.default_evaluations(1000, 10) >= ranker.default_evaluations(100, 10)


def test_no_comparison_with_a_ranker_name_outside_the_registry() -> None:
    """Capabilities decide. A comparison such as ``ranker == "swap"`` needs an edit for every new ranker."""
    names = "|".join(RANKERS)
    comparison = re.compile(rf"""(==|!=|\bin) *[(\[{{]?["']({names})["']|["']({names})["'] *(==|!=|\bin\b)""")
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if comparison.search(line)
    ]
    assert not found, "\n".join(found)

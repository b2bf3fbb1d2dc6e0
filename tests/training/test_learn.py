"""From data to a model: better than knowing nothing, the same bits again, and a sentence for whatever is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tiny_networks import grouped_sessions, liked_slates, log_loss

from setwise.datasets import Sessions, Slates, World
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training import SimpleTransformer, learn
from setwise.training.examples import Cuts, own_slates
from setwise.training.fit import Schedule
from setwise.training.learn import SESSION_DEFAULTS
from setwise.training.network import Shape

TINY = {"dim": 4, "heads": 1, "d_kq": 2, "d_v": 2, "epochs": 2}


def test_a_log_of_the_world_is_worth_more_than_its_average() -> None:
    world = World.make(300)
    log, test = world.log(2000), world.log(1000, seed=1)
    model = SimpleTransformer.fit(log, dim=8, heads=2, epochs=6, batch=64)
    ignorant = np.full(len(test.outcome), log.outcome.mean())
    assert log_loss(model.predict(test), test.outcome) < log_loss(ignorant, test.outcome)
    assert model.catalog().attributes["title"][0] == world.catalog.attributes["title"][0]
    assert len(model.summary["stages"]["company"]["validation"]) <= 6
    assert model.summary["shape"]["heads"] == 2
    assert model.summary["calibrated_on"] == 100


def test_sessions_teach_what_goes_together() -> None:
    """Three groups of ten items: five of six items of a session are of its group; chance would have a third."""
    model = SimpleTransformer.fit(grouped_sessions(250), dim=8, heads=1, epochs=8, batch=64, k=2)
    cuts = Cuts.first(grouped_sessions(100, seed=1))
    slates = own_slates(model, cuts, 2)
    group = slates.history.values[slates.history.offsets[:-1]] // 10
    assert (slates.shown.values // 10 == group[slates.shown.owner]).mean() > 0.8


@pytest.mark.parametrize("data", [liked_slates(60), grouped_sessions(30)], ids=["slates", "sessions"])
def test_the_seed_decides_the_model(data: Sessions | Slates) -> None:
    one, same, other = (SimpleTransformer.fit(data, seed=seed, k=3, **TINY) for seed in (0, 0, 1))
    assert one.catalog().digest == same.catalog().digest
    assert one.encoder.items.tobytes() == same.encoder.items.tobytes()
    assert one.catalog().digest != other.catalog().digest


@pytest.mark.parametrize("loss", ["item", "set", "choice"])
def test_every_loss(loss: str) -> None:
    model = SimpleTransformer.fit(liked_slates(60), loss=loss, **TINY)
    assert ("calibrated_on" in model.summary) == (loss == "item")


def test_slates_to_stop_by_may_be_given() -> None:
    data, judge = liked_slates(60), liked_slates(20, seed=1)
    assert SimpleTransformer.fit(data, validation=judge, **TINY).summary["calibrated_on"] == 20


@pytest.mark.parametrize("embeddings", ["auto", "word2vec", "spectral", None, np.eye(30), np.arange(60).reshape(30, 2)])
def test_every_kind_of_embedding(embeddings) -> None:
    model = SimpleTransformer.fit(liked_slates(60), embeddings=embeddings, **TINY)
    assert model.encoder.items.shape == (30, 4)


def test_histories_without_company_are_learned_from_scratch() -> None:
    data = liked_slates(60)
    alone = Slates(Ragged.of([[]] * 60), data.shown, data.outcome, data.ids)
    assert np.isfinite(SimpleTransformer.fit(alone, **TINY).predict(alone)).all()


@pytest.mark.parametrize(("base", "sink", "reading"), [(False, True, "mean"), (True, False, "attention")])
def test_shapes_are_options(base: bool, sink: bool, reading: str) -> None:
    model = SimpleTransformer.fit(liked_slates(60), base=base, sink=sink, reading=reading, **TINY)
    assert (model.catalog().base is None, model.catalog().sink is None) == (not base, not sink)


def test_the_smallest_data_there_may_be() -> None:
    two = SimpleTransformer.fit(liked_slates(2), **TINY)
    assert np.isfinite(two.predict(liked_slates(5))).all()
    pairs = Sessions.of([["a", "b"], ["b", "c"]] * 10)
    model = SimpleTransformer.fit(pairs, k=3, **TINY)
    assert np.isfinite(model.user(["a"]).heads).all()


def test_items_of_no_session_and_repeated_items() -> None:
    lists = [[0, 1, 1, 0, 2], [2, 1], [4]] * 12
    sessions = Sessions(Ragged.of(lists), list(range(9)), ordered=np.arange(36) % 2 == 0)
    model = SimpleTransformer.fit(sessions, k=2, **TINY)
    assert len(model.catalog()) == 9


def test_fitting_is_asked_for_before_torch_is_imported() -> None:
    code = "import sys; from setwise.training import SimpleTransformer; print('torch' in sys.modules, 'gensim' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_the_page_on_learning_tells_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "learning.md").read_text()
    told = {
        name: (slates, sessions)
        for name, slates, sessions in re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \|", page, re.M)
    }
    defaults = {one.name: one.default for kind in (Shape, Schedule) for one in fields(kind)}
    assert told == {name: (str(one), str(SESSION_DEFAULTS.get(name, one))) for name, one in defaults.items()}


@pytest.mark.parametrize(
    ("gain", "kept"), [(np.ones(40), "company"), (np.r_[2.0, np.zeros(39)], "alone"), (np.zeros(40), "alone")]
)
def test_company_must_bring_more_hits_beyond_doubt(gain: np.ndarray, kept: str) -> None:
    data = grouped_sessions(30)
    model = SimpleTransformer.fit(data, k=3, **TINY)
    teacher = learn._Teacher(data, Shape(), Schedule(), None, None, None)
    chosen = teacher.more_hits(learn._Shown(model, Logistic(), np.ones(40)), learn._Shown(model, Logistic(), 1 + gain))
    assert chosen.summary["kept"] == kept
    assert chosen.summary["hits"] == {"alone": 1.0, "company": 1 + gain.mean()}


def test_sessions_without_a_base_term() -> None:
    model = SimpleTransformer.fit(grouped_sessions(30), k=3, base=False, **TINY)
    assert model.catalog().base is None


# --- checkpoints ---


def test_a_finished_checkpoint_gives_the_model_at_once(tmp_path: Path) -> None:
    data = grouped_sessions(30)
    plain = SimpleTransformer.fit(data, k=3, **TINY)
    first = SimpleTransformer.fit(data, k=3, checkpoint=tmp_path / "c", **TINY)
    again = SimpleTransformer.fit(data, k=3, checkpoint=tmp_path / "c", **TINY)
    assert plain.catalog().digest == first.catalog().digest == again.catalog().digest


def test_a_checkpoint_of_other_data_or_options_is_refused(tmp_path: Path) -> None:
    SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)
    for data, k, changes in (
        (grouped_sessions(31), 3, {}),
        (grouped_sessions(30, seed=1), 3, {}),
        (grouped_sessions(30, each=9), 3, {}),
        (grouped_sessions(30), 4, {}),
        (grouped_sessions(30), 3, {"seed": 1}),
        (grouped_sessions(30), 3, {"heads": 2}),
        (grouped_sessions(30), 3, {"embeddings": None}),
    ):
        with pytest.raises(InvalidInput, match="checkpoint must be a folder of this very run"):
            SimpleTransformer.fit(data, k=k, checkpoint=tmp_path / "c", **{**TINY, **changes})


def test_embeddings_of_other_data_are_never_taken_up(tmp_path: Path) -> None:
    """Killed between word2vec and the first epoch, then run again on another file."""
    SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)
    for stage in (tmp_path / "c").iterdir():
        if stage.name != "embeddings":
            shutil.rmtree(stage)
    with pytest.raises(InvalidInput, match="checkpoint must be a folder of this very run"):
        SimpleTransformer.fit(grouped_sessions(30, seed=1), k=3, checkpoint=tmp_path / "c", **TINY)


def test_damaged_embeddings_are_refused(tmp_path: Path) -> None:
    SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)
    (data,) = (tmp_path / "c" / "embeddings").glob("arrays-*")
    data.write_bytes(data.read_bytes()[:-4] + b"away")
    with pytest.raises(DamagedArtifact, match="does not match its sha256"):
        SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)


# --- refusals ---

SLATES = liked_slates(60)
NO_SLATES = SLATES.taken([])
NANS = np.full((30, 3), np.nan)


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        ([["a", "b"]], {}, "data must be Sessions or Slates, got list; read a file"),
        (Sessions.of([]), {}, "data must be one session or slate at least, got none"),
        (NO_SLATES, {}, "data must be one session or slate at least, got none"),
        (SLATES.taken([0]), {}, "slates must be two or more, one of them for validation, got 1"),
        (grouped_sessions(19), {}, "sessions must be 20 or more of two items or more, got 19"),
        (Sessions.of([["a"]] * 50), {}, "sessions must be 20 or more of two items or more, got 0"),
        (SLATES, {"wings": 2}, "options must be among dim, heads, .*, got 'wings'; check its spelling"),
        (SLATES, {"heads": 0}, "heads must be a whole number of at least 1"),
        (SLATES, {"epochs": 1.5}, "epochs must be a whole number"),
        (SLATES, {"learning_rate": -1}, "learning_rate must be positive"),
        (SLATES, {"reading": "x"}, "reading must be one of"),
        (SLATES, {"loss": "x"}, "loss must be one of item, set, choice, got 'x'"),
        (grouped_sessions(30), {"k": 0}, "k must be a whole number of at least 1"),
        (grouped_sessions(30), {"loss": "set"}, "validation and loss must be left out with sessions"),
        (grouped_sessions(30), {"validation": SLATES}, "validation and loss must be left out with sessions"),
        (SLATES, {"embeddings": "glove"}, "embeddings must be 'auto', .*, an array or None, got 'glove'"),
        (SLATES, {"embeddings": NANS}, "embeddings must be finite everywhere, got nan"),
        (SLATES, {"embeddings": np.ones((29, 3))}, "embeddings must be"),
        (SLATES, {"embeddings": np.ones(30)}, "embeddings must be"),
        (SLATES, {"embeddings": [["a"]] * 30}, "embeddings must be an array of real numbers"),
        (SLATES, {"device": "tpu"}, "device must be cpu, cuda"),
        (SLATES, {"device": "cuda:99"}, "device must be one of the .* GPUs found"),
        (SLATES, {"validation": grouped_sessions(30)}, "validation must be Slates"),
        (SLATES, {"validation": NO_SLATES}, "validation must be Slates, one or more"),
        (SLATES, {"validation": liked_slates(9, n=31)}, "validation must be .* over the same ids"),
    ],
)  # fmt: skip
def test_whatever_is_wrong_is_one_sentence(data, options, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        SimpleTransformer.fit(data, **{**TINY, **options})


def test_ids_that_no_catalogue_takes_are_refused_before_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    def learned(*_, **__):
        raise AssertionError("hours would have gone by")

    monkeypatch.setattr("setwise.training.learn.train", learned)
    monkeypatch.setattr("setwise.training.learn.word2vec", learned)
    with pytest.raises(InvalidInput, match="ids must be"):
        SimpleTransformer.fit(Sessions.of([["a", 1], [1, "b"]] * 20))

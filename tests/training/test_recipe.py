"""The training recipe: quality on planted problems, determinism, checkpoints and errors."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tiny_networks import grouped_sessions, log_loss, parity_slates

import processes
from setwise.datasets import Sessions, Slates, World
from setwise.datasets.splits import HistorySplit
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer, from_sessions
from setwise.training.on_policy import on_policy_slates
from setwise.training.settings import FOR_SESSIONS, FOR_SLATES

TINY = {"dim": 4, "heads": 1, "d_kq": 2, "d_v": 2, "epochs": 2}


def test_a_model_of_the_simulated_world_beats_the_mean_outcome() -> None:
    world = World.make(100)
    log, test = world.log(1000), world.log(500, seed=1)
    model = SimpleTransformer.fit(log, dim=8, heads=2, epochs=6, batch=64)
    constant = np.full(len(test.outcome), log.outcome.mean())
    assert log_loss(model.predict(test), test.outcome) < log_loss(constant, test.outcome)
    assert model.catalog().attributes["title"][0] == world.catalog.attributes["title"][0]
    stages = model.summary["stages"]
    assert sum(len(stages[stage]["validation"]) for stage in ("pointwise", "continued") if stage in stages) <= 6
    assert model.summary["shape"]["heads"] == 2
    assert model.summary["calibrated_on"] in (50, 950)  # the validation slates, or all others where effects were kept


def test_sessions_of_groups_give_slates_of_groups() -> None:
    """Three groups of ten items: five of the six items of a session are of its group; at random it would be a third."""
    model = SimpleTransformer.fit(grouped_sessions(250), dim=8, heads=1, epochs=8, batch=64, k=2)
    split = HistorySplit.first(grouped_sessions(100, seed=1))
    slates = on_policy_slates(model, split, 2)
    group = slates.history.values[slates.history.offsets[:-1]] // 10
    assert (slates.shown.values // 10 == group[slates.shown.owner]).mean() > 0.8


@pytest.mark.parametrize("data", [parity_slates(60), grouped_sessions(30)], ids=["slates", "sessions"])
def test_the_seed_determines_the_model(data: Sessions | Slates) -> None:
    one, same, other = (SimpleTransformer.fit(data, seed=seed, k=3, **TINY) for seed in (0, 0, 1))
    assert one.catalog().digest == same.catalog().digest
    assert one.encoder.items.tobytes() == same.encoder.items.tobytes()
    assert one.catalog().digest != other.catalog().digest


@pytest.mark.parametrize("loss", ["item", "set", "choice"])
def test_every_loss(loss: str) -> None:
    model = SimpleTransformer.fit(parity_slates(60), loss=loss, **TINY)
    assert ("calibrated_on" in model.summary) == (loss == "item")


def test_validation_slates_may_be_given() -> None:
    data, validation = parity_slates(60), parity_slates(20, seed=1)
    assert SimpleTransformer.fit(data, validation=validation, **TINY).summary["calibrated_on"] in (20, 60)
    with_all = SimpleTransformer.fit(data, validation=validation, **TINY).summary["log_loss"]
    assert with_all != SimpleTransformer.fit(data, **TINY).summary["log_loss"]


@pytest.mark.parametrize(
    "embeddings", ["auto", "word2vec", "spectral", "correspondence", None, np.eye(30), np.arange(60).reshape(30, 2)]
)
def test_every_kind_of_embedding(embeddings) -> None:
    model = SimpleTransformer.fit(parity_slates(60), embeddings=embeddings, loss="set", **TINY)
    assert model.encoder.items.shape == (30, 4)


def test_empty_histories_start_from_random_embeddings() -> None:
    data = parity_slates(60)
    empty = Slates(Ragged.of([[]] * 60), data.shown, data.outcome, data.ids)
    assert np.isfinite(SimpleTransformer.fit(empty, **TINY).predict(empty)).all()


@pytest.mark.parametrize(("base", "sink", "pooling"), [(False, True, "mean"), (True, False, "attention")])
def test_shapes_are_options(base: bool, sink: bool, pooling: str) -> None:
    model = SimpleTransformer.fit(parity_slates(60), base=base, sink=sink, pooling=pooling, loss="set", **TINY)
    assert (model.catalog().base is None, model.catalog().sink is None) == (not base, not sink)


def test_the_smallest_data() -> None:
    two = SimpleTransformer.fit(parity_slates(2), **TINY)
    assert np.isfinite(two.predict(parity_slates(5))).all()
    pairs = Sessions.of([["a", "b"], ["b", "c"]] * 10)
    model = SimpleTransformer.fit(pairs, k=3, **TINY)
    assert np.isfinite(model.user(["a"]).heads).all()


def test_items_of_no_session_and_repeated_items() -> None:
    lists = [[0, 1, 1, 0, 2], [2, 1], [4]] * 12
    sessions = Sessions(Ragged.of(lists), list(range(9)), ordered=np.arange(36) % 2 == 0)
    model = SimpleTransformer.fit(sessions, k=2, **TINY)
    assert len(model.catalog()) == 9


def test_importing_the_model_does_not_import_torch() -> None:
    code = "import sys; from setwise.training import SimpleTransformer; print('torch' in sys.modules, 'gensim' in sys.modules)"
    out = processes.run([sys.executable, "-c", code], check=True)
    assert out.stdout.split() == ["False", "False"]


def test_the_page_on_training_documents_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "learning.md").read_text()
    documented = {
        name: (slates, sessions)
        for name, slates, sessions in re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \|", page, re.M)
    }
    defaults = [asdict(shape) | asdict(schedule) for shape, schedule in (FOR_SLATES, FOR_SESSIONS)]
    assert documented == {name: (str(defaults[0][name]), str(defaults[1][name])) for name in defaults[0]}


def test_fit_names_its_parameters_with_their_defaults() -> None:
    parameters = inspect.signature(SimpleTransformer.fit).parameters
    slates, sessions = (asdict(shape) | asdict(schedule) for shape, schedule in (FOR_SLATES, FOR_SESSIONS))
    for name, usual in slates.items():
        same = usual == sessions[name] and name != "heads"  # sessions have none by default
        assert parameters[name].default == (usual if same else None), name
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values())
    documented = re.findall(r"^(\w+(?:, \w+)*)  ", inspect.getdoc(SimpleTransformer.fit) or "", re.M)
    assert [name for names in documented for name in names.split(", ")] == list(parameters)


@pytest.mark.parametrize(
    ("gain", "kept"),
    [(np.ones(40), "interaction"), (np.r_[2.0, np.zeros(39)], "pointwise"), (np.zeros(40), "pointwise")],
)
def test_attention_is_kept_only_with_significantly_more_hits(gain: np.ndarray, kept: str) -> None:
    found, hits = from_sessions.better(np.ones(40), 1 + gain)
    assert found == kept
    assert hits == {"pointwise": 1.0, "interaction": 1 + gain.mean()}


# --- checkpoints ---


def test_a_finished_checkpoint_gives_the_same_model(tmp_path: Path) -> None:
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
        with pytest.raises(InvalidInput, match="checkpoint must be a checkpoint of the same run"):
            SimpleTransformer.fit(data, k=k, checkpoint=tmp_path / "c", **{**TINY, **changes})


def test_base_models_that_had_less_time_are_not_used_again(tmp_path: Path) -> None:
    data = grouped_sessions(30)
    SimpleTransformer.fit(data, k=3, minutes=1e-6, checkpoint=tmp_path / "c", **TINY)
    with pytest.raises(InvalidInput, match="checkpoint must be a checkpoint of the same run"):
        SimpleTransformer.fit(data, k=3, minutes=1, checkpoint=tmp_path / "c", **TINY)


@pytest.mark.parametrize("left", ["base", "embeddings"])
def test_a_part_of_other_data_is_refused(tmp_path: Path, left: str) -> None:
    """Killed before the first epoch, then run again on another file."""
    SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", embeddings="word2vec", **TINY)
    for stage in (tmp_path / "c").iterdir():
        if stage.name != left:
            shutil.rmtree(stage)
    with pytest.raises(InvalidInput, match="checkpoint must be a checkpoint of the same run"):
        SimpleTransformer.fit(
            grouped_sessions(30, seed=1), k=3, checkpoint=tmp_path / "c", embeddings="word2vec", **TINY
        )


def test_a_damaged_base_is_refused(tmp_path: Path) -> None:
    SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)
    (data,) = (tmp_path / "c" / "base").glob("arrays-*")
    data.write_bytes(data.read_bytes()[:-4] + b"away")
    with pytest.raises(DamagedArtifact, match="does not match its sha256"):
        SimpleTransformer.fit(grouped_sessions(30), k=3, checkpoint=tmp_path / "c", **TINY)


# --- errors ---

SLATES = parity_slates(60)
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
        (SLATES, {"heads": 0}, "heads must be a whole number of at least 1"),
        (SLATES, {"epochs": 1.5}, "epochs must be a whole number"),
        (SLATES, {"learning_rate": -1}, "learning_rate must be positive"),
        (SLATES, {"pooling": "x"}, "pooling must be one of"),
        (SLATES, {"loss": "x"}, "loss must be one of item, set, choice, got 'x'"),
        (grouped_sessions(30), {"k": 0}, "k must be a whole number of at least 1"),
        (grouped_sessions(30), {"base": False}, "base must be True for sessions"),
        (grouped_sessions(30), {"minutes": 0}, "minutes must be a positive number, got 0"),
        (grouped_sessions(30), {"loss": "set"}, "loss must be 'item' for sessions, got 'set'"),
        (grouped_sessions(30), {"validation": SLATES}, "validation must be None for sessions, .*, got Slates"),
        (SLATES, {"embeddings": "glove"}, "embeddings must be 'auto', .*, an array or None, got 'glove'"),
        (SLATES, {"embeddings": NANS}, "embeddings must be finite everywhere, got nan"),
        (SLATES, {"embeddings": np.ones((29, 3))}, "embeddings must be"),
        (SLATES, {"embeddings": np.ones(30)}, "embeddings must be"),
        (SLATES, {"embeddings": [["a"]] * 30}, "embeddings must be an array of real numbers"),
        (SLATES, {"device": "tpu"}, "device must be cpu, cuda"),
        (SLATES, {"device": "cuda:99"}, "device must be one of the .* GPUs found"),
        (SLATES, {"validation": grouped_sessions(30)}, "validation must be Slates"),
        (SLATES, {"validation": NO_SLATES}, "validation must be Slates, one or more"),
        (SLATES, {"validation": parity_slates(9, n=31)}, "validation must be .* over the same ids"),
    ],
)  # fmt: skip
def test_invalid_arguments(data, options, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        SimpleTransformer.fit(data, **{**TINY, **options})


def test_invalid_ids_are_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_, **__):
        raise AssertionError("training must not start")

    monkeypatch.setattr("setwise.training.stages.train", unreachable)
    monkeypatch.setattr("setwise.training.from_sessions.fit_base", unreachable)
    with pytest.raises(InvalidInput, match="ids must be"):
        SimpleTransformer.fit(Sessions.of([["a", 1], [1, "b"]] * 20))

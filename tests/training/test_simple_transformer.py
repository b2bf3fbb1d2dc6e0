"""A trained model: users, predictions, files, and use without torch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_networks import ITEMS, random_network, random_slates

import processes
import setwise as sw
from setwise.datasets.sessions import Slates
from setwise.errors import DamagedArtifact, InvalidInput, MissingDependency, UnknownId
from setwise.model.ragged import Ragged
from setwise.training import Encoder, SimpleTransformer
from setwise.training.export import export_model
from setwise.training.network import POOLINGS, Shape
from worlds import REWARDS, random_catalog

IDS = [f"song-{row}" for row in range(ITEMS)]


def tiny(seed: int = 0, **shape) -> SimpleTransformer:
    network = random_network(Shape(**{"dim": 4, "heads": 2, "d_kq": 3, "d_v": 3, **shape}), seed)
    model = export_model(network, IDS, {"title": [f"title {row}" for row in range(ITEMS)]}, {"trained": "never"})
    return SimpleTransformer(model.catalog(), model.encoder, model.summary)


def slates(seed: int = 0) -> Slates:
    drawn = random_slates(seed)
    return Slates(drawn.history, drawn.shown, drawn.outcome, IDS)


def test_users_of_histories_by_id() -> None:
    model = tiny()
    user = model.user(["song-3", "song-5"])
    (same,) = model.users(Ragged.of([[3, 5]]))
    np.testing.assert_array_equal(user.heads, same.heads)
    np.testing.assert_array_equal(user.base, same.base)
    with pytest.raises(UnknownId, match="song-99"):
        model.user(["song-99"])
    assert model.catalog().user(model.user([]))


def test_recommending_from_a_model() -> None:
    model = tiny()
    recommender = sw.Recommender(sw.Index.build(model.catalog(), cells=3, progress=False))
    history = ["song-3", "song-5"]
    slate = recommender.recommend(model.user(history), k=4, exclude=history)
    assert not set(history) & set(slate.items)
    shown = Slates(Ragged.of([[3, 5]]), Ragged.of([slate.indices]), np.zeros(4, np.float32), IDS)
    assert model.predict(shown).sum() == pytest.approx(slate.value, abs=1e-9)


def test_predictions_use_the_reward_of_each_item() -> None:
    catalog, _ = random_catalog(1, n=ITEMS, heads=1, base=True, rewards=REWARDS)
    rng = np.random.default_rng(0)
    model = SimpleTransformer(
        catalog,
        Encoder(
            rng.normal(size=(ITEMS, 2)), rng.normal(size=(1, 3, 2)), np.zeros((1, 3)), np.ones((2, 2)), np.zeros(2)
        ),
    )
    shown = random_slates()
    predicted = np.split(model.predict(shown), shown.shown.offsets[1:-1])
    for user, rows, rewards in zip(model.users(shown.history), shown.shown, predicted, strict=True):
        np.testing.assert_allclose(rewards, sw.item_rewards(catalog, user, rows), atol=1e-9)


def test_slates_of_another_file_are_matched_by_their_ids() -> None:
    """Their rows were taken as rows of the model: predictions of other items, and a calibration on them."""
    model, mine = tiny(), slates()
    order = np.random.default_rng(1).permutation(ITEMS)
    place = np.argsort(order)
    ids = [*np.array(IDS)[order].tolist(), "unknown"]
    history = Ragged.of([[*place[one], ITEMS] for one in mine.history])
    shown = Ragged.cut(place[mine.shown.values], mine.shown.lengths)
    other = Slates(history, shown, mine.outcome, ids)
    np.testing.assert_array_equal(model.predict(other), model.predict(mine))
    assert model.reliability(other, bins=3).rows() == model.reliability(mine, bins=3).rows()
    assert model.calibrated(other).catalog().rewards == model.calibrated(mine).catalog().rewards
    fewer = Slates(Ragged.of([[]]), Ragged.of([[0, 1]]), np.zeros(2, np.float32), ["song-7", "song-2"])
    alike = Slates(Ragged.of([[]]), Ragged.of([[7, 2]]), np.zeros(2, np.float32), IDS)
    np.testing.assert_array_equal(model.predict(fewer), model.predict(alike))
    foreign = Slates(Ragged.of([[]]), Ragged.of([[ITEMS]]), np.zeros(1, np.float32), ids)
    for use in (model.predict, model.calibrated, model.reliability):
        with pytest.raises(InvalidInput, match="slates must be of items of this model, got the item 'unknown'"):
            use(foreign)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("base", [True, False])
def test_saving_and_loading_keep_every_bit(tmp_path: Path, pooling: str, base: bool) -> None:
    model = tiny(pooling=pooling, base=base, sink=base)
    model.save(tmp_path / "model")
    loaded = SimpleTransformer.load(tmp_path / "model")
    assert loaded.summary == {"trained": "never"}
    assert loaded.catalog().digest == model.catalog().digest
    assert loaded.catalog().attributes["title"][3] == "title 3"
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(slates()), model.predict(slates()))
    for name, array in model.encoder.packed().items():
        np.testing.assert_array_equal(loaded.encoder.packed()[name], array)


def test_loaded_arrays_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    tiny().save(tmp_path / "model")
    loaded = SimpleTransformer.load(tmp_path / "model")
    for array in (loaded.encoder.items, loaded.encoder.heads_weight, loaded.catalog().query, loaded.catalog().base):
        root = array
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base
        assert not isinstance(root, np.ndarray), "the memory is that of the file, not a copy"


def test_saving_replaces_an_older_model(tmp_path: Path) -> None:
    tiny(0).save(tmp_path / "model")
    tiny(1).save(tmp_path / "model")
    assert SimpleTransformer.load(tmp_path / "model").catalog().digest == tiny(1).catalog().digest


def test_a_tampered_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tiny().save(folder)
    (data,) = folder.glob("arrays-*.safetensors")
    whole = data.read_bytes()
    for at in (len(whole) // 2, len(whole) - 1):
        data.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DamagedArtifact, match="does not match its sha256"):
            SimpleTransformer.load(folder)
    data.write_bytes(whole)
    SimpleTransformer.load(folder)
    with pytest.raises(DamagedArtifact, match="there is no manifest"):
        SimpleTransformer.load(tmp_path / "nowhere")
    tiny().catalog().save(tmp_path / "catalog")
    with pytest.raises(DamagedArtifact, match="the kind is 'catalog', not 'model'"):
        SimpleTransformer.load(tmp_path / "catalog")


def run(code: str) -> str:
    done = processes.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_saved_model_ranks_without_torch(tmp_path: Path) -> None:
    model = tiny()
    model.save(tmp_path / "model")
    value = sw.set_value(model.catalog(), model.user(["song-1"]), [4, 6])
    output = run(f"""
import sys
from setwise.training import SimpleTransformer
import setwise as sw
model = SimpleTransformer.load({str(tmp_path / "model")!r})
user = model.user(["song-1"])
instance = sw.Instance.from_catalog(model.catalog(), user, range(2, 20))
sw.rank(instance, 3, "greedy")
print(repr(sw.set_value(model.catalog(), user, [4, 6])), "torch" in sys.modules, "gensim" in sys.modules)
""")
    assert output.split() == [repr(value), "False", "False"]


def test_training_without_torch_says_what_to_install() -> None:
    output = run("""
import sys
sys.modules["torch"] = None
from setwise.datasets import Sessions
from setwise.errors import MissingDependency
from setwise.training import SimpleTransformer
try:
    SimpleTransformer.fit(Sessions.of([["a", "b"]]))
except MissingDependency as error:
    print(error)
""")
    assert output.strip() == "training a model needs torch, which is not installed; run: pip install 'setwise[train]'."


def test_only_torch_is_reported_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("recipe", "from_sessions", "from_slates", "stages", "network", "trainer", "export"):
        monkeypatch.delitem(sys.modules, f"setwise.training.{name}", raising=False)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingDependency, match="training a model needs torch"):
            SimpleTransformer.fit(slates())
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "setwise.training.recipe", None)
        with pytest.raises(ModuleNotFoundError, match="recipe") as caught:
            SimpleTransformer.fit(slates())
        assert not isinstance(caught.value, MissingDependency)


def test_catalog_and_encoder_are_checked() -> None:
    catalog, _ = random_catalog(0)
    with pytest.raises(InvalidInput, match=r"must be a setwise\.Catalog and an Encoder, got Catalog and dict"):
        SimpleTransformer(catalog, {})
    ordered, _ = random_catalog(0, positions=3)
    with pytest.raises(InvalidInput, match="catalog must be without positions"):
        SimpleTransformer(ordered, Encoder(np.ones((12, 2)), np.ones((1, 3, 2)), np.ones((1, 3))))


def test_calibration_and_reliability() -> None:
    model = tiny()
    fitted = model.calibrated(slates())
    assert fitted.summary == {"trained": "never", "calibrated_on": len(slates())}
    assert fitted.catalog().rewards != model.catalog().rewards
    assert fitted.catalog().attributes["title"][3] == "title 3"
    assert fitted.reliability(slates(), 4).count.sum() == len(slates().shown.values)
    np.testing.assert_array_equal(
        fitted.arguments(slates().history, slates().shown), model.arguments(slates().history, slates().shown)
    )


def test_a_model_and_its_summary_are_printed_in_short() -> None:
    stage = {"training": [0.7, 0.6, 0.5], "validation": [0.8, 0.65, 0.7], "best": 1, "kept": 1}
    hits = {"pointwise": 1.23456, "interaction": 1.5}
    base = [{"model": "EASE", "setting": [1.0], "decay": 1.0, "weight": 0.5}]
    summary = {"kept": "<pair>", "stages": {"pairs": stage}, "hits": hits, "base": base, "tried": [1] * 99}
    catalog, _ = random_catalog(0)
    model = SimpleTransformer(catalog, Encoder(np.ones((12, 2)), np.ones((1, 3, 2)), np.ones((1, 3))), summary)
    assert repr(model.summary) == (
        "Summary(kept: <pair>; hits: pointwise 1.235, interaction 1.5; "
        "stage pairs: epoch 2 of 3, loss 0.6, on validation 0.65; base: 0.5 EASE)"
    )
    page = model._repr_html_()
    assert "<th>kept</th><td>&lt;pair&gt;</td>" in page
    assert repr(model) in page
    assert model.summary == summary, "it is still the dictionary that is saved"

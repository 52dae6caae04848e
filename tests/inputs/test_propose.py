"""The evidence that ranks usual variants, piece by piece and together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dovetail
from dovetail.data import Channels
from dovetail.errors import DataError
from dovetail.inputs import Stated, propose_preprocess
from dovetail.inputs.balance import balance_db, first_layer, order_of
from dovetail.inputs.propose import _by_consistency, _odds_db, _Trial
from dovetail.inputs.sameness import Outputs, Warp, decided, sameness, warped
from dovetail.inputs.usual import Normal, PictureFit, convention_of, fits_for, normals_for, variant
from dovetail.outputs import Kind, OutputRole
from dovetail.outputs.ends import ImageInput
from dovetail.outputs.evidence import FAIR
from dovetail.outputs.layouts import Activation, Coding, Columns, MaskLayout, RowsLayout, ScoresLayout
from dovetail.outputs.view import HeadView
from dovetail.quantize import load_float
from dovetail.testing.heads.net import HeadNet

IMAGE = ImageInput("images", 32, 32, 3, False)


def head(kind, layout, family=""):
    return HeadView(kind, family, {"y": OutputRole.UNKNOWN}, layout, 1.0)


def pixels(seed, count=4):
    """Return pictures of coloured blobs: neighbouring pixels are alike, as in photographs."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, (count, 3, 4, 4))
    return np.repeat(np.repeat(coarse, 8, axis=2), 8, axis=3).astype(np.float32)


def folded(seed, normal):
    """Return a net whose first layer had a batch normalisation folded in while it saw pictures so normalised."""
    net = HeadNet(seed)
    made = net.conv(net.picture(32, 32), 16, 3)
    weight, bias = (net.constants[name] for name in net.nodes[-1].inputs[1:])
    mean, scale = (np.array(values) for values in _values(normal))
    seen = (pixels(seed + 1000, 8) - mean.reshape(-1, 1, 1)) * scale.reshape(-1, 1, 1)
    graph = net.graph(made)
    with_zero = dataclasses.replace(graph, constants={**graph.constants, net.nodes[-1].inputs[2]: np.zeros_like(bias)})
    run = load_float(with_zero, 1)
    values = np.concatenate([run.run({"images": item[None].astype(np.float32)})[made] for item in seen])
    rng = np.random.default_rng(seed)
    gamma, beta = rng.uniform(0.5, 1.5, 16), rng.normal(0, 1, 16)
    factor = gamma / values.std(axis=(0, 2, 3))
    constants = {
        **graph.constants,
        net.nodes[-1].inputs[1]: (weight * factor.reshape(-1, 1, 1, 1)).astype(np.float32),
        net.nodes[-1].inputs[2]: (beta - values.mean(axis=(0, 2, 3)) * factor).astype(np.float32),
    }
    return dataclasses.replace(graph, constants=constants)


def _values(normal):
    preprocess = variant(normal, Channels.RGB, PictureFit.STRETCH, IMAGE).preprocess
    return preprocess.mean, preprocess.scale


@pytest.mark.parametrize("normal", [Normal.RAW, Normal.UNIT, Normal.IMAGENET])
def test_biases_tell_the_scale_of_the_input(normal):
    """Of scales that are far apart the right one balances; seeds are evidence, not one net."""
    right = 0
    for seed in range(12):
        graph = folded(seed, normal)
        layer, run = first_layer(graph), load_float(graph, 1)
        assert layer is not None
        found = {}
        for tried in normals_for(Channels.RGB):
            mean, scale = (np.array(values).reshape(-1, 1, 1) for values in _values(tried))
            feeds = [{"images": ((item - mean) * scale)[None].astype(np.float32)} for item in pixels(seed)]
            found[tried] = balance_db(layer, run, feeds)
        best = max(found, key=lambda item: found[item])
        large = (Normal.RAW, Normal.CAFFE)
        right += (best in large) == (normal in large)
    assert right == 12


def test_a_net_without_biases_says_nothing():
    net = HeadNet(0)
    assert first_layer(net.graph(net.conv(net.picture(8, 8), 4, bias=False))) is None


def test_red_outweighs_blue():
    net = HeadNet(0)
    graph = net.graph(net.conv(net.picture(8, 8), 4, 3))
    layer = first_layer(graph)
    assert layer is not None
    strong = np.array([3.0, 2.0, 1.0]).reshape(1, 3, 1, 1)
    assert order_of(dataclasses.replace(layer, weight=layer.weight * strong), IMAGE) is Channels.RGB
    assert order_of(dataclasses.replace(layer, weight=layer.weight * strong[:, ::-1]), IMAGE) is Channels.BGR
    assert order_of(layer, dataclasses.replace(IMAGE, channels=1)) is None


def alike(seer: HeadView, first: Outputs, second: Outputs, warp: Warp) -> float:
    one, other = decided(seer, first), decided(seer, second)
    assert one is not None
    assert other is not None
    return sameness(seer, one, other, warp, IMAGE)


def test_warps_move_pictures_and_what_is_seen_moves_back():
    array = np.arange(32, dtype=np.float32).reshape(1, 1, 1, 32).repeat(3, 1).repeat(32, 2)
    assert warped(array, Warp.MIRRORED, IMAGE)[0, 0, 0, :3].tolist() == [31, 30, 29]
    assert warped(array, Warp.MOVED, IMAGE)[0, 0, 0, :4].tolist() == [0, 0, 0, 1]
    assert warped(array, Warp.MOVED_BACK, IMAGE)[0, 0, 0, -4:].tolist() == [30, 31, 31, 31]
    layout = RowsLayout((32, 32), Columns("b", 0, 4), Columns("s"), Coding.CORNERS, False, suppressed=True)
    detector = head(Kind.DETECTION, dataclasses.replace(layout, activation=Activation.SIGMOID))
    one = {"b": np.array([[[4.0, 4, 12, 12]]]), "s": np.array([[0.9]])}
    for warp, left in ((Warp.NONE, 4), (Warp.MIRRORED, 20), (Warp.MOVED, 6), (Warp.MOVED_BACK, 2)):
        other = {"b": np.array([[[left, 4.0, left + 8, 12]]]), "s": one["s"]}
        assert alike(detector, one, other, warp) == pytest.approx(2 * 0.9 / 1.9)
    far = {"b": np.array([[[20.0, 20, 30, 30]]]), "s": one["s"]}
    assert alike(detector, one, far, Warp.NONE) == 0


def test_sameness_of_classes_and_masks():
    classes = head(Kind.CLASSIFICATION, ScoresLayout("y", 0, 2, Activation.SOFTMAX))
    first, second = {"y": np.array([[0.9, 0.1]])}, {"y": np.array([[0.8, 0.2]])}
    assert alike(classes, first, second, Warp.MIRRORED) == pytest.approx(0.72 + 0.02)
    mask = head(Kind.SEGMENTATION, MaskLayout("y", None, 2, Activation.SIGMOID))
    seen = np.zeros((1, 1, 32, 32))
    seen[..., 2:8] = 1
    assert alike(mask, {"y": seen}, {"y": seen[..., ::-1]}, Warp.MIRRORED) == 1
    assert alike(mask, {"y": seen}, {"y": np.roll(seen, 2, 3)}, Warp.MOVED) == 1
    assert alike(mask, {"y": seen}, {"y": np.roll(seen, 6, 3)}, Warp.NONE) == 0
    assert decided(head(Kind.EMBEDDING, None), first) is None


def test_conventions():
    assert convention_of(head(Kind.DETECTION, None, "yolox"), IMAGE).channels is Channels.BGR
    classifier = head(Kind.CLASSIFICATION, None)
    assert convention_of(classifier, IMAGE).normals == (Normal.IMAGENET,)
    assert Normal.HALF in convention_of(classifier, dataclasses.replace(IMAGE, channels_last=True)).normals
    assert PictureFit.CROP in fits_for(classifier)
    assert PictureFit.CROP not in fits_for(head(Kind.DETECTION, None))


def pictures(tmp_path, count=3):
    for index, item in enumerate(pixels(5, count)):
        Image.fromarray(item.transpose(1, 2, 0).astype(np.uint8)).save(tmp_path / f"{index}.png")
    return sorted(tmp_path.iterdir())


def test_what_is_stated_is_not_tried(tmp_path):
    graph = folded(0, Normal.UNIT)
    preprocess = variant(Normal.HALF, Channels.BGR, PictureFit.LETTERBOX, IMAGE).preprocess
    stated = Stated("somewhere", preprocess.mean, preprocess.scale, Channels.BGR, preprocess)
    found = propose_preprocess(graph, pictures(tmp_path), stated)
    assert (found.source, found.best.preprocess, found.best.probability) == ("somewhere", preprocess, 1.0)


def test_models_without_pictures_are_refused(tmp_path):
    net = HeadNet(0)
    graph = net.graph(net.dense(net.input("x", 1, 8), 3))
    with pytest.raises(DataError, match="no input that looks like a picture"):
        propose_preprocess(graph, pictures(tmp_path))


def test_models_with_several_pictures_are_refused_by_their_names(tmp_path):
    net = HeadNet(0)
    graph = net.graph(net.conv(net.op("Add", net.input("left", 1, 3, 32, 32), net.input("right", 1, 3, 32, 32)), 3))
    with pytest.raises(DataError, match=r"2 inputs that look like pictures \(left, right\)"):
        propose_preprocess(graph, pictures(tmp_path))


@pytest.mark.models
def test_cifar_net_wants_raw_rgb(models: Path, tmp_path: Path) -> None:
    with np.load(models / "data_cifar10" / "ic01_200.npz", allow_pickle=False) as file:
        for index, item in enumerate(file["x"][:12]):
            Image.fromarray(item).save(tmp_path / f"{index:02d}.png")
    graph = dovetail.normalize(dovetail.load_model(models / "ic01_resnet8_cifar10/resnet8_float.onnx"))
    found = propose_preprocess(graph, sorted(tmp_path.iterdir()))
    assert found.best.name == "RGB, pixels 0..255, as they are"
    assert sum(item.probability for item in found.ranked) == pytest.approx(1)


def flat_net(seed):
    """Return a classifier of the mean colour of a picture: it sees the same however the picture is fitted."""
    net = HeadNet(seed)
    return net.graph(net.softmax(net.dense(net.pooled(net.conv(net.picture(32, 32), 8)), 4)))


def test_what_pictures_do_not_tell_is_no_claim(tmp_path):
    """Of pictures of one colour each no model can say how they were fitted."""
    rng = np.random.default_rng(3)
    for index in range(8):
        Image.new("RGB", (60, 40), tuple(rng.integers(0, 255, 3).tolist())).save(tmp_path / f"{index}.png")
    found = propose_preprocess(flat_net(2), sorted(tmp_path.iterdir()))
    assert any(rival.preprocess.steps != found.best.preprocess.steps for rival in found.rivals)
    assert all(rival.probability * 4 > found.best.probability for rival in found.rivals)


def test_few_pictures_do_not_make_sure():
    """Four pictures on which one variant is a little better say less than sixteen that are alike."""
    apart = np.array([-0.1, -0.2, -0.15, -0.05])
    assert -20 < _odds_db(apart) < -10
    assert _odds_db(np.tile(apart, 4)) < -40
    assert _odds_db(np.zeros(4)) == 0


def test_masks_compare_class_by_class():
    golden = np.array([[0, 0, 1, 1], [0, 0, 2, 2]])
    mask = head(Kind.SEGMENTATION, MaskLayout("y", None, 3, labels=True))
    measured = np.array([[0, 0, 1, 0], [0, 0, 2, 3]])
    # Class 0 is float's most common one; 1 and 2 share a half each, 3 is seen by the other side only.
    assert sameness(mask, golden, measured, Warp.NONE, IMAGE) == pytest.approx((0.5 + 0.5 + 0) / 3)


def test_seeing_more_is_no_more_than_a_fair_finding_of_how_pictures_are_fitted():
    """However many pictures there are; of what becomes of their numbers it may tell as much as there is."""
    drawn = np.random.default_rng(1).uniform(0.0, 0.02, 24)
    made = [(Normal.UNIT, PictureFit.STRETCH, 0.6), (Normal.UNIT, PictureFit.LETTERBOX, 0.4)]
    made += [(Normal.RAW, PictureFit.STRETCH, 0.2), (Normal.RAW, PictureFit.LETTERBOX, 0.1)]
    trials: list[_Trial] = []
    for normal, fit, seen in made:
        trial = _Trial(variant(normal, Channels.RGB, fit, IMAGE))
        trial.consistency = [seen + value for value in np.roll(drawn, len(trials))]
        trials.append(trial)
    _by_consistency(trials)
    assert [trial.weight for trial in trials[:2]] == [0, -FAIR]
    assert trials[2].weight < -40
    assert trials[3].weight < -40

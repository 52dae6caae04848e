"""Single rules of the recogniser, on networks that differ in what the rule is about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.compare.decisions import metric_for, see_random
from dovetail.data.preprocess import Channels
from dovetail.inputs.usual import convention_of
from dovetail.outputs.ends import ImageInput, observe
from dovetail.outputs.evidence import DECISIVE
from dovetail.outputs.families.roles import assignments
from dovetail.outputs.families.sights import stacks
from dovetail.outputs.layouts import Coding, DenseLayout
from dovetail.outputs.view import HeadView, Kind, OutputRole, OutputsView
from dovetail.passes import normalize
from dovetail.testing.heads.net import HeadNet, channels_last


def view_of(net: HeadNet, **outputs: str) -> OutputsView:
    head = net.finish(outputs, Kind.UNKNOWN)
    return see_random(normalize(head.graph), 0, threads=1).view


def head_with(view: OutputsView, output: str) -> HeadView:
    return next(head for head in view.heads if output in head.roles)


def test_a_softmax_of_every_pixel_is_a_mask_and_of_a_coarse_cell_no_sure_one() -> None:
    net = HeadNet(3)
    (feature,) = net.backbone(net.picture(96, 96), (8,))
    assert not view_of(net, out=net.softmax(net.conv(feature, 3), 1)).sure
    fine = HeadNet(3)
    picture = fine.picture(96, 96)
    seen = view_of(fine, out=fine.softmax(fine.conv(fine.relu(fine.conv(picture, 8, 3)), 3), 1))
    assert seen.sure
    assert seen.kind is Kind.SEGMENTATION


def test_states_of_one_shape_go_back_in_order_and_more_of_the_data_does_not() -> None:
    net = HeadNet(1)
    frame, one, two = net.input("a", 1, 40), net.input("b", 1, 16), net.input("c", 1, 16)
    hidden = [net.op("Tanh", net.op("Add", net.dense(frame, 16), state)) for state in (one, two)]
    view = view_of(net, p=net.sigmoid(net.dense(hidden[0], 1)), q=hidden[0], r=hidden[1])
    assert view.feeds_back == {"q": "b", "r": "c"}
    pair = HeadNet(1)
    left, right, third = (pair.input(name, 1, 16) for name in "abc")
    mixed = pair.op("Add", pair.op("Add", left, right), third)
    view = view_of(pair, q=pair.op("Tanh", mixed), r=pair.dense(mixed, 16))
    assert not view.feeds_back


def test_what_a_classifier_reads_is_an_embedding() -> None:
    net = HeadNet(2)
    flat = net.pooled(net.backbone(net.picture(64, 64), (16,))[0])
    features = net.dense(flat, 200)
    read = view_of(net, out=net.op("Identity", features), more=net.dense(features, 1000))
    assert head_with(read, "out").kind is Kind.EMBEDDING
    alone = HeadNet(2)
    flat = alone.pooled(alone.backbone(alone.picture(64, 64), (16,))[0])
    beside = view_of(alone, out=alone.dense(flat, 200), more=alone.dense(flat, 1000))
    assert head_with(beside, "out").kind is Kind.CLASSIFICATION


def test_an_open_batch_is_no_second_axis() -> None:
    """96 numbers for the whole picture could be three anchors of a cell, but for there being one cell."""
    net = HeadNet(0)
    (feature,) = net.backbone(net.picture(32, 32), (32,))
    graph = normalize(net.finish({"out": net.conv(net.relu(feature), 96)}, Kind.UNKNOWN).graph)
    changed = {
        name: replace(kind, shape=("N", *kind.shape[1:])) if name not in graph.constants and kind.shape else kind
        for name, kind in graph.types.items()
    }
    inputs = dict.fromkeys(graph.inputs, (1, 3, 32, 32))
    runs = [{"out": np.zeros((1, 96, 1, 1), np.float32)}] * 2
    for item in (graph, graph.evolve(types=changed)):
        ends = observe(item, runs, inputs)
        assert ends.flat(ends.outputs[0])


def test_open_rows_and_columns_are_no_vector() -> None:
    """MTCNN's first network takes pictures of any size: numbers of every cell are not made of the whole picture."""
    net = HeadNet(0)
    (feature,) = net.backbone(net.picture(64, 64), (2,))
    graph = normalize(net.finish({"out": channels_last(net, net.conv(feature, 4))}, Kind.UNKNOWN).graph)
    changed = {
        name: replace(
            kind, shape=tuple("NCHW"[axis] if size in (1, 32, 64) else size for axis, size in enumerate(kind.shape))
        )
        for name, kind in graph.types.items()
        if name not in graph.constants and kind.shape
    }
    runs = [{"out": np.zeros((1, 32, 32, 4), np.float32)}] * 2
    for item in (graph, graph.evolve(types={**graph.types, **changed})):
        ends = observe(item, runs, dict.fromkeys(graph.inputs, (1, 3, 64, 64)))
        assert not ends.flat(ends.outputs[0])


def test_angles_of_boxes_belong_to_their_detector_and_count() -> None:
    net = HeadNet(4)
    features = net.backbone(net.picture(320, 320, channels_last=False), (8, 16, 32))
    maps = {f"o{index}": net.concat([net.conv(item, 64), net.conv(item, 15)], 1) for index, item in enumerate(features)}
    rows = net.concat([net.rows(net.conv(item, 1), 1) for item in features], 1)
    outputs = {**maps, "angle": net.transpose(net.sigmoid(rows), (0, 2, 1))}
    seen = see_random(normalize(net.finish(outputs, Kind.DETECTION).graph), 0, threads=1)
    assert head_with(seen.view, "angle").roles["o0"] is OutputRole.COMBINED
    metric = metric_for(seen.view, seen.golden)
    harmed = {**seen.golden, "angle": 1.0 - seen.golden["angle"]}
    assert metric.score(harmed, seen.golden) < metric.score(seen.golden, seen.golden) == 1.0


def test_a_plane_of_features_is_no_sound() -> None:
    net = HeadNet(5)
    (feature,) = net.backbone(net.input("canvas", 1, 16, 128, 128), (2,))
    parts = (net.sigmoid(net.conv(feature, 3)), *(net.conv(feature, count) for count in (2, 1, 3, 2)))
    view = view_of(net, **dict(zip("abcde", parts, strict=True)))
    assert [head.kind for head in view.heads] == [Kind.DETECTION]
    other = HeadNet(5)
    spectrum = other.input("mix", 1, 257, 1, 2)
    mask = other.op("Mul", other.op("Tanh", other.op("Mul", spectrum, other.uniform(1, 257, 1, 2))), spectrum)
    assert view_of(other, enh=mask).kind is Kind.SIGNAL


def test_classes_of_every_frame_are_compared_frame_by_frame() -> None:
    net = HeadNet(6)
    frames = net.input("x", 1, 300, 40)
    rows = net.op("MatMul", frames, net.uniform(40, 5), shape=(1, 300, 5))
    head = net.finish({"y": net.op("LogSoftmax", rows, axis=2)}, Kind.CLASSIFICATION)
    seen = see_random(normalize(head.graph), 0, threads=1)
    assert head_with(seen.view, "y").kind is Kind.CLASSIFICATION
    metric = metric_for(seen.view, seen.golden)
    own = metric.score(seen.golden, seen.golden)
    shares = np.exp(np.asarray(seen.golden["y"], np.float64))
    assert own == pytest.approx(float(np.mean([item.max(axis=1).mean() for item in shares])), abs=1e-6)
    half = {"y": seen.golden["y"].copy()}
    half["y"][:, ::2] = half["y"][:, ::2, ::-1]
    assert metric.score(half, seen.golden) < own


def test_a_mask_that_marks_nothing_is_compared_as_numbers() -> None:
    net = HeadNet(7)
    picture = net.picture(64, 64, channels_last=True)
    (feature,) = net.backbone(picture, (2,))
    score = net.op("Mul", net.sigmoid(channels_last(net, net.up(feature, 1))), net.constant(np.float32(0.1)))
    seen = see_random(normalize(net.finish({"mask": score}, Kind.SEGMENTATION).graph), 0, threads=1)
    metric = metric_for(seen.view, seen.golden)
    noise = np.random.default_rng(0).normal(0, 0.01, seen.golden["mask"].shape).astype(np.float32)
    assert metric.score({"mask": seen.golden["mask"] + noise}, seen.golden) < 0.95


def test_one_score_a_pixel_that_is_sure_of_large_parts_is_a_mask_and_no_text() -> None:
    net = HeadNet(6)
    (feature,) = net.backbone(net.picture(96, 96, channels_last=True), (2,))
    raw = net.up(feature, 1)
    sure = net.op("Mul", net.op("Sub", raw, net.op("ReduceMean", raw, keepdims=1)), net.constant(np.float32(1e3)))
    faint, clear = (view_of(net, out=channels_last(net, net.sigmoid(logits))) for logits in (raw, sure))
    assert [view.kind for view in (faint, clear)] == [Kind.SEGMENTATION] * 2
    assert clear.sure
    assert head_with(faint, "out").confidence < head_with(clear, "out").confidence


def test_a_score_beside_boxes_with_points_is_mediapipes_design() -> None:
    net = HeadNet(7)
    eight, sixteen = net.backbone(net.picture(128, 128, channels_last=True), (8, 16))
    boxes, scores = (
        net.concat([net.rows(net.conv(item, count * size), size) for item, count in ((eight, 2), (sixteen, 6))], 1)
        for size in (16, 1)
    )
    head = head_with(view_of(net, regressors=boxes, classificators=scores), "regressors")
    assert isinstance(head.layout, DenseLayout)
    assert (head.family, head.layout.coding, head.layout.centre) == ("mediapipe", Coding.PIXELS, 0.5)
    assert convention_of(head, ImageInput("x", 128, 128, 3, True)).channels is Channels.RGB


@pytest.mark.parametrize("order", ["objectness first", "box first"])
def test_where_activations_end_says_which_channel_is_objectness_whatever_the_values(order: str) -> None:
    """FastestDet's published weights see little in noise, where the fourth number of its boxes looks like scores."""
    net = HeadNet(3)
    (feature,) = net.backbone(net.picture(128, 128), (16,))
    parts = [net.sigmoid(net.conv(feature, 1)), net.conv(feature, 4)]
    parts = parts if order == "objectness first" else [*reversed(parts)]
    graph = normalize(
        net.finish({"y": net.concat([*parts, net.softmax(net.conv(feature, 80), 1)], 1)}, Kind.UNKNOWN).graph
    )
    ends = observe(graph, [{"y": np.zeros((1, 85, 8, 8), np.float32)}], {"images": (1, 3, 128, 128)})
    (stack,) = (item for item in stacks(ends) if len(item.rows[0]) == 1)
    weights = {(*found.roles,): found.case.weight for found in assignments(stack.rows, 1)}
    first, second = OutputRole.OBJECTNESS, OutputRole.BOXES
    first, second = (first, second) if order == "objectness first" else (second, first)
    right = weights.pop((first, second, OutputRole.SCORES))
    assert right - max(weights.values()) >= DECISIVE / 2

"""The samples of a search: few are kept, many are read again, and either way they come as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dovetail.data import Sample, keep_samples
from dovetail.search.samples import SampleSet, batch_size
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

from .test_culprits import chain

_MIB = 1 << 20


class _Source(HeldSamples):
    """Samples of some size, without the memory: all values of one are the same one. Notes what is read again."""

    def __init__(self, count: int, size_mib: int) -> None:
        shape = (1, size_mib * _MIB // 4)
        super().__init__(
            [Sample(str(index), {"x": np.broadcast_to(np.float32(index), shape)}) for index in range(count)]
        )
        self.read: list[Sequence[int]] = []

    def subset(self, indices: Sequence[int]) -> HeldSamples:
        self.read.append(indices)
        return super().subset(indices)


@pytest.mark.parametrize("size_mib", [8, 11])
def test_samples_come_in_the_order_that_they_are_asked_for(size_mib: int) -> None:
    source = _Source(100, size_mib)
    wanted = [number * 37 % 100 for number in range(80)]
    assert [sample.id for sample in SampleSet(chain(1), source).samples(wanted)] == [str(index) for index in wanted]


def test_up_to_a_gibibyte_is_kept_and_only_the_rest_is_read_again() -> None:
    source = _Source(70, 16)
    samples = SampleSet(chain(1), source)
    for _ in range(2):
        assert [sample.id for sample in samples.samples(range(70))] == [str(index) for index in range(70)]
    assert source.read == [list(range(70)), list(range(64, 70))]


def test_what_one_set_has_read_no_other_reads_again() -> None:
    source = _Source(40, 1)
    kept = keep_samples(source)
    part = kept.subset([30, 4, 5])
    assert [sample.id for sample in part] == ["4", "5", "30"]
    assert part.digest == source.subset([4, 5, 30]).digest
    assert (keep_samples(part), part.count) == (part, 3)
    source.read.clear()
    assert [sample.id for sample in SampleSet(chain(1), part.subset([0, 2])).samples([1, 0, 1])] == ["30", "4", "30"]
    assert len(list(SampleSet(chain(1), kept).samples(range(40)))) == 40
    assert [len(indices) for indices in source.read if len(indices) > 3] == [37]


def test_a_source_without_a_count_is_read_once() -> None:
    source = _Source(5, 1)
    source.count = None
    kept = keep_samples(source)
    assert (kept.count, [sample.id for sample in kept.subset([3, 1])]) == (5, ["1", "3"])


def test_labels_are_stacked_however_many_there_are() -> None:
    shape = (1, 4)
    held = HeldSamples(
        [Sample(str(number), {"x": np.zeros(shape, np.float32)}, {"y": np.array(number)}) for number in range(3)]
    )
    samples = SampleSet(chain(1), held)
    assert samples.labels([2])["y"].tolist() == [2]
    assert samples.labels([2, 0])["y"].tolist() == [2, 0]
    assert samples.labels([]) == {}


@pytest.mark.parametrize(("batch", "side", "count"), [("N", 16, 32), ("N", 256, 10), ("N", 2048, 1), (1, 16, 1)])
def test_fewer_samples_go_together_the_more_a_node_reads_and_writes(batch: str | int, side: int, count: int) -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.input("x", batch, 3, side, side), shape=(batch, 3, side, side)))
    source = HeldSamples([Sample(str(index), {"x": np.zeros((1, 3, side, side), np.float32)}) for index in range(40)])
    assert batch_size(graph) == count
    assert next(len(item.samples) for item in SampleSet(graph, source).batches(range(40))) == count

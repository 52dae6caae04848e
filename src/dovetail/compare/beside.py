"""Compare what a model gives elsewhere, of which only the outputs are seen, with the model here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace

from dovetail.compare.layers import label_arrays, stack_samples
from dovetail.compare.outputs import CompareOptions, compare_outputs
from dovetail.compare.record import Comparison
from dovetail.data.sample import Sample, SampleSource
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.calibrate import load_float

RunElsewhere = Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]
"""Inputs of a sample to outputs, both by name."""


def compare_elsewhere(
    graph: Graph,
    samples: SampleSource,
    run: RunElsewhere,
    options: CompareOptions | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Compare the outputs of a model that is run elsewhere with those of the model, on the same samples.

    All outputs of all samples are in memory. Raises DataError when there is no sample, or an output of the model is
    not among what came back.
    """
    golden: dict[str, list[AnyArray]] = {name: [] for name in graph.outputs}
    measured: dict[str, list[AnyArray]] = {name: [] for name in graph.outputs}
    used: list[Sample] = []
    with closing(load_float(graph)) as executable:
        for sample in samples:
            there = run(sample.inputs)
            missing = [name for name in graph.outputs if name not in there]
            if missing:
                raise DataError(
                    f"no output '{missing[0]}' came back; there are {', '.join(there) or 'none'}.",
                    hint="Compare a model with one whose outputs have the same names.",
                )
            for name, array in executable.run(sample.inputs, []).items():
                golden[name].append(array)
                measured[name].append(there[name])
            used.append(sample)
            progress(len(used))
    if not used:
        raise DataError("the data set is empty: there is nothing to compare on.", hint="Give at least one sample.")
    chosen = options or CompareOptions()
    here, other = ({name: stack_samples(name, arrays) for name, arrays in side.items()} for side in (golden, measured))
    labels = label_arrays(used) if chosen.tasks else None
    return compare_outputs(here, other, replace(chosen, outputs=graph.outputs), labels)

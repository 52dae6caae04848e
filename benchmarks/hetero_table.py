"""Into which parts OpenVINO's HETERO cuts models under random placements, beside what is predicted.

python benchmarks/hetero_table.py [--model NAME ...] [--placements N] [--drawn N] [--seed N] ...

Placements are drawn: a drawn share of the nodes goes to the second of two devices, alone or in runs. HETERO cuts what
`read_model` and what `convert_model` make of the ONNX file and compiles it, with the CPU plug-in under two names; its
own drawing says in which part every operator is. Of further placements HETERO makes the drawing alone: their devices do
not exist. The file of `--trials` keeps every trial: those that are in it are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import openvino

import dovetail
import zoo.machine as machine
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import (
    HeteroPrediction,
    apply_affinities,
    count_submodels,
    predict_parts,
    read_affinities,
    weights_without_shape,
)
from dovetail.ir import Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import dequantize, is_quantized
from dovetail.testing.networks import Network
from zoo.catalogue import models_root
from zoo.shares import clopper_pearson
from zoo.table import markdown

DEVICES = {"vsi:v853": "CPUA", "cpu": "CPUB"}
ABSENT = {"vsi:v853": "NONEA", "cpu": "NONEB"}
"""Devices that do not exist: HETERO cuts and draws a model before it looks for them."""
FILES: Mapping[str, tuple[str | Path, dict[str, tuple[int, ...]]]] = {
    "digits": (Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx", {"images": (1, 1, 40, 40)}),
    "resnet8": ("ic01_resnet8_cifar10/resnet8_float.onnx", {}),
    "ultraface": ("ultraface_rfb320/version-RFB-320.onnx", {}),
    "ppocr_det": ("ppocrv3_det/model.onnx", {"x": (1, 3, 64, 96)}),
    "shufflenet_v2": ("shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx", {}),
    "mobilenet_v2": ("mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite", {}),
    "kwt1": ("kwt1_transformer/kwt1_non_stream.onnx", {}),
    "yolox_nano": ("yolox_nano/yolox_nano_decoded.onnx", {}),
}
"""The repository's example and models of the collection; quantised ones as the float models that they stand for."""
SHUFFLED, BRANCHES = "shuffled blocks", "drawn branches"
NAMES = (SHUFFLED, BRANCHES, *FILES)
READERS = ("read_model", "convert_model")
_HEADS = ("model", "nodes", "reader", "parts", "compiles as predicted", "refusals", "drawings alike")
_CLONED = frozenset({"Constant", "Parameter"})
"""They are drawn beside everything that reads them, in no part."""
_DRAW = "OPENVINO_HETERO_VISUALIZE"
_DRAWN = re.compile(r'label="(?P<name>.*?)\\n[^"]*subgraph=(?P<part>-?\d+)')


@dataclass(frozen=True, slots=True)
class Trial:
    """One placement of one model by one reader."""

    model: str
    nodes: int
    reader: str
    seed: int
    predicted: int
    sure: bool
    lost: int
    """Convolutions whose weights lose their shape, as predicted: the CPU plug-in refuses them."""
    alike: bool
    """Whether HETERO's drawing has every operator in the predicted part."""
    found: int | None
    """Parts of the compiled model; none where it was not compiled, or refused."""
    refused: str


def main() -> int:
    """Run every trial and write the page; the exit code is 1 where a prediction was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only this model; may be repeated")
    parser.add_argument("--placements", type=int, default=15, help="compiled ones of each model (default: %(default)s)")
    parser.add_argument("--drawn", type=int, default=15, help="further ones that are drawn (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first placement (default: %(default)s)")
    parser.add_argument("--trials", type=Path, help="a file of trials, which is continued")
    parser.add_argument("--kept", action="store_true", help="take the trials of the file, and run none")
    parser.add_argument("--page", type=Path, help="where the page goes")
    options = parser.parse_args()
    kept = _kept(options.trials)
    trials = list(kept.values()) if options.kept else list(_run_all(options, kept))
    if options.page is not None:
        options.page.write_text(page(trials), encoding="utf-8")
    print(summary(trials))
    return int(any(map(_wrong, trials)))


def _run_all(options: argparse.Namespace, kept: Mapping[tuple[str, str, int], Trial]) -> Iterator[Trial]:
    """Yield every trial; keep those that are new in the file."""
    core = _two_devices()
    for name, reader in product(options.model or NAMES, READERS):
        for place in range(options.placements + options.drawn):
            seed = options.seed + place
            trial = kept.get((name, reader, seed)) or run(core, name, reader, seed, place < options.placements)
            if (name, reader, seed) not in kept and options.trials is not None:
                with options.trials.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(trial)) + "\n")
            if _wrong(trial):
                print(json.dumps(asdict(trial)), file=sys.stderr, flush=True)
            yield trial


def _kept(path: Path | None) -> dict[tuple[str, str, int], Trial]:
    if path is None or not path.exists():
        return {}
    trials = [Trial(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    trials.sort(key=lambda trial: (NAMES.index(trial.model), READERS.index(trial.reader), trial.seed))
    return {(trial.model, trial.reader, trial.seed): trial for trial in trials}


def _wrong(trial: Trial) -> bool:
    return not trial.alike or trial.found not in (None, trial.predicted) or (bool(trial.refused) and not trial.lost)


@cache
def _of_file(name: str) -> tuple[Graph, bytes]:
    file, shapes = FILES[name]
    path = models_root() / file
    graph = dovetail.normalize(dovetail.load_model(path, dovetail.LoadOptions(shapes=shapes)))
    plain = path.suffix == ".onnx" and not shapes and not is_quantized(graph)
    if is_quantized(graph):
        graph = dequantize(graph).graph
    return graph, path.read_bytes() if plain else to_onnx(graph).SerializeToString()


def model_of(name: str, seed: int) -> tuple[Graph, bytes]:
    """Return a model and its ONNX file; one that is generated is another for every seed."""
    if name in FILES:
        return _of_file(name)
    graph = shuffled_blocks(seed) if name == SHUFFLED else drawn_branches(seed)
    return graph, to_onnx(graph).SerializeToString()


def shuffled_blocks(seed: int, blocks: int = 6) -> Graph:
    """Return a network of ShuffleNet's kind: branches that are joined, and channels shuffled by Gather or Transpose."""
    net, rng = Network(seed), np.random.default_rng(seed)
    tensor = net.conv(net.input("x", 1, 3, 16, 16), 16, 3)
    for _ in range(blocks):
        left, right = net.split(tensor)
        for _ in range(int(rng.integers(1, 3))):
            right = net.op("Relu", net.conv(right, 8, int(rng.choice([1, 3]))))
        tensor = net.op("Concat", left, right, shape=(1, 16, 16, 16), axis=1)
        if rng.random() < 0.5:
            tensor = net.op("Gather", tensor, net.constant(rng.permutation(16)), shape=(1, 16, 16, 16), axis=1)
        else:
            apart = net.op("Reshape", tensor, net.constant([1, 2, 8, 16, 16]), shape=(1, 2, 8, 16, 16))
            turned = net.op("Transpose", apart, shape=(1, 8, 2, 16, 16), perm=(0, 2, 1, 3, 4))
            tensor = net.op("Reshape", turned, net.constant([1, 16, 16, 16]), shape=(1, 16, 16, 16))
    return net.graph(net.op("Sigmoid", tensor), name="shuffled")


def drawn_branches(seed: int) -> Graph:
    """Return a drawn network: any tensors are joined, inputs and constants are shared, some tensors are never read."""
    rng, net = random.Random(seed), Network(seed)
    shape = (1, 4)
    tensors = [net.input(name, *shape) for name in "pqr"[: rng.randint(1, 3)]]
    shared = [net.uniform(*shape) for _ in range(rng.randint(1, 3))]
    read: set[str] = set()
    for _ in range(rng.randint(8, 40)):
        first = rng.choice(tensors[-rng.choice((2, 4, 40)) :])
        kind = rng.random()
        others = [rng.choice(shared if kind < 0.3 else tensors)] if kind < 0.7 else []
        read |= {first, *others}
        ins = rng.sample([first, *others], 1 + len(others))
        tensors.append(
            net.op(rng.choice(("Add", "Sub", "Mul") if others else ("Sigmoid", "Tanh", "Neg")), *ins, shape=shape)
        )
    last = [tensor for tensor in tensors if tensor not in read and tensor not in "pqr"]
    return net.graph(*last, name="branches")


def run(core: Any, name: str, reader: str, seed: int, compiling: bool) -> Trial:
    """Predict how HETERO cuts a model under a drawn placement, and have it cut, and compiled."""
    graph, content = model_of(name, seed)
    plan = random_plan(graph, seed)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        model = _read(core, reader, content, Path(folder))
        apply_affinities(model, graph, plan, DEVICES if compiling else ABSENT)
        predicted = predict_parts(model, read_affinities(model))
        lost = weights_without_shape(model, predicted)
        found, refused = None, ""
        with chdir(folder):
            try:
                found = count_submodels(core.compile_model(model, "HETERO:CPUA,CPUB"))
            except RuntimeError as error:
                if compiling or ABSENT["cpu"][:-1] not in str(error):
                    refused = " ".join(str(error).split())[-200:]
            alike = _alike(model, predicted, _drawing(Path(folder)))
    return Trial(
        name, len(graph.nodes), reader, seed, predicted.count, predicted.sure, len(lost), alike, found, refused
    )


def _drawing(folder: Path) -> Mapping[str, str]:
    """Return the part of every operator that HETERO drew, by friendly name."""
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("hetero_subgraphs_*.dot"))
    return {match["name"]: match["part"] for match in _DRAWN.finditer(text)}


def _alike(model: Any, predicted: HeteroPrediction, drawn: Mapping[str, str]) -> bool:
    """Return whether the same operators are together."""
    both = [
        (part, drawn.get(op.get_friendly_name(), ""))
        for op, part in zip(model.get_ordered_ops(), predicted.parts, strict=True)
        if op.get_type_name() not in _CLONED
    ]
    pairs = set(both)
    ours, theirs = ({pair[side] for pair in pairs} for side in (0, 1))
    return "" not in theirs and len(pairs) == len(ours) == len(theirs)


def random_plan(graph: Graph, seed: int) -> Plan:
    """Return a placement: a drawn share of the nodes, alone or in runs, on the second device."""
    rng = random.Random(seed)
    share, length = rng.uniform(0.02, 0.6), rng.choice((1, 1, 3, 10))
    chosen: set[str] = set()
    for index in range(0, len(graph.nodes), length):
        if rng.random() < share:
            chosen.update(node.name for node in graph.nodes[index : index + length])
    host = parse_placement("cpu@fp32")
    return Plan(
        graph.digest, parse_placement("vsi:v853@fp32"), {name: Override(host, f"seed {seed}") for name in chosen}
    )


def _read(core: Any, reader: str, content: bytes, folder: Path) -> Any:
    if reader == "read_model":
        return core.read_model(content)
    path = folder / "model.onnx"
    path.write_bytes(content)
    return openvino.convert_model(path)


def _two_devices() -> Any:
    os.environ[_DRAW] = "YES"
    core = openvino.Core()
    plugin = next(Path(openvino.__file__).parent.rglob("*openvino_intel_cpu_plugin.*"))
    for name in DEVICES.values():
        core.register_plugin(str(plugin), name)
        # Hundreds of parts, none of which is run.
        core.set_property(name, {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1})
    return core


@dataclass(frozen=True, slots=True)
class Tally:
    """Trials that were compiled, and those of them that went as predicted."""

    compiled: int
    right: int
    refused: int
    foreseen: int
    drawn: int
    alike: int

    @classmethod
    def of(cls, trials: Sequence[Trial], keep: Callable[[Trial], bool] = lambda _: True) -> Tally:
        """Count the trials that are kept."""
        mine = [trial for trial in trials if keep(trial)]
        compiled = [trial for trial in mine if trial.found is not None]
        refused = [trial for trial in mine if trial.refused]
        return cls(
            len(compiled),
            sum(trial.found == trial.predicted for trial in compiled),
            len(refused),
            sum(trial.lost > 0 for trial in refused),
            len(mine),
            sum(trial.alike for trial in mine),
        )


def _share(hits: int, trials: int) -> str:
    if not trials:
        return "none"
    low, high = (100 * side for side in clopper_pearson(hits, trials))
    return f"{hits} of {trials} ({low:.1f} to {high:.1f} %)"


def summary(trials: Sequence[Trial]) -> str:
    """Return the sentences above the table."""
    whole = Tally.of(trials)
    back = Tally.of(trials, lambda trial: not trial.sure)
    told = [trial for trial in trials if trial.lost and (trial.refused or trial.found is not None)]
    return (
        f"Compiled models with the predicted number of parts, with the 95 % interval of Clopper and Pearson:"
        f" {_share(whole.right, whole.compiled)}."
        f" Every operator in the predicted part, in HETERO's own drawing: {_share(whole.alike, whole.drawn)}; where"
        f" data comes back to a part that it left, so that older versions of OpenVINO may differ,"
        f" {_share(back.alike, back.drawn)}."
        f" OpenVINO refused {whole.refused} of the compiled ones; `weights_without_shape` had foreseen"
        f" {whole.foreseen} of them, and refusals of {sum(not trial.refused for trial in told)} that were compiled."
    )


def page(trials: Sequence[Trial]) -> str:
    """Return the page."""
    seeds = sorted({trial.seed for trial in trials})
    lines = [
        "# How OpenVINO's HETERO cuts models",
        "",
        f"Made by `python benchmarks/hetero_table.py --seed {seeds[0]} --page docs/reference/hetero.md`; do not edit."
        f" The models are `examples/digits` and a collection that is not part of this repository; {SHUFFLED} and"
        f" {BRANCHES} are generated, another model for every seed.",
        "",
        *machine.facts(("dovetail", "openvino", "numpy")),
        "",
        f"Random placements with seeds from {seeds[0]} to {seeds[-1]}; the table says how many were compiled: a"
        " drawn share of the nodes (2 to 60 %), alone or in runs of 3 or 10, on the second of two devices."
        " `apply_affinities` puts them into the model, and `predict_parts` says into which parts HETERO will cut it."
        " HETERO compiles it with the CPU plug-in under two names, and draws in which part every operator is. The rule"
        " follows OpenVINO's public sources; nothing of it was chosen on these seeds.",
        "",
        summary(trials),
        "",
        markdown(_HEADS, list(_cells(trials))),
    ]
    return "\n".join(lines) + "\n"


def _cells(trials: Sequence[Trial]) -> Iterator[tuple[str, ...]]:
    for name, reader in dict.fromkeys((trial.model, trial.reader) for trial in trials):
        mine = [trial for trial in trials if (trial.model, trial.reader) == (name, reader)]
        tally, counts, nodes = Tally.of(mine), [one.predicted for one in mine], sorted({one.nodes for one in mine})
        yield (
            name,
            str(nodes[0]) if len(nodes) == 1 else f"{nodes[0]} to {nodes[-1]}",
            f"`{reader}`",
            f"{min(counts)} to {max(counts)}",
            f"{tally.right} of {tally.compiled}",
            f"{tally.refused}, {tally.foreseen} foreseen" if tally.refused else "none",
            f"{tally.alike} of {tally.drawn}",
        )


if __name__ == "__main__":
    sys.exit(main())

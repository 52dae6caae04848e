"""What VeriSilicon's performance model says of MobileNetV1 1.0 at 224: `python benchmarks/vendor_model.py`.

Weights are seeded, for the model compresses them; ranges are stated. Needs the SDK; nothing is run.
"""

from __future__ import annotations

import argparse

import dovetail
from dovetail.backend.modelled import BoardSettings
from dovetail.cost import ModelRequest, model_plan
from zoo.mobilenet import mobilenet_v1

MEASURED_MS = 6.42
"""On the A311D of a Khadas VIM3 with the TFLite delegate: VeriSilicon/TIM-VX issue 121."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="vsi:a311d,vsi:imx8mp,vsi:v853")
    parser.add_argument("--precisions", default="u8,i8,i16,i8pc")
    parser.add_argument("--clock-mhz", type=float, default=None)
    asked = parser.parse_args()
    graph = dovetail.normalize(mobilenet_v1())
    cpu = dovetail.parse_placement("cpu@fp32")
    print("| target | precision | ms | MHz | on shaders by our model |\n| --- | --- | --- | --- | --- |")
    for target in asked.targets.split(","):
        for precision in asked.precisions.split(","):
            place = dovetail.parse_placement(f"{target}@{precision}")
            targets = {name: dovetail.find_target(name) for name in (target, "cpu")}
            plan = dovetail.make_plan(graph, dovetail.Recipe(place, (cpu,)), targets)
            request = ModelRequest({target: BoardSettings(clock_mhz=asked.clock_mhz)})
            parts = model_plan(graph, plan, request)
            total = sum(part.latency_ns for part in parts) / 1e6
            stated = sum(row.stated for part in parts for row in part.rows)
            print(f"| {target} | {precision} | {total:.2f} | {parts[0].clock_mhz:g} | {stated} |")
    print(f"\nMeasured on vsi:a311d at u8: {MEASURED_MS} ms.")


if __name__ == "__main__":
    main()

"""dovetail openvino apply: a plan's affinities in an IR of OpenVINO's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.format_options import ReplaceOption
from dovetail.cli.options import ModelVerb
from dovetail.cli.render import Screen
from dovetail.cli.texts import named_values
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DovetailError
from dovetail.files import check_ours, write_file

_ABOUT = '<?xml version="1.0"?>\n<!-- Dovetail: user_data "affinity" is the device of an operator. -->\n'


@dataclass(frozen=True, kw_only=True)
class OpenvinoApply(ModelVerb):
    """Write a model as OpenVINO's IR, with the device of every operator in it, and say how HETERO will cut it.

    OpenVINO keeps what a user says of operators, and takes no affinity from a file: a program that reads the IR calls
    dovetail.formats.openvino.restore_affinities(model) before it compiles the model for HETERO. Constants are folded,
    so that no cut falls into what computes shapes or weights. A target of OpenVINO's goes to the device it names, the
    CPU to CPU, and others to NPU. The exit code is 1 where a convolution would lose the shape of its weights.
    """

    model: Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model that the plan is for.")]
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan (dovetail plan).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the .xml goes; .bin beside it.")]
    device: Annotated[
        list[str],
        typer.Option("--device", metavar="TARGET=NAME", help="OpenVINO's device for a target; repeatable."),
    ] = field(default_factory=list)
    replace: ReplaceOption = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.openvino import device_names, write_ir
        from dovetail.report import Facts, Page, Tone

        weights = self.output.with_suffix(".bin")
        if self.output.suffix != ".xml":
            raise DovetailError(f"--output '{self.output}': an IR ends with .xml.", hint="For example net.xml.")
        if not self.replace:
            check_ours(self.output)
            if not self.output.exists():
                check_ours(weights)
        graph, plan = self.planned(self.plan)
        plan.check(graph)
        named = named_values("--device", self.device, "vsi:v853=GPU")
        made = write_ir(graph, plan, device_names(plan, named))
        write_file(weights, made.weights, replace=True)
        write_file(self.output, _ABOUT.encode() + made.xml.split(b"?>", 1)[-1].lstrip(), replace=True)
        counts = Counter(made.devices.values())
        parts, sure = made.prediction.count, made.prediction.sure
        device = f"HETERO:{','.join(made.order)}"
        rows = [
            ("files", f"{self.output} {weights}"),
            ("device", device),
            *((name, f"{count} operators") for name, count in counts.most_common()),
            ("parts", f"{parts}{'' if sure else ', if the installed version cuts as 2026.4 does'}"),
        ]
        document = {
            "files": [str(self.output), str(weights)],
            "plan": plan.digest,
            "device": device,
            "operators": dict(counts.most_common()),
            "parts": parts,
            "sure": sure,
            "refused": list(made.refused),
        }
        page = (Facts("", tuple(rows)),)
        if made.refused:
            names = ", ".join(made.refused[:8])
            verdict = f"FAIL: OpenVINO's CPU will refuse {len(made.refused)}, whose weights lose their shape: {names}."
            return Answer(document, Page(str(self.output), page, verdict, Tone.BAD), ExitCode.NO)
        return Answer(document, Page(str(self.output), page, "PASS: read back with every affinity.", Tone.GOOD))

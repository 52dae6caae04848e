"""dovetail acuity golden: what the float model gives, in the files that pegasus' inference dumps."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.options import DataVerb, ModelVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.files import new_folder, read_file

_SAMPLES = 1


@dataclass(frozen=True, kw_only=True)
class AcuityGolden(DataVerb, ModelVerb):
    """Write inputs and outputs of the float model as pegasus' inference dumps them: text, one value a line.

    Files are called iter_SAMPLE_LAYER_PORT_SIZES.tensor, as with --dtype float32. 'dovetail acuity compare' reads them,
    and so does what the vendor compares with.
    """

    network: Annotated[
        Path, typer.Option("--network", metavar="FILE", help="Network (X.json): files are called like its layers.")
    ]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.")]
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="Use the first N samples.")] = _SAMPLES

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.formats.acuity import golden_files, read_network
        from dovetail.quantize import load_float
        from dovetail.report import Facts, Page

        graph, network = self.graph(), read_network(read_file(self.network), str(self.network))
        samples = self.open(self.data, dovetail.specs_of(graph), limit=self.limit)
        names: list[str] = []
        with (
            closing(load_float(graph)) as model,
            new_folder(self.output, _is_ours) as draft,
            screen.progress("running", samples.count) as bar,
        ):
            for number, sample in enumerate(samples):
                made = model.run(sample.inputs)
                for name, content in golden_files(network, graph, number, sample.inputs, made):
                    (draft / name).write_bytes(content)
                    names.append(name)
                bar.advance(number + 1)
        document = {"folder": str(self.output), "files": names}
        facts = (("folder", str(self.output)), ("files", str(len(names))))
        return Answer(document, Page(f"Golden tensors of '{self.model.name}'", (Facts("", facts),)))


def _is_ours(folder: Path) -> bool:
    from dovetail.formats.acuity import parse_tensor_name

    return all(parse_tensor_name(path.name) is not None for path in folder.iterdir())

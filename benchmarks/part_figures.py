"""Ask VeriSilicon's simulator for the figures of every part that it knows: `python benchmarks/part_figures.py`.

Writes `figures.json` of the package. A part that the simulator's compiler cannot serve is left out and printed. Needs
the SDK; takes about ten minutes.
"""

from __future__ import annotations

import argparse

from dovetail.backends.verisilicon.driver.probe import probe_figures
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.parts.figures import FILE, PartFigures, figures_to_json
from dovetail.backends.verisilicon.parts.installed import simulated_profile
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.errors import DovetailError
from dovetail.ir.precision import Precision
from dovetail.sdk import find_verisilicon
from dovetail.sdk.parts import simulated_parts
from dovetail.testing.probing import questions


def main() -> None:
    """Ask about every part and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", help="ask about these alone, by the simulator's names")
    parser.add_argument("--print", action="store_true", help="print the file, and write none")
    given = parser.parse_args()
    settings = Settings(find_verisilicon().folder)
    question = next(questions((Precision.U8,), ("Conv",)))
    found: dict[str, PartFigures] = {}
    for name in given.parts or simulated_parts(settings.folder.sdk):
        profile = simulated_profile(f"vsi:{name}")
        assert profile is not None
        try:
            figures = probe_figures(part_of(profile), question, settings)
        except DovetailError as error:
            print(f"{name}: {error}", flush=True)
            continue
        if figures.macs_per_cycle:
            found[name] = figures
        else:
            print(f"{name}: it has no array", flush=True)
    text = figures_to_json(found, settings.folder.version)
    if given.print:
        print(text.decode())
    else:
        FILE.write_bytes(text)


if __name__ == "__main__":
    main()

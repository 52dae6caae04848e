"""The VeriSilicon parts that have a name here, and any other by the simulator's name or its product id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.backend.fitted import FittedPrices
from dovetail.backend.target import HardwareFacts
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.parts.figures import PartFigures, printed_figures
from dovetail.backends.verisilicon.parts.measured import measured_parts
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.backends.verisilicon.parts.prices import fitted_prices
from dovetail.backends.verisilicon.parts.rules import generation_profile
from dovetail.errors import DeviceNotFound
from dovetail.ir.precision import Precision

PREFIX = "vsi:"


@dataclass(frozen=True, slots=True)
class NamedPart:
    """One part: its name in plans and the simulator's name for it.

    `source` says who calls the chip by that name of the simulator.
    """

    name: str
    title: str
    generation: Generation
    sdk_name: str
    source: str


_V7, _8000, _9000 = Generation.V7, Generation.VIP8000, Generation.VIP9000

PARTS: tuple[NamedPart, ...] = (
    NamedPart(
        *("vsi:a311d", "Amlogic A311D (Khadas VIM3)", _V7, "VIPNANOQI_PID0X88"),
        "Khadas' documentation and conversion scripts for the VIM3",
    ),
    NamedPart(
        *("vsi:imx8mp", "NXP i.MX 8M Plus", _8000, "VIP8000NANOSI_PLUS_PID0X9F"),
        "NXP's galcore feature database (customer 0x9f) and VeriSilicon's TVM guide",
    ),
    NamedPart(
        *("vsi:v853", "Allwinner V853", _9000, "VIP9000PICO_PID0XEE"),
        "Allwinner's conversion scripts for V85x",
    ),
    NamedPart(
        *("vsi:s905d3", "Amlogic S905D3 (Khadas VIM3L)", Generation.V7_BYTES, "VIPPICO_V3_PID0X99"),
        "Khadas' documentation for the VIM3L and the vendor's driver drop of that name",
    ),
    NamedPart(
        *("vsi:rv1126", "Rockchip RV1109 and RV1126", _8000, "VIP8000NANOSI_PID0XB5"),
        "Rockchip's rknpu driver for these chips",
    ),
    NamedPart(
        *("vsi:rk1808", "Rockchip RK1808, RK1806 and RK3399Pro", _V7, "VIPNANOQ_PID0X82"),
        "Rockchip's rknpu driver for these chips",
    ),
    NamedPart(
        *("vsi:t527", "Allwinner T527, MR527 and A527", Generation.VIP9000_PLUS, "VIP9000NANOSI_PLUS_PID0X10000016"),
        "Allwinner's conversion scripts and the id that a board reports",
    ),
    NamedPart(
        *("vsi:a733", "Allwinner A733, T736 and T536", Generation.STREAM, "VIP9000NANODI_PLUS_PID0X1000003B"),
        "Allwinner's ai-sdk (v3) and the target id in its binary networks",
    ),
    NamedPart(
        *("vsi:stm32mp2", "ST STM32MP25", _V7, "GCNANOULTRA31_VIP2_PID0X15"),
        "etnaviv's feature row for ST (customer 0x15); inferred from the only part of that product id",
    ),
)
"""Every VeriSilicon target that has a name."""


_RAW = re.compile(r"(?:VIP|GCNANO)[A-Z0-9_]{1,60}_PID0X([0-9A-F]{1,8})")
_BY_PID = re.compile(r"pid=(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})")
_FIRST_8000, _FIRST_9000, _FIRST_PLUS = 0x8000, 0x8100, 0x9000
"""The first revisions of generations: those of the parts with a name here are 0x8002, 0x8303 and 0x9003."""
_ASSUMED = PartFigures("unknown", 2, 2, 64, 1, 1, 0, 128 << 10, 0, 1000, 3.8)


def _pid(sdk_name: str) -> int:
    found = _RAW.fullmatch(sdk_name)
    return int(found.group(1), 16) if found else 0


_FITTED = {
    Generation.V7: "vsi:a311d",
    Generation.V7_BYTES: "vsi:a311d",
    Generation.VIP8000: "vsi:imx8mp",
    Generation.VIP9000: "vsi:v853",
    Generation.VIP9000_PLUS: "vsi:t527",
    Generation.STREAM: "vsi:a733",
}
"""The part of each generation whose prices others of it have: what they take depends on their own cores and memory."""


def _prices(sdk_name: str, generation: Generation) -> FittedPrices | None:
    """Return the prices of a part, or those of another of its generation."""
    fitted, other = fitted_prices(), _FITTED[generation]
    found = fitted.get(next(part.sdk_name for part in PARTS if part.name == other))
    if sdk_name in fitted or found is None:
        return fitted.get(sdk_name)
    # An array for bytes alone leaves 16 bits to the shaders.
    bytes_alone = generation is Generation.V7_BYTES
    forms = {key: form for key, form in found.forms.items() if not (bytes_alone and key[1] is Precision.I16)}
    return FittedPrices(found.version, forms, other)


def _hardware(part: NamedPart, figures: PartFigures, source: str) -> HardwareFacts:
    return HardwareFacts(
        nn_cores=figures.nn_cores,
        macs_per_cycle=figures.macs_per_cycle,
        clock_hz=figures.clock_mhz * 1_000_000,
        ddr_bytes_per_cycle=figures.ddr_bytes_per_cycle,
        sram_bytes=figures.vip_sram_bytes,
        sdk_name=part.sdk_name,
        source=source,
        pid=_pid(part.sdk_name),
        tp_cores=figures.tp_cores,
        shader_cores=figures.shader_cores,
        axi_sram_bytes=figures.axi_sram_bytes,
        prices=_prices(part.sdk_name, part.generation),
    )


_PRINTED = "cores and memory as the vendor's simulator prints them; clock and bandwidth are its model's defaults"
_NOT_PROBED = "assumed: the simulator does not tell what this part is"


def _figures(sdk_name: str) -> PartFigures | None:
    measured = measured_parts().get(sdk_name)
    return measured.figures if measured else printed_figures().get(sdk_name)


def _profile(part: NamedPart) -> VsiProfile:
    known = _figures(part.sdk_name)
    figures, origin = (known, _PRINTED) if known else (_ASSUMED, _NOT_PROBED)
    hardware = _hardware(part, figures, f"{origin}; the part's name: {part.source}")
    return generation_profile(part.name, part.title, part.generation, hardware)


VSI_PROFILES: tuple[VsiProfile, ...] = tuple(_profile(part) for part in PARTS)
"""The profiles of all named parts."""


def vsi_profile(name: str, simulated: Sequence[str] = ()) -> VsiProfile | None:
    """Return the profile of a named part, of `vsi:` and a simulator's name, or of `vsi:pid=0x..`; None for others.

    `simulated` are the names that an installed simulator knows; without them only the parts of `PARTS` are known.
    Raises DeviceNotFound where a product id belongs to none or to several of them.
    """
    for profile in VSI_PROFILES:
        if profile.name == name:
            return profile
    if not name.startswith(PREFIX):
        return None
    rest, known = name.removeprefix(PREFIX), sorted({*simulated, *(part.sdk_name for part in PARTS)})
    by_pid = _BY_PID.fullmatch(rest)
    if by_pid is not None:
        return _unnamed(name, _with_pid(int(by_pid.group(1), 0), known, name))
    if rest in known:
        return _unnamed(name, rest)
    if _RAW.fullmatch(rest):
        raise DeviceNotFound(f"target '{name}': the installed simulator knows no such part.", hint=_LIST)
    return None


_LIST = "'dovetail sdk status' lists the parts of the installed SDK."


def _with_pid(pid: int, known: Sequence[str], name: str) -> str:
    ours = [part.sdk_name for part in PARTS if _pid(part.sdk_name) == pid]
    parts = ours or [one for one in known if _pid(one) == pid]
    if not parts:
        raise DeviceNotFound(f"target '{name}': no known part has this product id.", hint=_LIST)
    if len(parts) > 1:
        raise DeviceNotFound(
            f"target '{name}': {len(parts)} parts have this product id.",
            hint=f"Say which: {', '.join(PREFIX + one for one in parts)}.",
        )
    return parts[0]


def _unnamed(name: str, sdk_name: str) -> VsiProfile:
    """Return a part under another name: one of ours, or by the rules of its generation with assumed figures."""
    for part in PARTS:
        if part.sdk_name == sdk_name:
            return _profile(replace(part, name=name))
    return _profile(NamedPart(name, sdk_name, _generation(sdk_name), sdk_name, "the simulator's own"))


def _generation(sdk_name: str) -> Generation:
    """Return the generation that the chip's revision tells, or a name where no revision is known.

    The parts with a name here agree with it. Those with tables in the lanes have a stream processor (from 0x9100 on).
    """
    figures = _figures(sdk_name)
    if figures is None or not figures.revision:
        if sdk_name.startswith("VIP9"):
            return Generation.VIP9000
        return Generation.VIP8000 if sdk_name.startswith("VIP8") else Generation.V7
    if figures.lut_lanes:
        return Generation.STREAM
    if figures.revision >= _FIRST_PLUS:
        return Generation.VIP9000_PLUS
    if figures.revision >= _FIRST_9000:
        return Generation.VIP9000
    if figures.revision >= _FIRST_8000:
        return Generation.VIP8000
    return Generation.V7 if figures.nn_cores_16_bit else Generation.V7_BYTES

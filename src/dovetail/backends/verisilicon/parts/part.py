"""A part as lowering and driver see it, and the target that describes it to everybody else."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.backend.target import Target, TargetProfile
from dovetail.backends.verisilicon.parts.generation import CONVERTING, OLDEST, Generation
from dovetail.errors import CompileError
from dovetail.sdk.parts import part_pid


@dataclass(frozen=True, slots=True)
class VsiProfile(TargetProfile):
    """A VeriSilicon target: rules, and the generation of its engines."""

    generation: Generation = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Part:
    """What lowering must know of a part."""

    target: str
    """Dovetail's name of the part, for messages."""
    sdk_name: str
    """The simulator's name of the part."""
    pid: int
    """The product id."""
    generation: Generation
    """The engines."""
    wide_kernels: int = 15
    """Larger kernels keep the vendor's compiler busy for minutes."""
    wide_windows: int = 64
    """Poolings over more were not tried."""

    @property
    def converts_signed_bytes(self) -> bool:
        """Tell whether the array computes with unsigned bytes only."""
        return self.generation in CONVERTING

    @property
    def encodes_by_running(self) -> bool:
        """Tell whether weights come into a binary network only while the graph runs."""
        return self.generation in OLDEST


def profile_of(target: Target) -> VsiProfile:
    """Return a target as a VeriSilicon one; raise CompileError when it is not."""
    if not isinstance(target, VsiProfile):
        raise CompileError(f"{target.name}: not a part of VeriSilicon's.", hint="Choose one that begins with vsi:.")
    return target


def part_of(target: Target) -> Part:
    """Return the part of a target; raise CompileError when it is not VeriSilicon's."""
    profile = profile_of(target)
    name = "" if profile.hardware is None else profile.hardware.sdk_name
    return Part(profile.name, name, part_pid(name), profile.generation)

"""Projects: source code that a vendor's compiler and libraries turn into a program that runs one partition."""

from __future__ import annotations

from enum import Enum


class ProjectStyle(Enum):
    """Against which of a vendor's libraries a project is written."""

    OVXLIB = "ovxlib-project"
    TIMVX = "timvx-project"

    @property
    def title(self) -> str:
        """Return what the project is, in a few words."""
        library = {"ovxlib-project": "ovxlib", "timvx-project": "TIM-VX"}[self.value]
        return f"CMake project against VeriSilicon's {library}"

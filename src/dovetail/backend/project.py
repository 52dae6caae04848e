"""Projects: source code that a vendor's compiler and libraries turn into a program that runs one partition."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol, runtime_checkable

from dovetail.backend.target import Target
from dovetail.ir.graph import Graph


class ProjectStyle(Enum):
    """Say against which of a vendor's libraries a project is written."""

    OVXLIB = "ovxlib-project"
    TIMVX = "timvx-project"

    @property
    def title(self) -> str:
        """Return what the project is, in a few words."""
        library = {"ovxlib-project": "ovxlib", "timvx-project": "TIM-VX"}[self.value]
        return f"CMake project against VeriSilicon's {library}"


@runtime_checkable
class ProjectBackend(Protocol):
    """A backend that writes projects."""

    def write_project(
        self, graph: Graph, target: Target, style: ProjectStyle, labels: Mapping[str, str]
    ) -> Mapping[str, bytes]:
        """Return the files of a project by path below its folder; raise CompileError with the reason.

        `labels` gives inputs and outputs other names for people and files.
        """

"""Compile: PartitionedGraph -> Bundle, one backend per target."""

from dovetail.backend.containment import WorkerLimits
from dovetail.compile.binaries import vendor_files
from dovetail.compile.cache import BlobCache
from dovetail.compile.failing import named_error
from dovetail.compile.model import CompileRequest, Isolation, choose_backend, compile_model
from dovetail.compile.project import ProjectPart, ProjectSet, make_projects
from dovetail.compile.repair import Move, Repaired, RepairRequest, compile_repaired

__all__ = [
    "BlobCache",
    "CompileRequest",
    "Isolation",
    "Move",
    "ProjectPart",
    "ProjectSet",
    "RepairRequest",
    "Repaired",
    "WorkerLimits",
    "choose_backend",
    "compile_model",
    "compile_repaired",
    "make_projects",
    "named_error",
    "vendor_files",
]

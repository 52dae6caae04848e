"""Bundles: compiled partitions, plan and checksums in one directory (standard library and numpy only)."""

from dovetail.bundle.archive import export_bundle, import_bundle
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.bundle.directory import load_bundle, save_bundle

__all__ = [
    "Bundle",
    "CompiledPartition",
    "export_bundle",
    "import_bundle",
    "load_bundle",
    "save_bundle",
]

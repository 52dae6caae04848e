"""Bundles: compiled partitions, plan and checksums in one directory (standard library and numpy only)."""

from dovetail.bundle.archive import export_bundle, import_bundle
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.bundle.directory import (
    bundle_from_files,
    bundle_to_files,
    digest_bundle,
    load_bundle,
    restore_bundles,
    save_bundle,
)

__all__ = [
    "Bundle",
    "CompiledPartition",
    "bundle_from_files",
    "bundle_to_files",
    "digest_bundle",
    "export_bundle",
    "import_bundle",
    "load_bundle",
    "restore_bundles",
    "save_bundle",
]

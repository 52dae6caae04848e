"""A bill of materials (CycloneDX) for each wheel: what it ships and what it needs, with licences.

`python -m dovetail.kit.bill FOLDER`. Distributions are read from their wheels: what is in the bill is what was built.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import BundleError

if TYPE_CHECKING:
    from cyclonedx.model import HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License

_SUFFIX = ".cdx.json"
_LARGEST = 1 << 28


@dataclass(frozen=True, slots=True)
class ShippedWork:
    """Something in a wheel that is not only the project's own."""

    name: str
    files: str
    """Patterns of paths in the wheel, split by spaces."""
    licence: str
    """An SPDX expression."""
    source: str


SHIPPED: tuple[ShippedWork, ...] = (
    ShippedWork(
        "Optical Recognition of Handwritten Digits, adapted",
        "dovetail/examples/digits/*.npz",
        "CC-BY-4.0",
        "https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    ),
    ShippedWork(
        "Open Inference Protocol: names and numbers of its messages",
        "dovetail/oip/open_inference.proto dovetail/oip/messages.desc",
        "Apache-2.0",
        "https://github.com/kserve/open-inference-protocol",
    ),
)
"""All such works; everything else in a wheel is the project's own, under its licence."""


def write_bills(folder: Path) -> list[Path]:
    """Write the bill of every wheel of a folder beside it, and return their paths.

    Raises BundleError where there is no wheel, one cannot be read, or the library that writes bills is missing.
    """
    try:
        from cyclonedx.output.json import JsonV1Dot6
    except ImportError as error:
        hint = "pip install 'dovetail[release]'."
        raise BundleError("the package cyclonedx-python-lib is not installed.", hint=hint) from error
    wheels = sorted(folder.glob("dovetail*.whl"))
    if not wheels:
        raise BundleError(f"{folder}: no wheel of Dovetail.", hint="Run 'make dist'.")
    written = []
    for wheel in wheels:
        path = wheel.with_suffix(_SUFFIX)
        text = JsonV1Dot6(bill_of(wheel)).output_as_string(indent=1)
        path.write_text(text + "\n", encoding="utf-8")
        written.append(path)
    return written


def bill_of(wheel: Path) -> Bom:
    """Return the bill of a wheel; raise BundleError where it cannot be read."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.bom_ref import BomRef
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    told, names, digest = _read(wheel)
    bill = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, digest), version=1)
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    bill.metadata.timestamp = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    name, version = told["Name"], told["Version"]
    root = Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=BomRef(f"{name}=={version}"),
        purl=PackageURL("pypi", None, name, version),
        licenses=_licences(told),
        description=told["Summary"],
        hashes=_hashes(digest),
    )
    bill.metadata.component = root
    parts = [*_shipped(names), *_needed(told)]
    for part in parts:
        bill.components.add(part)
    bill.register_dependency(root, parts)
    return bill


def _read(wheel: Path) -> tuple[Message, list[str], str]:
    """Return the metadata of a wheel, the paths in it, and the SHA-256 of the file."""
    try:
        content = wheel.read_bytes()
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (place,) = [name for name in names if name.endswith(".dist-info/METADATA")]
            if archive.getinfo(place).file_size > _LARGEST:
                raise BundleError(f"{wheel}: its metadata is too large.")
            told = BytesParser().parsebytes(archive.read(place))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BundleError(f"{wheel}: not a wheel: {error}.", hint="Run 'make dist'.") from error
    return told, names, hashlib.sha256(content).hexdigest()


def _shipped(names: list[str]) -> Iterator[Component]:
    from cyclonedx.model import ExternalReference, ExternalReferenceType, Property, XsUri
    from cyclonedx.model.bom_ref import BomRef
    from cyclonedx.model.component import Component, ComponentType

    for work in SHIPPED:
        files = [name for name in names if any(fnmatchcase(name, one) for one in work.files.split())]
        if files:
            yield Component(
                name=work.name,
                type=ComponentType.DATA,
                bom_ref=BomRef(work.files),
                licenses=[_licence(work.licence)],
                external_references=[
                    ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(work.source))
                ],
                properties=[Property(name="dovetail:file", value=name) for name in files],
            )


def _needed(told: Message) -> Iterator[Component]:
    """Yield what a distribution asks an installer for: always, or with an extra."""
    from cyclonedx.model import Property
    from cyclonedx.model.bom_ref import BomRef
    from cyclonedx.model.component import Component, ComponentScope, ComponentType
    from packageurl import PackageURL
    from packaging.requirements import Requirement

    needs: dict[str, list[Requirement]] = {}
    for line in told.get_all("Requires-Dist") or []:
        found = Requirement(line)
        needs.setdefault(found.name.lower(), []).append(found)
    for name, asked in sorted(needs.items()):
        if name == told["Name"]:  # An extra that has others in it.
            continue
        always = [one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
        here = _installed(name)
        yield Component(
            name=name,
            type=ComponentType.LIBRARY,
            bom_ref=BomRef(name),
            purl=PackageURL("pypi", None, name),
            scope=ComponentScope.REQUIRED if always else ComponentScope.OPTIONAL,
            licenses=_licences(here) if here is not None else [],
            properties=[Property(name="dovetail:requires", value=str(one)) for one in asked],
        )


def _installed(name: str) -> metadata.PackageMetadata | None:
    try:
        return metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None


def _licences(told: Message | metadata.PackageMetadata) -> list[License]:
    """Return the licence that a distribution states: as an expression, a class or a line."""
    said = str(next(iter(told.get_all("License-Expression") or []), ""))
    if not said:
        classes = [text.split(" :: ")[-1] for text in told.get_all("Classifier") or [] if text.startswith("License ::")]
        line = str(next(iter(told.get_all("License") or []), "")).strip()
        said = line if line and "\n" not in line and len(line) < 100 else " AND ".join(classes)
    return [_licence(said)] if said else []


_SPELLED: Mapping[str, str] = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
}


def _licence(text: str) -> License:
    from cyclonedx.contrib.license.factories import LicenseFactory

    return LicenseFactory().make_from_string(_SPELLED.get(text, text))


def _hashes(digest: str) -> list[HashType]:
    from cyclonedx.model import HashAlgorithm, HashType

    return [HashType(alg=HashAlgorithm.SHA_256, content=digest)]


if __name__ == "__main__":
    for made in write_bills(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")):
        sys.stdout.write(f"{made}\n")

"""What a converter is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dovetail.importers.tflite.site import Site

Converter = Callable[[Site], None]
Converters = Mapping[str, Converter]

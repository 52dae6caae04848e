"""TensorFlow Lite's converter: `denylisted_nodes` of its `QuantizationDebugOptions`, as JSON."""

from __future__ import annotations

from dovetail.formats.binding import bind_tensors
from dovetail.formats.entries import EntryFormat
from dovetail.formats.litert.operators import bind_file
from dovetail.formats.others.name_list import NameList
from dovetail.formats.words import skip_list

_LIST = NameList("a denylist", "denylisted_nodes", "denylisted_ops", "denylisted")
FORMAT = EntryFormat(
    name="tflite",
    title="TensorFlow Lite: denylist",
    pattern="*denylist*.json",
    granularity="output tensor of an operator",
    vocabulary=skip_list(_LIST.word),
    bind=bind_tensors,
    bind_listing=bind_file,
    listed=".tflite",
    encode=_LIST.encode,
    decode=_LIST.decode,
)

"""ExecuTorch: `skip_node_id_set` of the Qualcomm partitioner and its like, as JSON.

The argument itself is a set of names: `skip_node_id_set=set(document["skip_node_id_set"])`.
"""

from __future__ import annotations

from dovetail.formats.binding import bind_sources
from dovetail.formats.entries import EntryFormat
from dovetail.formats.others.name_list import NameList
from dovetail.formats.spelling import Side
from dovetail.formats.words import skip_list

_LIST = NameList("a skip list", "skip_node_id_set", "skip_node_op_set", "skip")
FORMAT = EntryFormat(
    name="executorch",
    title="ExecuTorch: skip list",
    pattern="*skip*.json",
    granularity="node of the exported program",
    vocabulary=skip_list(_LIST.word, Side.CPU),
    bind=bind_sources,
    encode=_LIST.encode,
    decode=_LIST.decode,
)

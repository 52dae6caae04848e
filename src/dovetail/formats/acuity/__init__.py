"""Acuity (pegasus): `.quantize` tables, network files, inputmeta, golden tensors and their comparison."""

from dovetail.formats.acuity.inputmeta import InputPort, lint_inputmeta, read_inputmeta, write_inputmeta
from dovetail.formats.acuity.network import AcuityLayer, AcuityNetwork, read_network
from dovetail.formats.acuity.similarity import Similarity, compare_files, compare_folders, similarity
from dovetail.formats.acuity.table import QuantizeTable, TensorParameters, read_table, write_table
from dovetail.formats.acuity.tensors import TensorFile, parse_tensor_name, read_tensor_file, tensor_file_name

__all__ = [
    "AcuityLayer",
    "AcuityNetwork",
    "InputPort",
    "QuantizeTable",
    "Similarity",
    "TensorFile",
    "TensorParameters",
    "compare_files",
    "compare_folders",
    "lint_inputmeta",
    "parse_tensor_name",
    "read_inputmeta",
    "read_network",
    "read_table",
    "read_tensor_file",
    "similarity",
    "tensor_file_name",
    "write_inputmeta",
    "write_table",
]

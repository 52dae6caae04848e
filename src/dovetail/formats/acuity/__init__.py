"""Acuity (pegasus): `.quantize` tables, networks, inputmeta and postprocess files, golden tensors, their comparison."""

from dovetail.formats.acuity.beside import PixelScaling, golden_files, inputmeta_of, postprocess_of
from dovetail.formats.acuity.inputmeta import InputPort, lint_inputmeta, read_inputmeta, write_inputmeta
from dovetail.formats.acuity.network import AcuityLayer, AcuityNetwork, read_network
from dovetail.formats.acuity.postprocess import OutputPort, lint_postprocess, read_postprocess, write_postprocess
from dovetail.formats.acuity.similarity import Similarity, compare_files, compare_folders, similarity
from dovetail.formats.acuity.table import QuantizeTable, TensorParameters, read_table, write_table
from dovetail.formats.acuity.tensors import TensorFile, parse_tensor_name, read_tensor_file, tensor_file_name

__all__ = [
    "AcuityLayer",
    "AcuityNetwork",
    "InputPort",
    "OutputPort",
    "PixelScaling",
    "QuantizeTable",
    "Similarity",
    "TensorFile",
    "TensorParameters",
    "compare_files",
    "compare_folders",
    "golden_files",
    "inputmeta_of",
    "lint_inputmeta",
    "lint_postprocess",
    "parse_tensor_name",
    "postprocess_of",
    "read_inputmeta",
    "read_network",
    "read_postprocess",
    "read_table",
    "read_tensor_file",
    "similarity",
    "tensor_file_name",
    "write_inputmeta",
    "write_postprocess",
    "write_table",
]

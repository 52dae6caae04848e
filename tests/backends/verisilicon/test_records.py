"""Performance records: what is read from the vendor's text, and whose they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.driver.records import owners, read_perf

HEAD = "noise: 1\nArchModelVersion: ARCHCTS@235166\nNumNNCores:8\nDDRTotalBandWidthLimit: 3.80\nFreqInMHZ: 1000\n"


def record(layer: int, uid: int, number: int, cycles: int, engine: str = "NN", operation: str = "CONVOLUTION") -> str:
    """Return a record as the vendor prints it, shortened."""
    return (
        "===========================\n**********Show Perf********\n===========================\n"
        f"layer_id:{layer} layer_name:ConvolutionReluPoolingLayer2\n"
        f"operation_id:0 operation_name:VXNNE_OPERATOR_{operation} operation_target:VXNNE_OPERATION_TARGET_{engine}\n"
        f"abs_op_id:{number}\nuid:{uid}\nupstream_layer_num:1 upstream_opertaion_num:1\n"
        "0) upstream_operation_id:7 uptream_operation_name:VXNNE_OPERATOR_POOLING (upstream_layer_id:9 upstream)\n"
        "OutImageX: 64 (sub: 64)\nSrcBuf: DDR\nDstBuf: VIP_SRAM\nKernelBuf: DDR\nKernelCacheMode=NONE\n"
        f"ReadBW: 100\nWriteBW: 20\nCycleCount: {cycles}\n\n===\n"
        "**********Show Perf End********\n===\nTotalTPCores: 4\n"
    )


def test_fields_are_read() -> None:
    perf = read_perf(HEAD + record(3, 5, 0, 1234, "TP", "TENSOR_TRANS"))
    (one,) = perf.records
    assert (one.layer, one.uid, one.operation, one.engine, one.cycles) == (3, 5, "tensor_trans", Engine.TP, 1234)
    assert (one.read_bytes, one.write_bytes, one.buffers) == (100, 20, ("DDR", "VIP_SRAM", "DDR"))
    assert (perf.facts["NumNNCores"], perf.facts["FreqInMHZ"], "noise" in perf.facts) == ("8", "1000", False)


def test_a_repeated_print_counts_once_and_equal_tiles_count_each() -> None:
    twice = record(0, 0, 0, 10, "TP", "ACTIVATION") * 2
    assert [item.cycles for item in read_perf(HEAD + twice).records] == [10]
    tiles = record(0, 0, 0, 10) * 2
    assert [item.cycles for item in read_perf(HEAD + tiles).records] == [10, 10]


def test_numbers_without_a_record_are_counted() -> None:
    perf = read_perf(HEAD + record(0, 0, 0, 1) + record(1, 2, 3, 1))
    assert perf.missing == 2
    assert read_perf("no records here").records == ()


def test_what_the_vendor_added_belongs_to_the_operator_that_it_serves() -> None:
    log = HEAD + "".join(
        [
            record(0, 30000, 0, 1, "SH", "CONVERT_FORMAT"),  # before operator 1
            record(2, -1, 1, 1, "SH", "RESHUFFLE"),  # in the layer of operator 1
            record(2, 1, 2, 1),
            record(4, -1, 3, 1, operation="FULLYCONNECTED"),  # operator 3, whose reader 4 is a reshape
            record(5, 5, 4, 1, "SH", "SOFTMAX"),
            record(6, -1, 5, 1, "SH", "CONVERT_FORMAT"),  # after the last
        ]
    )
    kinds = ("conv2d", "relu", "relu", "fully_connected", "reshape", "softmax")
    assert owners(read_perf(log).records, kinds) == (1, 1, 1, 3, 5, 5)


def test_damaged_records_are_value_errors() -> None:
    for text in (record(0, 0, 0, 1).replace("CycleCount", "Cycles"), record(0, 0, 0, 1).replace("uid:0", "uid:x")):
        with pytest.raises(ValueError, match=r"record|invalid"):
            read_perf(HEAD + text)


@given(st.text(), st.lists(st.sampled_from(["**********Show Perf********", "CycleCount: 3", "uid:1", "\n", "a:b"])))
def test_any_text_is_read_or_a_value_error(text: str, parts: list[str]) -> None:
    try:
        read_perf(text + "\n".join(parts))
    except ValueError:
        return


def test_the_last_multiplication_without_a_name_is_the_last_operator() -> None:
    log = HEAD + record(0, 0, 0, 10) + record(1, 2, 1, 20) + record(2, -1, 2, 30)
    kinds = ("conv2d", "fully_connected", "relu", "fully_connected")
    assert owners(read_perf(log).records, kinds) == (0, 2, 3)

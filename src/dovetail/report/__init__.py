"""Reports: records of what was found, and pages that show them."""

from dovetail.report.board import BoardFigures, BoardPart, BoardShare, board_block
from dovetail.report.comparison import comparison_page, verdicts_page
from dovetail.report.cost import (
    choices_page,
    modelled_blocks,
    modelled_document,
    plan_cost_document,
    plan_cost_page,
    unit_document,
)
from dovetail.report.decisions import decision_table, differing_table
from dovetail.report.differences import (
    MOST_SHOWN,
    DecidedSample,
    decided_samples,
    differing_pictures,
    differing_rows,
    differing_samples,
    pictures_block,
)
from dovetail.report.healing import healing_block
from dovetail.report.html import page_html
from dovetail.report.judgement import judgement_document, judgement_page
from dovetail.report.layout import partition_table, report_page
from dovetail.report.make import make_report, partition_rows
from dovetail.report.model import ModelFinding, ModelSummary, describe_graph, model_page
from dovetail.report.outputs import output_rows, output_table
from dovetail.report.page import Block, Column, Facts, Page, Picture, Pictures, Prose, Table, Tone
from dovetail.report.record import DifferingSample, OutputRow, PartitionRow, PlanSummary, Report
from dovetail.report.serial import json_text, plain_data, report_document, report_to_json
from dovetail.report.text import WIDTH, page_pieces, page_text, printable, shorten
from dovetail.report.verification import verification_document, verification_page

__all__ = [
    "MOST_SHOWN",
    "WIDTH",
    "Block",
    "BoardFigures",
    "BoardPart",
    "BoardShare",
    "Column",
    "DecidedSample",
    "DifferingSample",
    "Facts",
    "ModelFinding",
    "ModelSummary",
    "OutputRow",
    "Page",
    "PartitionRow",
    "Picture",
    "Pictures",
    "PlanSummary",
    "Prose",
    "Report",
    "Table",
    "Tone",
    "board_block",
    "choices_page",
    "comparison_page",
    "decided_samples",
    "decision_table",
    "describe_graph",
    "differing_pictures",
    "differing_rows",
    "differing_samples",
    "differing_table",
    "healing_block",
    "json_text",
    "judgement_document",
    "judgement_page",
    "make_report",
    "model_page",
    "modelled_blocks",
    "modelled_document",
    "output_rows",
    "output_table",
    "page_html",
    "page_pieces",
    "page_text",
    "partition_rows",
    "partition_table",
    "pictures_block",
    "plain_data",
    "plan_cost_document",
    "plan_cost_page",
    "printable",
    "report_document",
    "report_page",
    "report_to_json",
    "shorten",
    "unit_document",
    "verdicts_page",
    "verification_document",
    "verification_page",
]

"""Blocks of what `dovetail run --verify` found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.bundle import Bundle
    from dovetail.compare.borders import BorderReport, Misplaced
    from dovetail.report.page import Table


def border_block(report: BorderReport) -> tuple[Table, Mapping[str, object]]:
    """Return the table of borders, and the same as plain data."""
    from dovetail.report.page import Table, flexible, left, right

    rows = tuple(
        (
            str(check.partition),
            check.target,
            check.tensor,
            "exact" if math.isinf(check.sqnr_db) and check.sqnr_db > 0 else f"{check.sqnr_db:.1f} dB",
            f"{check.least_db:.0f} dB",
            "yes" if check.passed else "NO",
        )
        for check in report.checks
    )
    first = report.first_deviation
    said = (
        "Every border is as near to the golden run as it has to be."
        if first is None
        else f"The first partition that deviates is {first.partition} ({first.target} on {first.device}): "
        f"'{first.tensor}' has {first.sqnr_db:.1f} dB."
    )
    columns = (right("#"), flexible("target"), flexible("tensor"), right("SQNR"), right("least"), left("passed"))
    document = {
        "borders": [
            {
                "tensor": check.tensor,
                "partition": check.partition,
                "target": check.target,
                "device": check.device,
                "sqnr_db": check.sqnr_db if math.isfinite(check.sqnr_db) else None,
                "least_db": check.least_db,
                "passed": check.passed,
            }
            for check in report.checks
        ],
        "unchecked": list(report.unchecked),
        "first_deviation": None if first is None else first.partition,
    }
    return Table("Borders against the golden run", columns, rows, said), document


def account_block(
    bundle: Bundle, told: Sequence[Mapping[str, str]], wrong: Sequence[Misplaced]
) -> tuple[Table, Mapping[str, object]]:
    """Return the table of what backends say they ran, and the same as plain data."""
    from dovetail.report.page import Table, flexible, right

    rows = tuple(
        (
            str(index),
            part.target,
            str(len(part.nodes)),
            str(len(account)) if account else "it does not say",
            str(sum(item.partition == index for item in wrong)),
        )
        for index, (part, account) in enumerate(zip(bundle.partitions, told, strict=True))
    )
    said = (
        "No backend ran anything elsewhere."
        if not wrong
        else f"Partition {wrong[0].partition} ran '{wrong[0].operator}' on {wrong[0].found}, not on {wrong[0].wanted}."
    )
    columns = (right("#"), flexible("target"), right("nodes"), right("operators it tells of"), right("elsewhere"))
    document = {
        "operators": [len(account) for account in told],
        "elsewhere": [
            {"partition": item.partition, "operator": item.operator, "wanted": item.wanted, "found": item.found}
            for item in wrong
        ],
    }
    return Table("The backends' own account", columns, rows, said), document

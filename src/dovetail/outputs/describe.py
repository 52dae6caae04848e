"""What is seen of a model's outputs, in words."""

from __future__ import annotations

from dovetail.outputs.view import HeadView, Kind, OutputsView

_MOST_NAMES = 3


def head_text(head: HeadView) -> str:
    """Return a head in a few words, such as `detection (yolox), 98 % sure`."""
    if head.kind is Kind.UNKNOWN:
        return "not recognised"
    family = f" ({head.family})" if head.family and head.family != head.kind.value else ""
    return f"{head.kind.value}{family}, {percent_text(head.confidence)} sure"


def names_text(head: HeadView) -> str:
    """Return the outputs of a head with their roles, the first few of many."""
    items = [f"'{name}' {role.value}" for name, role in head.roles.items()]
    rest = len(items) - _MOST_NAMES
    return ", ".join(items) if rest <= 0 else f"{', '.join(items[:_MOST_NAMES])} and {rest} more"


def view_text(view: OutputsView) -> str:
    """Return all that is seen in one line."""
    return "; ".join(f"{head_text(head)}: {names_text(head)}" for head in view.heads)


def percent_text(share: float) -> str:
    """Return a share of less than 1 as less than 100 %."""
    return f"{min(99, int(100 * share))} %"

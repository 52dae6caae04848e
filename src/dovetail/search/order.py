"""Orders of units: those first that are most likely to do harm."""

from __future__ import annotations

from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.sensitivity import measure_alone, samples_needed


def measured_order(context: SearchContext, ledger: Ledger) -> list[str]:
    """Return all units by what each does alone to the float model's outputs, then by the prior."""
    if ledger.sensitivities is None:
        context.listener.stage("quantise-one")
        evaluators = context.evaluators
        ledger.sensitivities = measure_alone(
            context.space, evaluators.fast, evaluators.search.indices, context.policy.sensitivity
        )
    noise = ledger.sensitivities
    return sorted(context.order, key=lambda unit: -noise[unit])


def affordable_order(context: SearchContext, ledger: Ledger) -> list[str]:
    """Return the measured order where it is known or takes little, else that of the prior."""
    policy = context.policy.sensitivity
    needed = samples_needed(context.space.graph, len(context.order), policy)
    if ledger.sensitivities is None and needed > policy.affordable * context.evaluators.search.sample_count:
        return list(context.order)
    return measured_order(context, ledger)

"""Load a model in ONNX Runtime as a plan says, and refuse it when the runtime places nodes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import PlanError
from dovetail.formats.onnxruntime.assignment import (
    CPU_PROVIDER,
    RECORD,
    Assignment,
    compare_assignment,
    require_providers,
)
from dovetail.formats.onnxruntime.layers import SETTING
from dovetail.ir.graph import Graph
from dovetail.plan.placement import HOST
from dovetail.plan.plan import Plan

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions


@dataclass(frozen=True)
class SessionRequest:
    """Who stands for the targets: `providers` maps a target to ONNX Runtime's name for an execution provider.

    `libraries` has the paths of plug-in providers by those names, `settings` the layer assignment that the format
    `onnxruntime-layers` writes. With `optimised` nodes are fused under new names, and those are not judged.
    """

    providers: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, Path] = field(default_factory=dict)
    settings: str = ""
    optimised: bool = False


def open_session(
    model: bytes, graph: Graph, plan: Plan, request: SessionRequest
) -> tuple[InferenceSession, Assignment]:
    """Return a session in which every node is where the plan says, and the runtime's report of it.

    Raises PlanError when a provider is missing, the model does not load, or a node is elsewhere: ONNX Runtime itself
    would go on without a word.
    """
    import onnxruntime

    providers = {HOST: CPU_PROVIDER, **request.providers}
    require_providers(plan, providers)
    order = [name for name in dict.fromkeys(providers[target] for target in plan.targets) if name != CPU_PROVIDER]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if request.optimised else level.ORT_DISABLE_ALL
    options.add_session_config_entry(RECORD, "1")
    if request.settings:
        options.add_session_config_entry(SETTING, request.settings)
    builtin = [name for name in order if not _attach(options, name, request.libraries)]
    # The CPU provider takes what is left, so it comes last; beside plug-ins it is there by itself.
    chosen = [*builtin, CPU_PROVIDER] if len(builtin) == len(order) else builtin
    try:
        # Otherwise a provider that fails is replaced by the CPU, here and again when it runs.
        session = onnxruntime.InferenceSession(model, options, providers=chosen, enable_fallback=0)
    except Exception as error:  # ONNX Runtime's own errors have no common type
        raise PlanError(
            f"ONNX Runtime does not load the model: {_first_line(error)}.", hint="Is it an ONNX file for it?"
        ) from error
    session.disable_fallback()
    return session, compare_assignment(session, graph, plan, providers)


def _attach(options: SessionOptions, name: str, libraries: Mapping[str, Path]) -> bool:
    """Add a plug-in provider to the options; return False for a built-in one, which is named to the session."""
    import onnxruntime

    library = libraries.get(name)
    if library is None:
        known = onnxruntime.get_available_providers()
        if name not in known:
            raise PlanError(
                f"ONNX Runtime here has no execution provider '{name}'.",
                hint=f"It has {', '.join(known)}; for a plug-in give its library.",
                option="library",
            )
        return False
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not devices:
        try:
            onnxruntime.register_execution_provider_library(name, str(library.resolve()))
        except Exception as error:  # ONNX Runtime's own errors have no common type
            raise PlanError(f"{library}: no plug-in of ONNX Runtime: {_first_line(error)}.") from error
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise PlanError(f"the plug-in {library} offers no device for '{name}' here.", hint="Is its driver installed?")
    options.add_provider_for_devices(devices[:1], {})
    return True


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].strip().rstrip(".")

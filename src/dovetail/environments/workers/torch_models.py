"""Convert PyTorch programs and TorchScript to ONNX.

Only torch.export.load and torch.jit.load open the file. The first reads tensors and JSON, and is held to pickles of
tensors by TORCH_FORCE_WEIGHTS_ONLY_LOAD; the second reads pickles with its own reader, which makes no Python objects.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT_OPSET = 17


def convert(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write model.onnx into the request's folder."""
    target = Path(request["folder"]) / "model.onnx"
    make = _program if request["kind"] == "program" else _script
    make(request, target, progress)
    return {"file": target.name}


def _program(request: dict[str, Any], target: Path, progress: Callable[[str, float], None]) -> None:
    import torch

    progress("reading the program", 0.2)
    program = torch.export.load(request["path"])
    progress("converting the program to ONNX", 0.5)
    # Without its optimiser the exporter keeps one operator for each of the program's, with the module it came from.
    made = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False)
    made.save(str(target), external_data=False)


def _script(request: dict[str, Any], target: Path, progress: Callable[[str, float], None]) -> None:
    import torch
    from wording import Refusal

    progress("reading TorchScript", 0.2)
    module = torch.jit.load(request["path"], map_location="cpu").eval()
    for part in filter(None, request["submodule"].split(".")):
        children = dict(module.named_children())
        if part not in children:
            known = ", ".join(children) or "none"
            raise Refusal(f"{request['label']}: there is no submodule '{part}' of {request['submodule']}: {known}.")
        module = children[part]
    names, values = [], []
    for argument in module.forward.schema.arguments[1:]:
        names.append(argument.name)
        if argument.name in request["shapes"]:
            values.append(_example(argument, request["shapes"][argument.name], request["label"]))
        elif not argument.has_default_value():
            raise Refusal(_what_to_give(request, module))
        else:
            names.pop()
            break
    progress("converting TorchScript to ONNX", 0.5)
    with torch.no_grad():
        torch.onnx.export(
            module, tuple(values), str(target), dynamo=False, opset_version=SCRIPT_OPSET, input_names=names
        )


def _example(argument: Any, shape: list[int], label: str) -> Any:
    import torch
    from wording import Refusal

    kind = str(argument.type)
    if kind == "Tensor":
        return torch.zeros(shape)
    raise Refusal(
        f"{label}: argument '{argument.name}' is of type {kind}, not a tensor; choose the part of the module that "
        "computes on tensors as its submodule, or export the model from Python with torch.export."
    )


def _what_to_give(request: dict[str, Any], module: Any) -> str:
    arguments = [f"{item.name}: {item.type}" for item in module.forward.schema.arguments[1:]]
    children = ", ".join(name for name, _ in module.named_children())
    return (
        f"{request['label']}: TorchScript does not say the shapes of its inputs ({', '.join(arguments)}): give each "
        f"a shape; or take a submodule ({children or 'it has none'})."
    )

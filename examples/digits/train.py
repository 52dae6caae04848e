"""Train the digit detector and write `digits.onnx`, `calib.npz` and `eval.npz` beside this file.

Needs PyTorch, scikit-learn and onnx (`pip install "dovetail[train]"`): some ten minutes on two CPU cores.
Every random choice is seeded; another PyTorch or CPU may still round otherwise and give other weights.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from canvas import Glyphs, Scenes, draw_scenes, shuffled_glyphs
from graph import write_graph
from imbalance import FloatArray, Imbalance, Kernel, channel_factors, rescale
from metric import OUTPUT, score
from network import ConvNorm, Detector, cosine_rate, decode_boxes, loss
from torch import Tensor, nn

GLYPH_SEED, TRAIN_SEED, CALIB_SEED, EVAL_SEED = 7, 1, 11, 13
TRAIN_GLYPHS, CALIB_GLYPHS = (0, 847), (847, 997)
EVAL_GLYPHS = (997, 1797)  # 800 digits, each drawn once: any split of the evaluation images shares none
IMBALANCES = (Imbalance("b2/expand", "b2/dw", 3.0), Imbalance("b4/dw", "b4/project", 3.4))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Say how long and how fast to train."""

    scenes: int = 48_000
    steps: int = 5_000
    batch: int = 64
    peak_rate: float = 3e-3


def fit(glyphs: Glyphs, schedule: Schedule) -> Detector:
    """Train a detector from scratch on canvases drawn from the glyphs."""
    torch.manual_seed(TRAIN_SEED)
    torch.use_deterministic_algorithms(True)
    scenes = draw_scenes(glyphs, schedule.scenes, TRAIN_SEED)
    images, labels, boxes = (torch.from_numpy(a) for a in (scenes.images, scenes.labels, scenes.boxes))
    network = Detector()
    optimiser = torch.optim.AdamW(network.parameters(), schedule.peak_rate, weight_decay=1e-3)
    order = torch.randperm(schedule.scenes)
    for step in range(schedule.steps):
        at = step * schedule.batch % schedule.scenes
        if at == 0:
            order = torch.randperm(schedule.scenes)
        for group in optimiser.param_groups:
            group["lr"] = cosine_rate(step, schedule.steps, schedule.peak_rate)
        pick = order[at : at + schedule.batch]
        batch = images[pick].float().contiguous(memory_format=torch.channels_last)
        value = loss(network(batch), labels[pick], boxes[pick])
        optimiser.zero_grad()
        torch.autograd.backward(value)
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimiser.step()
        if step % 500 == 0:
            print(f"step {step}: loss {value.item():.3f}", flush=True)
    network.eval()
    return network


def fold(network: Detector) -> dict[str, Kernel]:
    """Return every convolution with its norm folded in, by its ONNX name; the stem absorbs the 1/255."""
    kernels: dict[str, Kernel] = {}

    def add(name: str, weight: Tensor, bias: Tensor) -> None:
        kernels[name] = Kernel(weight.detach().contiguous().numpy().copy(), bias.detach().contiguous().numpy().copy())

    for path, module in network.named_modules():
        name = onnx_name(path)
        if isinstance(module, ConvNorm):
            weight, bias = module.folded()
            add(name, weight / 255.0 if path == "stem" else weight, bias)
        elif isinstance(module, nn.Conv2d) and "." not in path and module.bias is not None:
            add(name, module.weight, module.bias)
    return kernels


def onnx_name(path: str) -> str:
    """Turn a module's path into a node name: `blocks.b1.dw` -> `b1/dw`, `xy` -> `head/xy`."""
    if path == "stem":
        return "stem/conv"
    return path.removeprefix("blocks.").replace(".", "/") if "." in path else f"head/{path}"


def channel_peaks(network: Detector, scenes: Scenes) -> dict[str, FloatArray]:
    """Return the largest activation [C] of every channel of every folded convolution over the scenes."""
    peaks: dict[str, FloatArray] = {}
    names = {module: onnx_name(path) for path, module in network.named_modules()}

    def note(module: nn.Module, _inputs: object, y: Tensor) -> None:
        peaks[names[module]] = y.amax((0, 2, 3)).numpy()

    hooks = [module.register_forward_hook(note) for module in names if isinstance(module, ConvNorm)]
    with torch.no_grad():
        network(torch.from_numpy(scenes.images).float())
    for hook in hooks:
        hook.remove()
    return peaks


def float_score(network: Detector, scenes: Scenes) -> float:
    """Return the share of scenes that the trained network gets right, before any export."""
    with torch.no_grad():
        raw = network(torch.from_numpy(scenes.images).float())
        maps = torch.cat([decode_boxes(raw), torch.sigmoid(raw[:, 4:])], dim=1)
    rows = maps.flatten(2).transpose(1, 2).numpy()
    return float(score({OUTPUT: rows}, {"label": scenes.labels, "box": scenes.boxes}).mean())


def main() -> None:
    """Draw, train, fold, unbalance, and write the three files."""
    parser = argparse.ArgumentParser(description="Train the digit detector.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    out: Path = parser.parse_args().out
    torch.set_num_threads(2)
    glyphs = shuffled_glyphs(GLYPH_SEED)
    calib = draw_scenes(glyphs.part(*CALIB_GLYPHS), CALIB_GLYPHS[1] - CALIB_GLYPHS[0], CALIB_SEED)
    held = draw_scenes(glyphs.part(*EVAL_GLYPHS), EVAL_GLYPHS[1] - EVAL_GLYPHS[0], EVAL_SEED)
    network = fit(glyphs.part(*TRAIN_GLYPHS), Schedule())
    kernels, peaks = fold(network), channel_peaks(network, calib)
    for seed, pair in enumerate(IMBALANCES):
        kernels = rescale(kernels, pair, channel_factors(peaks[pair.first], pair.decades, seed))
    onnx.save(write_graph(kernels), out / "digits.onnx")
    np.savez_compressed(out / "calib.npz", images=calib.images)
    np.savez_compressed(out / "eval.npz", images=held.images, label=held.labels, box=held.boxes)
    print(f"float score on {len(held.labels)} images: {float_score(network, held):.4f}")


if __name__ == "__main__":
    main()

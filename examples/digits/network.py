"""Describe the digit detector in PyTorch, its training loss, and the folding of its batch norms."""

from __future__ import annotations

import math

import torch
from canvas import CANVAS_PX, CLASSES, FRAME_PX
from torch import Tensor, nn
from torch.nn import functional

STRIDE = 8
GRID = CANVAS_PX // STRIDE
CELL_PX = FRAME_PX / GRID
ANCHOR_PX = 256.0
BLOCKS = (  # name, input channels, expanded channels, output channels, stride
    ("b1", 16, 32, 16, 1),
    ("b2", 16, 48, 24, 2),
    ("b3", 24, 72, 24, 1),
    ("b4", 24, 72, 32, 2),
    ("b5", 32, 96, 32, 1),
    ("b6", 32, 96, 32, 1),
)


def eight_bit_noise(y: Tensor) -> Tensor:
    """Add the rounding noise of 8 bits per tensor, doubled, so that healthy layers stay healthy in 8 bits."""
    step = (y.detach().amax() - y.detach().amin()) / 255.0
    return y + (torch.rand_like(y) - 0.5) * (2.0 * step)


class ConvNorm(nn.Module):
    """Convolve without a bias, then normalise the batch, then rectify if asked."""

    def __init__(self, channels: tuple[int, int], kernel: int, stride: int, depthwise: bool, act: bool) -> None:
        super().__init__()
        groups = channels[0] if depthwise else 1
        self.conv = nn.Conv2d(*channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels[1])
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x))
        y = functional.relu(y) if self.act else y
        return eight_bit_noise(y) if self.training else y

    def folded(self) -> tuple[Tensor, Tensor]:
        """Return the weight and bias of the one convolution that equals conv + norm."""
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None  # BatchNorm2d tracks both unless told not to
        assert variance is not None
        factor = self.norm.weight / torch.sqrt(variance + self.norm.eps)
        bias = self.norm.bias - mean * factor
        return (self.conv.weight * factor[:, None, None, None]).detach(), bias.detach()


class Block(nn.Module):
    """Expand, filter each channel, project; add the input when the shape is kept."""

    def __init__(self, inner: int, mid: int, outer: int, stride: int) -> None:
        super().__init__()
        self.expand = ConvNorm((inner, mid), 1, 1, depthwise=False, act=True)
        self.dw = ConvNorm((mid, mid), 3, stride, depthwise=True, act=True)
        self.project = ConvNorm((mid, outer), 1, 1, depthwise=False, act=False)
        self.residual = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.dw(self.expand(x)))
        return x + y if self.residual else y


class Detector(nn.Module):
    """Map grey canvases [N, 1, 40, 40] in 0..255 to raw head maps [N, 15, 5, 5]: xy, wh, object, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm((1, 16), 3, 2, depthwise=False, act=True)
        self.blocks = nn.ModuleDict({name: Block(*shape) for name, *shape in BLOCKS})
        self.box = ConvNorm((32, 32), 3, 1, depthwise=False, act=True)
        self.cls = ConvNorm((32, 32), 3, 1, depthwise=False, act=True)
        self.xy = nn.Conv2d(32, 2, 1)
        self.wh = nn.Conv2d(32, 2, 1)
        self.score = nn.Conv2d(32, 1 + CLASSES, 1)
        assert self.score.bias is not None
        nn.init.constant_(self.score.bias, -3.0)  # a detector starts from "nothing here"

    def forward(self, images: Tensor) -> Tensor:
        y = self.stem(images / 255.0)
        for block in self.blocks.values():
            y = block(y)
        box = self.box(y)
        return torch.cat([self.xy(box), self.wh(box), self.score(self.cls(y))], dim=1)


def decode_boxes(raw: Tensor) -> Tensor:
    """Turn raw maps [N, >=4, 5, 5] into boxes [N, 4, 5, 5] (cx, cy, w, h) in frame pixels."""
    ticks = torch.arange(GRID, dtype=raw.dtype) - 0.5
    corner = torch.stack(torch.meshgrid(ticks, ticks, indexing="xy"))
    centre = (2.0 * torch.sigmoid(raw[:, :2]) + corner) * CELL_PX
    return torch.cat([centre, torch.exp(raw[:, 2:4].clamp(max=4.0)) * ANCHOR_PX], dim=1)


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union of boxes (cx, cy, w, h) along dimension 1."""
    low = torch.maximum(a[:, :2] - a[:, 2:4] / 2, b[:, :2] - b[:, 2:4] / 2)
    high = torch.minimum(a[:, :2] + a[:, 2:4] / 2, b[:, :2] + b[:, 2:4] / 2)
    inter = (high - low).clamp(min=0).prod(dim=1)
    return inter / (a[:, 2:4].prod(dim=1) + b[:, 2:4].prod(dim=1) - inter)


def loss(raw: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
    """Sum the object, class and box losses; the cells whose reach holds the centre are positive."""
    centres = (torch.arange(GRID, dtype=raw.dtype) + 0.5) * CELL_PX
    reach = 0.7 * CELL_PX
    near_x = (boxes[:, 0, None] - centres).abs() < reach
    near_y = (boxes[:, 1, None] - centres).abs() < reach
    positive = (near_y[:, :, None] & near_x[:, None, :]).float()
    share = positive / positive.sum(dim=(1, 2), keepdim=True)
    wanted = boxes[:, :, None, None].expand(-1, -1, GRID, GRID)
    iou = box_iou(decode_boxes(raw), wanted)
    scale = (raw[:, 2:4] - torch.log(wanted[:, 2:4] / ANCHOR_PX)).abs().sum(dim=1)
    classes = functional.one_hot(labels, CLASSES).float()[:, :, None, None].expand(-1, -1, GRID, GRID)
    sort = functional.binary_cross_entropy_with_logits(raw[:, 5:], classes, reduction="none").sum(dim=1)
    found = functional.binary_cross_entropy_with_logits(raw[:, 4], positive, reduction="none").sum(dim=(1, 2))
    located = ((2.0 * (1.0 - iou) + 0.3 * scale + sort) * share).sum(dim=(1, 2))
    return (located + 0.5 * found).mean()


def cosine_rate(step: int, steps: int, peak: float) -> float:
    """Return the learning rate: a short warm-up, then half a cosine down to 2 % of the peak."""
    warm = min(1.0, (step + 1) / (0.05 * steps))
    return peak * warm * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * step / steps)))

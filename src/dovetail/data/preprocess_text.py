"""Write a Preprocess as the TOML that `load_preprocess` reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.data.preprocess import Interpolation, Preprocess, PreprocessStep, StepKind


def preprocess_to_toml(preprocess: Preprocess, notes: Sequence[str] = ()) -> str:
    """Return the text of a preprocess file; notes become comments at its top."""
    lines = [f"# {note}" for note in notes]
    lines.append(f'channels = "{preprocess.channels.value}"')
    if preprocess.layout is not None:
        lines.append(f'layout = "{preprocess.layout.value}"')
    lines.append(f"mean = {_numbers(preprocess.mean)}")
    lines.append(f"scale = {_numbers(preprocess.scale)}")
    if preprocess.interpolation is not Interpolation.BILINEAR:
        lines.append(f'interpolation = "{preprocess.interpolation.value}"')
    for step in preprocess.steps:
        lines += ["", "[[step]]", *_step(step)]
    return "\n".join(lines) + "\n"


def _numbers(values: Sequence[float]) -> str:
    texts = [repr(float(value)) for value in values]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _step(step: PreprocessStep) -> Iterator[str]:
    yield f'kind = "{step.kind.value}"'
    yield f"size = [{step.height}, {step.width}]"
    if step.kind is StepKind.LETTERBOX:
        yield f"pad = {step.pad}"
        yield f'anchor = "{step.anchor.value}"'
    if step.interpolation is not None:
        yield f'interpolation = "{step.interpolation.value}"'

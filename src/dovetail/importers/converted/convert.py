"""Convert a recognised file in its environment, or take what was converted before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dovetail.environments import (
    ConversionJob,
    cache_key,
    find_converted,
    find_environment,
    keep_converted,
    make_environment,
    run_job,
)
from dovetail.errors import DovetailError, LoadError
from dovetail.importers.converted.names import restore_names
from dovetail.importers.converted.source import ConvertedSource
from dovetail.importers.options import LoadOptions


def convert(source: ConvertedSource, options: LoadOptions) -> Path:
    """Return the ONNX file that stands for a model, with the names of the source in it."""
    environment = find_environment(source.environment)
    question = {**source.request, "kind": source.kind}
    unplaced = {name: value for name, value in question.items() if name not in ("path", "network", "weights")}
    key = cache_key(environment, source.files, unplaced)
    found = find_converted(key)
    if found is not None:
        return found
    progress = options.conversion.progress
    try:
        state = make_environment(environment, progress)
    except DovetailError as error:
        raise LoadError(f"{source.path}: {error.message}", hint=error.hint) from error
    with tempfile.TemporaryDirectory(prefix="dovetail-convert-") as folder:
        job = ConversionJob(
            source.worker, {**question, "label": str(source.path)}, Path(folder), options.conversion.limit_s
        )
        answer = run_job(state, job, progress)
        model = Path(folder) / "model.onnx"
        if answer.get("file") != model.name or not model.is_file():
            raise LoadError(f"{source.path}: the converter of environment '{environment.name}' wrote nothing.")
        layers = answer.get("layers")
        restore_names(model, source, map(str, layers) if isinstance(layers, list) else ())
        progress("reading", 0.98)
        return keep_converted(key, model)

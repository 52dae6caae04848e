"""Where samples come from; streamed, in bounded memory."""

from __future__ import annotations

from dovetail.data.labels import LabelTable, load_labels
from dovetail.data.open_samples import open_samples
from dovetail.data.preprocess import Anchor, Channels, Interpolation, Layout, Preprocess, Step, StepKind
from dovetail.data.preprocess_file import load_preprocess
from dovetail.data.preprocess_text import preprocess_to_toml
from dovetail.data.sample import InputSpec, Sample, SampleSource
from dovetail.data.specs import specs_of
from dovetail.data.split import split
from dovetail.data.survey import PictureSurvey, survey_pictures

__all__ = [
    "Anchor",
    "Channels",
    "InputSpec",
    "Interpolation",
    "LabelTable",
    "Layout",
    "PictureSurvey",
    "Preprocess",
    "Sample",
    "SampleSource",
    "Step",
    "StepKind",
    "load_labels",
    "load_preprocess",
    "open_samples",
    "preprocess_to_toml",
    "specs_of",
    "split",
    "survey_pictures",
]

"""Where samples come from; streamed, in bounded memory."""

from __future__ import annotations

from dovetail.data.kept import KeptSamples, keep_samples
from dovetail.data.labels import LabelTable, load_labels
from dovetail.data.open_samples import DataKind, data_kind, open_samples
from dovetail.data.preprocess import Anchor, Channels, Interpolation, Layout, Preprocess, PreprocessStep, StepKind
from dovetail.data.preprocess_file import load_preprocess
from dovetail.data.preprocess_text import preprocess_to_toml
from dovetail.data.sample import InputSpec, Sample, SampleSource
from dovetail.data.specs import specs_of
from dovetail.data.split import SplitOptions, Splits, first_samples, split, split_samples
from dovetail.data.survey import PictureSurvey, survey_pictures

__all__ = [
    "Anchor",
    "Channels",
    "DataKind",
    "InputSpec",
    "Interpolation",
    "KeptSamples",
    "LabelTable",
    "Layout",
    "PictureSurvey",
    "Preprocess",
    "PreprocessStep",
    "Sample",
    "SampleSource",
    "SplitOptions",
    "Splits",
    "StepKind",
    "data_kind",
    "first_samples",
    "keep_samples",
    "load_labels",
    "load_preprocess",
    "open_samples",
    "preprocess_to_toml",
    "specs_of",
    "split",
    "split_samples",
    "survey_pictures",
]

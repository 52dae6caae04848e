"""Where samples come from; streamed, in bounded memory.

A board reads arrays only: what reads pictures and sound is loaded when it is asked for.
"""

import typing as _typing

from dovetail._lazy import exports as _exports

if _typing.TYPE_CHECKING:
    from dovetail.data.kept import KeptSamples as KeptSamples
    from dovetail.data.kept import keep_samples as keep_samples
    from dovetail.data.labels import LabelTable as LabelTable
    from dovetail.data.labels import load_labels as load_labels
    from dovetail.data.open_samples import DataKind as DataKind
    from dovetail.data.open_samples import data_kind as data_kind
    from dovetail.data.open_samples import open_samples as open_samples
    from dovetail.data.open_samples import samples_path as samples_path
    from dovetail.data.preprocess import Anchor as Anchor
    from dovetail.data.preprocess import Channels as Channels
    from dovetail.data.preprocess import Interpolation as Interpolation
    from dovetail.data.preprocess import Layout as Layout
    from dovetail.data.preprocess import Preprocess as Preprocess
    from dovetail.data.preprocess import PreprocessStep as PreprocessStep
    from dovetail.data.preprocess import StepKind as StepKind
    from dovetail.data.preprocess_file import load_preprocess as load_preprocess
    from dovetail.data.preprocess_text import preprocess_to_toml as preprocess_to_toml
    from dovetail.data.sample import InputSpec as InputSpec
    from dovetail.data.sample import Sample as Sample
    from dovetail.data.sample import SampleSource as SampleSource
    from dovetail.data.specs import specs_of as specs_of
    from dovetail.data.split import SplitOptions as SplitOptions
    from dovetail.data.split import Splits as Splits
    from dovetail.data.split import first_samples as first_samples
    from dovetail.data.split import split as split
    from dovetail.data.split import split_samples as split_samples
    from dovetail.data.survey import PictureSurvey as PictureSurvey
    from dovetail.data.survey import survey_pictures as survey_pictures

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = _exports(
        __name__,
        {
            "dovetail.data.kept": (
                "KeptSamples",
                "keep_samples",
            ),
            "dovetail.data.labels": (
                "LabelTable",
                "load_labels",
            ),
            "dovetail.data.open_samples": (
                "DataKind",
                "data_kind",
                "open_samples",
                "samples_path",
            ),
            "dovetail.data.preprocess": (
                "Anchor",
                "Channels",
                "Interpolation",
                "Layout",
                "Preprocess",
                "PreprocessStep",
                "StepKind",
            ),
            "dovetail.data.preprocess_file": ("load_preprocess",),
            "dovetail.data.preprocess_text": ("preprocess_to_toml",),
            "dovetail.data.sample": (
                "InputSpec",
                "Sample",
                "SampleSource",
            ),
            "dovetail.data.specs": ("specs_of",),
            "dovetail.data.split": (
                "SplitOptions",
                "Splits",
                "first_samples",
                "split",
                "split_samples",
            ),
            "dovetail.data.survey": (
                "PictureSurvey",
                "survey_pictures",
            ),
        },
    )

"""What a model wants of its pictures: stated by its file, or found by trying what is usual."""

from __future__ import annotations

from dovetail.inputs.propose import Proposal, Proposals, propose_preprocess
from dovetail.inputs.stated import InputTypes, Stated, stated_preprocess

__all__ = ["InputTypes", "Proposal", "Proposals", "Stated", "propose_preprocess", "stated_preprocess"]

"""Processors that Dovetail knows, as typed data."""

from dovetail.backend.profiles.vsi import VSI_PROFILES

__all__ = ["VSI_PROFILES"]

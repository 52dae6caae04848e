"""Processors that Dovetail knows, as typed data."""

from dovetail.backend.profiles.parts import VSI_PROFILES, vsi_profile

__all__ = ["VSI_PROFILES", "vsi_profile"]

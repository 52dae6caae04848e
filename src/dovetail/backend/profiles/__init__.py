"""Processors that Dovetail knows, as typed data."""

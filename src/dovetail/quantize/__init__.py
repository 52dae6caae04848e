"""Calibrated ranges and quantised graphs."""

"""Adapters that show collected models and data to Dovetail: preprocessing, labels and metrics; no policy."""

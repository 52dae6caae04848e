"""Fuzz targets: what reads bytes that come from elsewhere, with small corpora, and what counts as a finding."""

"""Decisions in the numbers that a model gives: boxes, masks, keypoints, text."""

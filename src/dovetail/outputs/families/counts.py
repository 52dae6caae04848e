"""Numbers that public data sets and models have: of classes, keypoints, symbols, bands."""

from __future__ import annotations

CLASSES = frozenset({2, 3, 5, 7, 10, 11, 12, 20, 30, 35, 37, 43, 50, 80, 100, 101, 102, 120, 200, 257})
"""Class counts of data sets; these also occur as numbers of other things."""
RARE_CLASSES = frozenset({365, 521, 527, 1000, 1001, 6000, 8631, 21841, 21843})
"""Class counts that little else has: Places, AudioSet, ImageNet, iNaturalist, VGGFace2."""
OBJECTS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 20, 21, 80, 81, 90, 91, 92, 365, 601})
"""Class counts of detectors, the background counted or not."""
MASKS = frozenset((*range(2, 9), 11, 12, 14, 18, 19, 20, 21, 32, 33, 34, 59, 60, 66, 133, 150, 151, 171, 182))
"""Class counts of segmentation."""
EMBEDDINGS = frozenset({64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048})
POINTS = frozenset({5, 14, 16, 17, 18, 21, 25, 26, 29, 33, 39, 68, 71, 98, 106, 133, 468, 478})
"""Keypoints of faces, hands and bodies."""
POINT_LISTS = frozenset({42, 63, 136, 196, 204, 212, 213, 266, 399, 1404, 1434})
"""Numbers of keypoints given as one list of two or three numbers each."""
SYMBOLS = frozenset((11, 27, 28, 29, 32, 36, 37, 38, 63, 64, 68, 76, *range(95, 99), 438, 5530, 6623, 6625, 18385))
"""Symbols, the blank included, of recognisers: digits, letters, plates, PP-OCR's dictionaries."""
WORD_LENGTHS = frozenset({24, 25, 26, 27, 30, 32})
"""Most symbols of a word, the end counted or not, that recognisers of words read."""
BANDS = frozenset((22, 24, 32, 33, 34, 40, 64, 65, 80, 96, 128, 129, 161, 201, 257, 320, 321, 481, 513, 1025))
"""Bands and bins of usual short-time spectra."""
QUERIES = frozenset({50, 100, 200, 300, 500, 900})

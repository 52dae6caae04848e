"""What is said of a folder of pictures before anything is run on it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dovetail.data import survey_pictures
from dovetail.errors import DataError


def save(folder, name, rows=20, cols=30, grey=False):
    shape = (rows, cols) if grey else (rows, cols, 3)
    Image.fromarray(np.full(shape, 90, np.uint8)).save(folder / name)


def test_a_good_folder_needs_no_word(tmp_path):
    for index in range(12):
        save(tmp_path, f"{index}.png")
    survey = survey_pictures(tmp_path)
    assert survey.notes == ()
    assert len(survey.pictures) == 12


def test_one_line_for_everything_that_matters(tmp_path):
    save(tmp_path, "a.png")
    save(tmp_path, "b.png", 40, 60)
    save(tmp_path, "c.png", grey=True)
    (tmp_path / "d.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    data = (tmp_path / "b.png").read_bytes()
    (tmp_path / "e.png").write_bytes(data[: len(data) // 2])
    survey = survey_pictures(tmp_path)
    assert survey.pictures == ("a.png", "b.png", "c.png")
    grey, sizes = survey.notes
    assert [name for name, _ in survey.unreadable] == ["d.jpg", "e.png"]
    assert grey == "1 of 3 pictures are grey: c.png"
    assert sizes == "pictures of 2 sizes, from 30x20 to 60x40"


def test_all_grey(tmp_path):
    save(tmp_path, "a.png", grey=True)
    assert survey_pictures(tmp_path).notes == ("all pictures are grey",)


def test_folders_without_pictures(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        survey_pictures(tmp_path / "gone")
    with pytest.raises(DataError, match=r"no \.jpg, \.jpeg, \.png or \.bmp file"):
        survey_pictures(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"none of 1 pictures can be read: a\.png \("):
        survey_pictures(tmp_path)

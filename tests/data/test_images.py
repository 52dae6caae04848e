"""Images: preprocess files, geometry, labels, damage, and the collected data sets."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from dovetail.data import InputSpec, Layout, Preprocess, PreprocessStep, StepKind, load_preprocess, open_samples
from dovetail.data.image import MAX_PIXELS
from dovetail.errors import DataError

F32 = np.dtype(np.float32)
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 60, 3), dtype=np.uint8)


def preprocess(tmp_path, text):
    path = tmp_path / "preprocess.toml"
    path.write_text(text)
    return load_preprocess(path)


def image_folder(folder, names=("a.png",), pixels=PIXELS):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)
    return folder


def first(source):
    return next(iter(source)).inputs["x"]


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("channels", ["rgb", "bgr", "grey"])
def test_values_are_pixel_minus_mean_times_scale(tmp_path, layout, channels):
    count = 1 if channels == "grey" else 3
    shape = (1, count, 40, 60) if layout == "nchw" else (1, 40, 60, count)
    mean, scale = ([10.0, 20.0, 30.0], [0.5, 0.25, 2.0]) if count == 3 else ([10.0], [0.5])
    wanted = preprocess(tmp_path, f'channels = "{channels}"\nmean = {mean}\nscale = {scale}\n')
    got = first(open_samples(image_folder(tmp_path / "i"), [InputSpec("x", F32, shape)], wanted))
    planes = np.asarray(Image.fromarray(PIXELS).convert("L"))[..., None] if count == 1 else PIXELS
    planes = planes[..., ::-1] if channels == "bgr" else planes
    expected = ((planes - np.array(mean)) * np.array(scale)).astype(np.float32)
    np.testing.assert_array_equal(got[0], expected.transpose(2, 0, 1) if layout == "nchw" else expected)


def test_mobilenet_steps_equal_pillow(tmp_path):
    """The steps of a collected MobileNet: short side 256, crop 224, resize 128, x / 127.5 - 1."""
    wanted = preprocess(
        tmp_path,
        "mean = 127.5\nscale = 0.00784313725490196\n"
        '[[step]]\nkind = "resize_short"\nsize = 256\n'
        '[[step]]\nkind = "centre_crop"\nsize = 224\n'
        '[[step]]\nkind = "resize"\nsize = [128, 128]\n',
    )
    got = first(open_samples(image_folder(tmp_path / "i"), [InputSpec("x", F32, (1, 128, 128, 3))], wanted))
    image = Image.fromarray(PIXELS).resize((384, 256), Image.Resampling.BILINEAR)
    image = image.crop((80, 16, 304, 240)).resize((128, 128), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(got[0], np.asarray(image) / 127.5 - 1, atol=1e-7)


@pytest.mark.parametrize(("anchor", "top", "left"), [("top_left", 0, 0), ("centre", 9, 0)])
def test_letterbox(tmp_path, anchor, top, left):
    wanted = preprocess(
        tmp_path,
        f'resize = [64, 67]\nresize_mode = "letterbox"\ninterpolation = "nearest"\npad = 114\nanchor = "{anchor}"\n',
    )
    got = first(open_samples(image_folder(tmp_path / "i"), [InputSpec("x", F32, (1, 3, 64, 67))], wanted))[0]
    inner = np.asarray(Image.fromarray(PIXELS).resize((67, 44), Image.Resampling.NEAREST)).transpose(2, 0, 1)
    if anchor == "centre":
        top = (64 - 44) // 2
    np.testing.assert_array_equal(got[:, top : top + 44, left : left + 67], inner)
    rest = np.ones((64, 67), bool)
    rest[top : top + 44] = False
    assert (got[:, rest] == 114).all()


def test_short_form_equals_steps(tmp_path):
    short = preprocess(tmp_path, 'resize = 50\nresize_mode = "short_side"\ncentre_crop = [40, 48]\nlayout = "nhwc"\n')
    assert short == Preprocess(
        (PreprocessStep(StepKind.RESIZE_SHORT, 50, 50), PreprocessStep(StepKind.CENTRE_CROP, 40, 48)),
        layout=Layout.NHWC,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("meen = 3", "unknown key 'meen'. Did you mean 'mean'"),
        ('[[step]]\nkind = "resize"\nsizes = 3', "step 1: unknown key 'sizes'. Did you mean 'size'"),
        ('[[step]]\nkind = "centre_crop"\nsize = 3\ninterpolation = "bicubic"', "a crop has no interpolation"),
        ('interpolation = "lanczos"', "is not one of nearest, bilinear, bicubic, opencv_bilinear"),
        ('[[step]]\nkind = "zoom"\nsize = 3', "kind = 'zoom' is not one of resize, resize_short"),
        ("[[step]]\nsize = 3", "'kind' is missing"),
        ('resize = 3\n[[step]]\nkind = "resize"\nsize = 3', "exclude each other"),
        ("resize = [3]", "is not an integer or"),
        ("resize = [0, 3]", "outside 1"),
        ("resize = [99999999, 3]", "outside 1"),
        ("resize = true", "is not an integer or"),
        ('resize = [3, 4]\nresize_mode = "short_side"', "takes one size"),
        ("resize = 3\npad = 9", "belong to resize_mode"),
        ("pad = 9", "without 'resize'"),
        ('resize = 3\nresize_mode = "letterbox"\npad = 999', "outside 0..255"),
        ("mean = [1, 2]", "mean has 2 numbers for 3 channel"),
        ("scale = 0", "erase"),
        ("mean = nan", "not finite"),
        ('mean = "1"', "not a number"),
        ('channels = "RGB"', "is not one of rgb, bgr, grey"),
        ("mean = ", "not a TOML file"),
        ("scale = 1" + "0" * 350, "integer of more than 64 bits"),
        ("mean = [1, 2, -1" + "0" * 350 + "]", "integer of more than 64 bits"),
        ("scale = 1" + "0" * 5000, "not a TOML file"),
        ("resize = 0x" + "f" * 5000, "integer of more than 64 bits"),
        ("step = 3", r"Write \[\[step\]\]"),
    ],
)
def test_wrong_preprocess_files_name_the_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        preprocess(tmp_path, text)
    assert "preprocess.toml" in str(caught.value)


def test_integer_inputs_and_uint8_arrays(tmp_path):
    u8 = InputSpec("x", np.dtype(np.uint8), (1, 40, 60, 3))
    got = first(open_samples(image_folder(tmp_path / "i"), [u8], Preprocess()))
    np.testing.assert_array_equal(got[0], PIXELS)
    i8 = InputSpec("x", np.dtype(np.int8), (1, 40, 60, 3))
    np.savez(tmp_path / "d.npz", img=PIXELS[None])
    got = first(open_samples(tmp_path / "d.npz", [i8], Preprocess(mean=(128.0,))))
    np.testing.assert_array_equal(got[0], PIXELS.astype(int) - 128)
    with pytest.raises(DataError, match="leave the range of int8"):
        list(open_samples(tmp_path / "d.npz", [i8], Preprocess()))
    with pytest.raises(DataError, match="needs uint8 pixels"):
        list(open_samples([PIXELS.astype(np.float32)], [u8], Preprocess()))


def test_ambiguous_layouts_and_wrong_sizes_are_refused(tmp_path):
    folder = image_folder(tmp_path / "i")
    with pytest.raises(DataError, match="Set layout"):
        list(open_samples(folder, [InputSpec("x", F32, (1, 3, 60, 3))], Preprocess()))
    with pytest.raises(
        DataError, match=r"sample 'a.png', input 'x': expected shape \[1, 3, 8, 8\], found \[3, 40, 60\]"
    ):
        list(open_samples(folder, [InputSpec("x", F32, (1, 3, 8, 8))], Preprocess()))
    with pytest.raises(DataError, match="cannot crop 90x90 out of 40x60"):
        list(
            open_samples(
                folder,
                [InputSpec("x", F32, (1, 3, 90, 90))],
                Preprocess((PreprocessStep(StepKind.CENTRE_CROP, 90, 90),)),
            )
        )
    with pytest.raises(DataError, match="needs a preprocess file"):
        open_samples(folder, [InputSpec("x", F32, (1, 3, 8, 8))])


SPEC = InputSpec("x", F32, (1, 3, 8, 8))
TO_8 = Preprocess((PreprocessStep(StepKind.RESIZE, 8, 8),))


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "JPEG"])
def test_truncated_and_damaged_images_name_the_sample(tmp_path, suffix):
    folder = image_folder(tmp_path / "i", [f"sub/a.{suffix}"])
    path = folder / "sub" / f"a.{suffix}"
    good = path.read_bytes()
    for length in (0, 1, 20, len(good) // 2, len(good) - 40):
        path.write_bytes(good[:length])
        with pytest.raises(DataError, match=rf"sample 'sub/a.{suffix}'.*damaged or truncated image"):
            list(open_samples(folder, [SPEC], TO_8))
    for position in range(0, len(good), max(1, len(good) // 150)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x55]) + good[position + 1 :])
        try:
            list(open_samples(folder, [SPEC], TO_8))
        except DataError as error:
            assert f"a.{suffix}" in str(error)  # noqa: PT017  (damage to pixels may go unseen)


def png_of_size(path, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [8001, 16384, 60000])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bombs_are_refused_before_decoding(tmp_path, side):
    png_of_size(tmp_path / "bomb.png", side, side)
    with pytest.raises(DataError, match=f"sample 'bomb.png'.*limit of {MAX_PIXELS} pixels"):
        list(open_samples(tmp_path, [SPEC], TO_8))


def test_a_thin_image_is_no_bomb_when_resized(tmp_path):
    image_folder(tmp_path, pixels=np.zeros((1, 60000, 3), np.uint8))
    steps = (PreprocessStep(StepKind.RESIZE_SHORT, 2000, 2000), PreprocessStep(StepKind.CENTRE_CROP, 8, 8))
    with pytest.raises(DataError, match="resizing 1x60000 gives"):
        list(open_samples(tmp_path, [SPEC], Preprocess(steps)))


def test_16_bit_images_are_refused_and_palettes_converted(tmp_path):
    Image.fromarray(PIXELS).convert("P").save(tmp_path / "p.png")
    assert first(open_samples(tmp_path, [SPEC], TO_8)).shape == (1, 3, 8, 8)
    Image.fromarray(np.zeros((9, 9), np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="more than 8 bits"):
        list(open_samples(tmp_path, [SPEC], TO_8))


def labels_of(source, name="label"):
    return {s.id: s.labels[name].tolist() for s in source}


def test_class_folders(tmp_path):
    image_folder(tmp_path / "n", ["dog/1.png", "cat/1.png", "cat/.hidden.png", ".git/x.png"])
    assert labels_of(open_samples(tmp_path / "n", [SPEC], TO_8)) == {"cat/1.png": 0, "dog/1.png": 1}
    image_folder(tmp_path / "i", ["963/1.png", "3/1.png"])
    assert labels_of(open_samples(tmp_path / "i", [SPEC], TO_8)) == {"3/1.png": 3, "963/1.png": 963}


def test_label_tables(tmp_path):
    folder = image_folder(tmp_path / "all", ["dev/a.png", "dev/b.png", "calib/c.png", "calib/unlisted.png"])
    (folder / "labels.csv").write_text(
        "file,ids,weight,kind\ndev/a.png,3;4 5,1,x\ndev/b.png,7,0.5,y\ncalib/c.png,9,2,z\n"
    )
    whole = open_samples(folder, [SPEC], TO_8)
    assert labels_of(whole, "ids") == {
        "calib/c.png": [9, -1, -1],
        "dev/a.png": [3, 4, 5],
        "dev/b.png": [7, -1, -1],
    }
    assert labels_of(whole, "weight")["dev/b.png"] == 0.5
    assert labels_of(whole, "kind")["dev/b.png"] == "y"
    assert list(labels_of(open_samples(folder / "dev", [SPEC], TO_8), "ids")) == ["a.png", "b.png"]
    (tmp_path / "own.csv").write_text("file,n\ndev/b.png,1\n")
    assert labels_of(open_samples(folder, [SPEC], TO_8, tmp_path / "own.csv"), "n") == {"dev/b.png": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a column 'file'"),
        ("name,label\na.png,1\n", "needs a column 'file'"),
        ("file,label\n", "lists no file"),
        ("file,label\na.png\n", "row 2 has 1 cells"),
        ("file,label\na.png,1\na.png,2\n", "listed twice"),
        ("file,label\nq.png,1\n", "'q.png' is not in the data set"),
        ("file,label\n../../etc/passwd,1\n", "none of the listed files"),
        ('file,label\n"a.png,1\n', "not a CSV table"),
    ],
)
def test_wrong_label_tables(tmp_path, text, message):
    folder = image_folder(tmp_path / "i")
    (folder / "labels.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        open_samples(folder, [SPEC], TO_8)


def test_boxes_follow_the_image(tmp_path):
    folder = image_folder(tmp_path / "i")
    (tmp_path / "gt.json").write_text('{"gt": {"a.png": [[7, 0, 0, 60, 40], [2, 30, 20, 45, 30]]}}')
    wanted = preprocess(tmp_path, 'resize = [80, 90]\nresize_mode = "letterbox"\n')
    source = open_samples(folder, [InputSpec("x", F32, (1, 3, 80, 90))], wanted, tmp_path / "gt.json")
    boxes = next(iter(source)).labels["boxes"]
    np.testing.assert_allclose(boxes, np.array([[7, 0, 10, 90, 70], [2, 45, 40, 67.5, 55]]))


@pytest.mark.models
def test_caltech_labels_are_sets_of_ids(models):
    spec = InputSpec("x", F32, (1, 128, 128, 3))
    steps = (
        PreprocessStep(StepKind.RESIZE_SHORT, 256, 256),
        PreprocessStep(StepKind.CENTRE_CROP, 224, 224),
        PreprocessStep(StepKind.RESIZE, 128, 128),
    )
    wanted = Preprocess(steps, mean=(127.5,), scale=(1 / 127.5,))
    folder = models / "data_caltech101"
    assert (
        open_samples(folder, [spec], wanted).count,
        open_samples(folder / "dev", [spec], wanted).count,
    ) == (264, 176)
    source = open_samples(folder / "calib", [spec], wanted)
    assert source.count == 88
    for sample in source.subset([0, 1]):
        assert sample.inputs["x"].shape == (1, 128, 128, 3)
        assert np.abs(sample.inputs["x"]).max() <= 1
        accepted = sample.labels["accepted_imagenet_idx_0based"]
        assert list(accepted[:3]) == [288, 289, 290]
        assert sample.labels["split"] == "calib"


@pytest.mark.models
def test_caltech_accuracy_of_the_float_mobilenet(models):
    """The reader and the metric together give the accuracy of a pipeline on Pillow alone."""
    import onnxruntime

    from dovetail.compare import load_metric

    steps = (
        PreprocessStep(StepKind.RESIZE_SHORT, 256, 256),
        PreprocessStep(StepKind.CENTRE_CROP, 224, 224),
        PreprocessStep(StepKind.RESIZE, 128, 128),
    )
    wanted = Preprocess(steps, mean=(127.5,), scale=(1 / 127.5,))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(models / "mbv1_025_128_imagenet" / "mbnet128_0.25_f.onnx", options)
    name = session.get_inputs()[0].name
    folder = models / "data_caltech101" / "dev"
    outputs, sets, right = [], [], 0
    for sample in open_samples(folder, [InputSpec(name, F32, (1, 128, 128, 3))], wanted):
        scores = session.run(None, dict(sample.inputs))[0]
        accepted = sample.labels["accepted_imagenet_idx_0based"]
        outputs.append(scores)
        sets.append(accepted)
        image = Image.open(folder / sample.id).convert("RGB")
        width, height = image.size
        short = min(width, height)
        image = image.resize((width * 256 // short, height * 256 // short), Image.Resampling.BILINEAR)
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        image = image.crop((left, top, left + 224, top + 224)).resize((128, 128), Image.Resampling.BILINEAR)
        tensor = (np.asarray(image)[None] / 127.5 - 1).astype(np.float32)
        right += int(np.argmax(session.run(None, {name: tensor})[0]) in set(accepted.tolist()))
    accuracy = load_metric("top1").score({"y": np.concatenate(outputs)}, {"ids": np.stack(sets)})
    assert accuracy == pytest.approx(right / 176, abs=0.006)
    assert accuracy > 0.4


@pytest.mark.models
def test_hand_drawn_boxes_and_packed_arrays(models):
    folder = models / "data_detect_ccby"
    wanted = Preprocess((PreprocessStep(StepKind.LETTERBOX, 416, 416, 114),))
    source = open_samples(folder, [InputSpec("images", F32, (1, 3, 416, 416))], wanted, folder / "gt.json")
    samples = list(source)
    assert len(samples) == 9
    assert sum(int((s.labels["boxes"][:, 0] >= 0).sum()) for s in samples) == 13
    cifar = models / "data_cifar10" / "ic01_200.npz"
    spec = InputSpec("x", F32, (1, 32, 32, 3))
    assert open_samples(cifar, [spec]).count == 200
    assert open_samples(f"{cifar}#calib", [spec]).count == 100
    other = InputSpec("input_1", F32, (1, 32, 32, 3))
    with pytest.raises(DataError, match=r"'ic01_200\.npz#x' or 'ic01_200\.npz#calib'"):
        open_samples(cifar, [other])

"""The names of the fuzz targets, which cost nothing to import."""

TARGET_NAMES = (
    "plans",
    "graphs",
    "bundles",
    "search",
    "records",
    "people",
    "toolchains",
    "data",
    "binaries",
    "onnx",
    "tflite",
    "caffe",
    "darknet",
    "converted",
    "requests",
)

// What is called of ONNX Runtime: the places of its functions in the table `OrtApi`, which its versions only ever
// append to, so that building takes neither its headers nor its library. Where the header is found, the compiler checks
// them.

#ifndef DOVETAIL_RUN_ORT_ABI_H
#define DOVETAIL_RUN_ORT_ABI_H

#include <cstddef>
#include <cstdint>

namespace ort {

// Opaque here.
struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct MemoryInfo;
struct Value;
struct Allocator;
struct TypeInfo;
struct TensorInfo;

// The oldest table that has everything below (ONNX Runtime 1.7).
constexpr uint32_t TABLE_VERSION = 7;

struct ApiBase {
    const void *const *(*get_api)(uint32_t version);
    const char *(*version)();
};

enum Place : size_t {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    DISABLE_TELEMETRY = 6,
    CREATE_SESSION_FROM_ARRAY = 8,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    SET_LOG_SEVERITY = 22,
    SET_OPTIMIZATION_LEVEL = 23,
    SET_INTRA_THREADS = 24,
    SET_INTER_THREADS = 25,
    INPUT_COUNT = 30,
    OUTPUT_COUNT = 31,
    INPUT_TYPE = 33,
    OUTPUT_TYPE = 34,
    INPUT_NAME = 36,
    OUTPUT_NAME = 37,
    CREATE_TENSOR = 49,
    TENSOR_DATA = 51,
    AS_TENSOR_INFO = 55,
    ELEMENT_TYPE = 60,
    RANK = 61,
    DIMENSIONS = 62,
    TENSOR_OF_VALUE = 65,
    CREATE_CPU_MEMORY = 69,
    ALLOCATOR_FREE = 76,
    DEFAULT_ALLOCATOR = 78,
    RELEASE_ENV = 92,
    RELEASE_STATUS = 93,
    RELEASE_MEMORY = 94,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_TYPE = 98,
    RELEASE_TENSOR_INFO = 99,
    RELEASE_OPTIONS = 100,
    ADD_CONFIG = 130,
};

constexpr int LOG_FATAL = 4, OPTIMIZE_ALL = 99, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0;

// Element types by their numbers there, in the order of DType; 0 where one is held in another form (bf16).
constexpr int ELEMENTS[] = {11, 1, 10, 0, 3, 2, 5, 4, 6, 12, 7, 13, 9};

}  // namespace ort

#if __has_include(<onnxruntime_c_api.h>)
#include <onnxruntime_c_api.h>
#define DOVETAIL_AT(place, member) \
    static_assert(offsetof(OrtApi, member) == ort::place * sizeof(void *), "OrtApi::" #member " lies elsewhere")
DOVETAIL_AT(GET_ERROR_MESSAGE, GetErrorMessage);
DOVETAIL_AT(CREATE_ENV, CreateEnv);
DOVETAIL_AT(DISABLE_TELEMETRY, DisableTelemetryEvents);
DOVETAIL_AT(CREATE_SESSION_FROM_ARRAY, CreateSessionFromArray);
DOVETAIL_AT(RUN, Run);
DOVETAIL_AT(CREATE_SESSION_OPTIONS, CreateSessionOptions);
DOVETAIL_AT(SET_LOG_SEVERITY, SetSessionLogSeverityLevel);
DOVETAIL_AT(SET_OPTIMIZATION_LEVEL, SetSessionGraphOptimizationLevel);
DOVETAIL_AT(SET_INTRA_THREADS, SetIntraOpNumThreads);
DOVETAIL_AT(SET_INTER_THREADS, SetInterOpNumThreads);
DOVETAIL_AT(INPUT_COUNT, SessionGetInputCount);
DOVETAIL_AT(OUTPUT_COUNT, SessionGetOutputCount);
DOVETAIL_AT(INPUT_TYPE, SessionGetInputTypeInfo);
DOVETAIL_AT(OUTPUT_TYPE, SessionGetOutputTypeInfo);
DOVETAIL_AT(INPUT_NAME, SessionGetInputName);
DOVETAIL_AT(OUTPUT_NAME, SessionGetOutputName);
DOVETAIL_AT(CREATE_TENSOR, CreateTensorWithDataAsOrtValue);
DOVETAIL_AT(TENSOR_DATA, GetTensorMutableData);
DOVETAIL_AT(AS_TENSOR_INFO, CastTypeInfoToTensorInfo);
DOVETAIL_AT(ELEMENT_TYPE, GetTensorElementType);
DOVETAIL_AT(RANK, GetDimensionsCount);
DOVETAIL_AT(DIMENSIONS, GetDimensions);
DOVETAIL_AT(TENSOR_OF_VALUE, GetTensorTypeAndShape);
DOVETAIL_AT(CREATE_CPU_MEMORY, CreateCpuMemoryInfo);
DOVETAIL_AT(ALLOCATOR_FREE, AllocatorFree);
DOVETAIL_AT(DEFAULT_ALLOCATOR, GetAllocatorWithDefaultOptions);
DOVETAIL_AT(RELEASE_ENV, ReleaseEnv);
DOVETAIL_AT(RELEASE_STATUS, ReleaseStatus);
DOVETAIL_AT(RELEASE_MEMORY, ReleaseMemoryInfo);
DOVETAIL_AT(RELEASE_SESSION, ReleaseSession);
DOVETAIL_AT(RELEASE_VALUE, ReleaseValue);
DOVETAIL_AT(RELEASE_TYPE, ReleaseTypeInfo);
DOVETAIL_AT(RELEASE_TENSOR_INFO, ReleaseTensorTypeAndShapeInfo);
DOVETAIL_AT(RELEASE_OPTIONS, ReleaseSessionOptions);
DOVETAIL_AT(ADD_CONFIG, AddSessionConfigEntry);
#undef DOVETAIL_AT
static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE == ort::ELEMENTS[0] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT == ort::ELEMENTS[1] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 == ort::ELEMENTS[2] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 == ort::ELEMENTS[4] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 == ort::ELEMENTS[5] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 == ort::ELEMENTS[6] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 == ort::ELEMENTS[7] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 == ort::ELEMENTS[8] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 == ort::ELEMENTS[9] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 == ort::ELEMENTS[10] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 == ort::ELEMENTS[11] &&
                  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL == ort::ELEMENTS[12],
              "element types have other numbers");
#endif

#endif

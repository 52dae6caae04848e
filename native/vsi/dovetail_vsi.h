/* Flat C interface to a VeriSilicon graph library: build a graph, compile it, run it, write and read its binary form.
 *
 * One implementation stands on libovxlib's C interface (ovxlib.cpp); the same functions can stand on TIM-VX.
 * Shapes and axes are given fastest dimension first. Enumerations below are this interface's own: an implementation
 * translates them by name, because the numbers of the vendor's enumerations differ between versions.
 * No policy lives here: what is legal is decided before these functions are called.
 * Functions return 0 (or an id >= 0) on success and -1 on failure; dtv_last_error() then says why.
 */
#ifndef DOVETAIL_VSI_H
#define DOVETAIL_VSI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTV_ABI 1

enum dtv_dtype {
    DTV_F32 = 1, DTV_F16 = 2, DTV_BF16 = 3, DTV_I8 = 4, DTV_U8 = 5, DTV_I16 = 6, DTV_U16 = 7, DTV_I32 = 8,
    DTV_U32 = 9, DTV_I64 = 10, DTV_BOOL = 11
};

enum dtv_quant {
    DTV_QUANT_NONE = 0,
    DTV_QUANT_AFFINE = 1,             /* scale, zero_point */
    DTV_QUANT_FIXED_POINT = 2,        /* fl: real = q * 2^-fl */
    DTV_QUANT_CHANNEL_SYMMETRIC = 3,  /* scales[channels] along axis */
    DTV_QUANT_CHANNEL_AFFINE = 4      /* scales[channels], zero_points[channels] along axis */
};

enum dtv_role { DTV_INNER = 0, DTV_EDGE = 1, DTV_CONSTANT = 2 };

typedef struct dtv_tensor {
    int32_t dtype;
    int32_t role;
    int32_t rank;
    int32_t quant;
    int32_t zero_point;
    int32_t fl;
    float scale;
    int32_t channels;
    int32_t axis;
    const uint32_t *shape;
    const float *scales;
    const int32_t *zero_points;
    const void *data;                 /* constants: copied before the function returns */
    uint64_t data_bytes;
} dtv_tensor;

typedef struct dtv_operator {
    const char *kind;                 /* name in the implementation's table, such as "conv2d" */
    uint32_t uid;                     /* shown in the vendor's performance records */
    int32_t input_count, output_count, int_count, float_count;
    const int32_t *inputs;            /* tensor ids; -1 leaves an optional input out */
    const int32_t *outputs;
    const int32_t *ints;              /* parameter block: its layout is a comment beside the kind's table row */
    const float *floats;
} dtv_operator;

typedef struct dtv_graph dtv_graph;

int dtv_abi(void);
const char *dtv_version(void);
const char *dtv_last_error(void);
int dtv_has_operator(const char *kind);

dtv_graph *dtv_create(void);
void dtv_destroy(dtv_graph *graph);
int dtv_add_tensor(dtv_graph *graph, const dtv_tensor *tensor);
int dtv_add_operator(dtv_graph *graph, const dtv_operator *op);
/* One operator that stands for a whole network in binary form; its tensors must be edges. */
int dtv_add_binary(dtv_graph *graph, const void *binary, uint64_t size_bytes, const dtv_operator *op);
int dtv_set_edges(dtv_graph *graph, const int32_t *inputs, int32_t input_count, const int32_t *outputs,
                  int32_t output_count);
int dtv_setup(dtv_graph *graph);
int dtv_compile(dtv_graph *graph);
/* After dtv_setup and instead of dtv_compile. Call with buffer NULL for the size, then at once with a buffer. */
int dtv_write_binary(dtv_graph *graph, void *buffer, uint64_t *size_bytes);
int dtv_write(dtv_graph *graph, int32_t tensor, const void *data, uint64_t size_bytes);
int dtv_run(dtv_graph *graph);
int dtv_read(dtv_graph *graph, int32_t tensor, void *data, uint64_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif

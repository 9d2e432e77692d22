#ifndef ALPA_C_H
#define ALPA_C_H
/* The C interface of alpa: a function of JAX as StableHLO text in, its plan and its specs out, and
   steps of it on devices of this machine. bindings/python is written on it, and so may be bindings
   of other languages. `alpa/alpa.h` is the header of C++.

   A function that makes something returns NULL if it fails, others a status: 0, or 1 after a
   failure. What was wrong says `alpa_last_error` of the same thread, until the next failure in it.
   Names, texts and tensors given are read during the call alone, unless it says otherwise. Handles
   are independent of each other: each holds what it needs of those it was made from. Two threads
   may not use one handle at once. No argument may be NULL, unless it says otherwise.

   Options are a JSON object; unknown keys are errors that list the known ones:

   | key | value | default |
   |---|---|---|
   | cluster | a name such as "dgx-a100", or a cluster file; this or `devices` | |
   | hosts | times as many hosts of that cluster | 1 |
   | devices | CPU devices of this machine | |
   | method | serial, data, zero2, zero3, shard or pipeline; auto: see below | shard |
   | mesh | logical mesh, such as "2x4"; auto: the cheapest | auto |
   | stages | of a pipeline; 0: searched for | 0 |
   | time_limit | seconds for planning | 60 |
   | memory_budget | bytes that a device may use; 0: its memory | 0 |
   | parameters | which arguments are trained, as ImportedStepOptions | "" |
   | optimizer | {"name": "adamw", "learning_rate": 1e-3, …}; adam, sgd, lion, … | adamw |
   | micro_batches | of a step, each with the rows of the text | 1 |
   | precision | as_written, bf16_mixed or f16_mixed | as_written |
   | clip_global_norm | limit of the gradients' joint norm; 0: none | 0 |

   The last five are of losses. Method auto is pipeline for a loss, and shard for a whole step. */
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct alpa_function alpa_function; /* an imported function of JAX */
typedef struct alpa_plan alpa_plan;         /* a plan for a cluster */
typedef struct alpa_run alpa_run;           /* devices that run a step, with its state */
typedef struct alpa_array alpa_array;       /* a tensor that alpa made */

/* A dense row-major tensor in memory of the caller. */
typedef struct alpa_tensor {
  const char* name;     /* of a state or of a batch input */
  const char* dtype;    /* "f32", "bf16", "f16", "f64", "i32", "u8"; masks are u8, ui32 is i32 */
  int32_t rank;         /* number of extents */
  const int64_t* shape; /* extents; may be NULL if rank is 0 */
  const void* data;     /* elements */
} alpa_tensor;

/* The message of this thread's last failure; "" before the first. */
const char* alpa_last_error(void);
/* "major.minor.patch" */
const char* alpa_version(void);
/* Frees a text that a function below returned. All functions that free accept NULL. */
void alpa_free_text(char* text);

/* Reads function @main of StableHLO's generic text, `length` bytes of UTF-8. */
alpa_function* alpa_import(const char* text, size_t length);
/* {"is_loss": …, "arguments": [{"name", "dtype", "shape"}], "results": […], "recognised":
   {"attention": 2}}; tensors in JAX's order of leaves. */
char* alpa_function_json(const alpa_function* function);
void alpa_function_free(alpa_function* function);

/* Plans a training step of a loss, or a whole step as it is written. Needs no devices. */
alpa_plan* alpa_plan_new(const alpa_function* function, const char* options);
/* {"method", "seconds" of a step, "lower_bound_seconds" and "gap" (null: not proven), "proof",
   "bytes_per_device", "stages", "mesh": {"shape", "axes"}, "arguments", "results", "state",
   "constraints", "traffic"}. Each of arguments and results has a "spec", for each dimension the
   axes of the mesh that split it, major first: [["x"], []]. So have "state", parameters and
   optimizer state by name, and "constraints", values inside the function: {"line" of the text,
   "operation", "product": true of matrix products and their like, "dtype", "shape", "spec",
   "reads"}. "reads", which arguments have, too, are the lines of operations that read the value
   in another spec: [{"line", "spec"}]. "traffic" has number and bytes sent of a device's
   collectives by kind, in a step. Of several stages "mesh" is null, and specs are missing. */
char* alpa_plan_json(const alpa_plan* plan);
/* The plan in at most ten lines. */
char* alpa_plan_text(const alpa_plan* plan);
/* Writes a report as one HTML page. */
int alpa_plan_report(const alpa_plan* plan, const char* path);
void alpa_plan_free(alpa_plan* plan);

/* Plans a step, and loads it onto devices of this machine. State has initial content from `seed`,
   until it is set. */
alpa_run* alpa_run_new(const alpa_function* function, const char* options, uint64_t seed);
/* The plan that it runs. */
alpa_plan* alpa_run_plan(const alpa_run* run);
/* Copies a tensor into the state of its name; type and shape must be the state's. */
int alpa_run_set(alpa_run* run, const alpa_tensor* content);
/* The whole tensor of the state of this name, gathered. */
alpa_array* alpa_run_get(const alpa_run* run, const char* name);
/* Runs one step on a batch: `count` tensors, one for each batch input. They are read in place. */
int alpa_run_step(alpa_run* run, const alpa_tensor* batch, size_t count);
/* {"metrics": {"loss": …}, "outputs": [names]} of the last step. */
char* alpa_run_results(const alpa_run* run);
/* A tensor that the last step returned. */
alpa_array* alpa_run_output(const alpa_run* run, const char* name);
void alpa_run_free(alpa_run* run);

/* The array as a tensor, whose pointers live as long as the array. Its name is "". */
alpa_tensor alpa_array_tensor(const alpa_array* array);
void alpa_array_free(alpa_array* array);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

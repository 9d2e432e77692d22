#pragma once
/// The header for programs: models, optimizers, training steps, clusters and `parallelize`. `fmt`
/// prints shapes, types, arrays, layouts, graphs, plans and metrics.
#include <fmt/ranges.h>  // a shape is a vector

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/base/program.h"
#include "alpa/checkpoint/checkpoints.h"
#include "alpa/generate.h"
#include "alpa/nn/layers.h"
#include "alpa/nn/loss.h"
#include "alpa/nn/moe.h"
#include "alpa/nn/sequential.h"
#include "alpa/nn/transformer.h"
#include "alpa/nn/vision.h"
#include "alpa/ops/custom.h"
#include "alpa/ops/ops.h"
#include "alpa/parallelize.h"
#include "alpa/train/dataset.h"
#include "alpa/train/images.h"
#include "alpa/train/optimizer.h"
#include "alpa/train/safetensors.h"
#include "alpa/train/text.h"
#include "alpa/train/training_step.h"
#include "alpa/version.h"
#include "alpa/weights.h"

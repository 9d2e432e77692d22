#pragma once
/// All layers, initialisers and losses.
#include "alpa/nn/activation.h"
#include "alpa/nn/dense.h"
#include "alpa/nn/dropout.h"
#include "alpa/nn/embedding.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer_norm.h"
#include "alpa/nn/loss.h"
#include "alpa/nn/sequential.h"

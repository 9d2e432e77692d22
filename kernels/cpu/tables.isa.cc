// kernels/cpu/tables.isa.cc — all loops of an instruction set
#include "kernels/cpu/isa.h"

namespace alpa::cpu::ALPA_ISA {

Isa named(const char* name) {
  return {name,
          elementwise_table(),
          reduce_table(),
          update_table(),
          random_table(),
          layer_norm_table(),
          attention_table(),
          cross_entropy_table(),
          row_product_table(),
          product_loops(),
          quantized_table()};
}

}  // namespace alpa::cpu::ALPA_ISA

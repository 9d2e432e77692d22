// The options of data parallelism and ZeRO
#include "src/intra_op/space/auto_shard_options.h"

namespace alpa::intra_op {
namespace {

AutoShardOptions batch_only(std::string method, Holding parameters, Holding optimizer_state) {
  AutoShardOptions options{.method = std::move(method)};
  options.allowed.split_batch_everywhere = true;
  options.allowed.parameters = parameters;
  options.allowed.optimizer_state = optimizer_state;
  return options;
}

}  // namespace

AutoShardOptions data_parallel_options() {
  return batch_only("data", Holding::whole, Holding::whole);
}

AutoShardOptions zero2_options() { return batch_only("zero2", Holding::whole, Holding::split); }

AutoShardOptions zero3_options() { return batch_only("zero3", Holding::split, Holding::split); }

}  // namespace alpa::intra_op

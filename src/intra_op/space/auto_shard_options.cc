// The options of data parallelism and ZeRO
#include "src/intra_op/space/auto_shard_options.h"

namespace alpa::intra_op {
namespace {

AutoShardOptions batch_only(std::string method) {
  AutoShardOptions options;
  options.method = std::move(method);
  options.split_batch_everywhere = true;
  return options;
}

}  // namespace

AutoShardOptions data_parallel_options() {
  AutoShardOptions options = batch_only("data");
  options.replicate_parameters = options.replicate_optimizer_state = true;
  return options;
}

AutoShardOptions zero2_options() {
  AutoShardOptions options = batch_only("zero2");
  options.replicate_parameters = options.shard_optimizer_state = true;
  return options;
}

AutoShardOptions zero3_options() {
  AutoShardOptions options = batch_only("zero3");
  options.shard_parameters = options.shard_optimizer_state = true;
  return options;
}

}  // namespace alpa::intra_op

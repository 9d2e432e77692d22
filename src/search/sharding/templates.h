#pragma once
/// Templates: layouts that people choose by hand. Each mesh axis has one use (AxisUse), which
/// leaves few strategies per node, so that a template is solved in milliseconds. Plans of templates
/// are in the whole search space; its search starts from the best of them.
#include <string>
#include <vector>

#include "src/search/space/auto_shard_options.h"
#include "src/search/space/search_space.h"

namespace alpa::intra_op {

/// Uses per mesh axis of all templates: first those of `batch` and `tensor` alone, then the others
/// of `data`, `zero2`, `zero3` and `tensor`; of three and more axes at most two different uses. An
/// axis of size 1 is used for `any`. Empty on one device.
std::vector<std::vector<AxisUse>> templates_of(const DeviceMesh& mesh);

/// The template of `batch` and `tensor` alone that allows all that these uses allow.
std::vector<AxisUse> wider_template(std::vector<AxisUse> uses);

/// "data, tensor".
std::string text_of(const std::vector<AxisUse>& uses);

/// Seconds that no plan of the search space is below: every node at its fastest; every value
/// resharded for the one use that is dearest even from and to the specs that suit it best.
double least_seconds(const Graph& graph, const SearchSpace& space);

/// The plan with copies made once for the forward and once for the backward pass of every
/// micro-batch, instead of being kept, where they are larger than what they are made of. Its cost
/// is left as it was.
ShardingPlan with_copies_made_again(ShardingPlan plan, const GraphFacts& facts);

}  // namespace alpa::intra_op

// The full product of zoo_test.cc: models, methods, 1 to 8 devices, micro-batches, precisions. Run
// it with `ctest --test-dir build/release -L slow`, or a model with `test_equivalence -tc="…"`.
#include <doctest/doctest.h>

#include "equivalence/zoo.h"

namespace zoo_slow_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

void check_all_ways(const std::string& name, Precision precision) {
  const ZooModel& model = zoo_model(name);
  for (int micro_batches : {1, 4})
    for (int devices = 1; devices <= 8; ++devices) {
      const auto check = [&](const Method& method) {
        check_like_one_device(model, method, Cluster::local(devices), micro_batches, precision);
      };
      const int rows = 12 / micro_batches;
      for (const char* method : {"data", "zero2", "zero3"})
        if (devices <= rows) check(parse_method(method));
      check(ShardParallel{});
      if (devices > 1) check(PipeshardParallel{});
      for (int pipeline : {1, 2})
        for (int tensor : {1, 2, 4})
          if (const int data = devices / (pipeline * tensor);
              data * pipeline * tensor == devices && data <= rows)
            check(parallel_3d(data, tensor, pipeline));
    }
}

}  // namespace

TEST_CASE("all ways to train a GPT") { check_all_ways("gpt", Precision::as_written); }
TEST_CASE("all ways to train a Llama") { check_all_ways("llama", Precision::as_written); }
TEST_CASE("all ways to train experts") { check_all_ways("moe", Precision::as_written); }
TEST_CASE("all ways to train BERT") { check_all_ways("bert", Precision::as_written); }
TEST_CASE("all ways to train ViT") { check_all_ways("vit", Precision::as_written); }
TEST_CASE("all ways to train a Wide-ResNet") {
  check_all_ways("wide_resnet", Precision::as_written);
}
TEST_CASE("all ways to train a GPT in bf16") { check_all_ways("gpt", bf16_mixed); }
TEST_CASE("all ways to train a Llama in bf16") { check_all_ways("llama", bf16_mixed); }
TEST_CASE("all ways to train experts in bf16") { check_all_ways("moe", bf16_mixed); }
TEST_CASE("all ways to train BERT in bf16") { check_all_ways("bert", bf16_mixed); }
TEST_CASE("all ways to train ViT in bf16") { check_all_ways("vit", bf16_mixed); }
TEST_CASE("all ways to train a Wide-ResNet in bf16") { check_all_ways("wide_resnet", bf16_mixed); }

}  // namespace zoo_slow_test

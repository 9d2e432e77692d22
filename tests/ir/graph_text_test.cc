#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "sample_ops.h"

namespace graph_text_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string message(const std::string& text) {
  try {
    parse_graph(text, sample::all);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kHead =
    "graph micro_batches=1\n%0: f32[2, 2] = input() {kind=\"batch\", dtype=f32, shape=[2, "
    "2]} forward \"x\"\n";

}  // namespace

TEST_CASE(
    "the text of a step shows inputs, regions, layers, names, attributes, updates and metrics") {
  CHECK(to_string(sample::step(2)) ==
        R"(graph micro_batches=2
%0: f32[2, 3] = input() {kind="batch", dtype=f32, shape=[2, 3]} forward "x"
%1: f32[3, 4] = input() {kind="state", dtype=f32, shape=[3, 4], init="normal", a=0.0, b=0.5} forward "w"
%2: f32[] = input() {kind="accumulator", dtype=f32, shape=[]} forward "loss_sum"
%3: f32[2, 4] = dot(%0, %1) forward layer=0 "dense0/dot"
%4: f32[] = total(%3) {note="a \"quoted\" {name}\n"} forward layer=0 "total"
%5: f32[] = add(%2, %4) forward layer=0 "add"
%6: f32[3, 4], %7: f32[3, 4] = split(%1) {at=0.5, axes=[0, 1]} apply "split"
%8: f32[3, 4] = add(%6, %7) apply "add"
%9: f32[] = scale(%5) {by=0.25} apply "scale"
update %2 = %5
update %1 = %8
metric "loss" = %9
)");
}

TEST_CASE("parsing the text gives an equal graph") {
  for (int micro_batches : {1, 2, 7}) {
    const Graph graph = sample::step(micro_batches);
    CHECK(parse_graph(to_string(graph), sample::all) == graph);
  }
}

TEST_CASE("parsing keeps value numbers that are not in order, and marks of rematerialisation") {
  const std::string text =
      std::string("graph micro_batches=1\n") +
      "%1: f32[2, 2] = input() {kind=\"batch\", dtype=f32, shape=[2, 2]} forward \"x\"\n" +
      "%0: f32[2, 2] = scale(%1) forward layer=1 remat=3 \"\"\n" +
      "%2: f32[2, 2] = scale(%1) backward again=3 \"\"\n";
  const Graph graph = parse_graph(text, sample::all);
  CHECK(to_string(graph) == text);
  CHECK(remat_layers(graph) == std::vector<int>{3});
  CHECK(recomputed_layers(graph) == std::vector<int>{3});
}

TEST_CASE("mistakes in a text are named with their line") {
  const std::string head = kHead;
  CHECK(message("") == "graph text, line 1: expected \"graph micro_batches=\" at column 1");
  CHECK(message("graph micro_batches=0\n") ==
        "graph text, line 1: micro_batches must be at least 1");
  CHECK(message("graph micro_batches=2x\n") ==
        "graph text, line 1: expected an integer at column 21");
  CHECK(message(head + "%1: f32[2, 2] = frob(%0) forward \"\"\n") ==
        "graph text, line 3: unknown operator \"frob\"");
  CHECK(message(head + "%1: f32[2, 2] = scale(%3) forward \"\"\n") ==
        "graph text, line 3: %3 is not defined above");
  CHECK(message(head + "%0: f32[2, 2] = scale(%0) forward \"\"\n") ==
        "graph text, line 3: %0 is defined twice");
  CHECK(message(head + "%1: f32[2, 3] = scale(%0) forward \"\"\n") ==
        "graph text, line 3: scale gives f32[2, 2], not f32[2, 3]");
  CHECK(message(head + "%1: f32[2, 2] = scale(%0) later \"\"\n") ==
        "graph text, line 3: unknown region \"later\"; regions are forward, backward and apply");
  CHECK(message(head + "%1: f32[2, 2] = scale(%0) forward again=-1 \"\"\n") ==
        "graph text, line 3: rematerialised layers are numbered from 0");
  CHECK(message(head + "%1: f32[2, 2] = scale(%0) forward \"a\n") ==
        "graph text, line 3: the string at column 35 is not terminated");
  CHECK(message(head + "%1: f32[2, 2] = scale(%0) forward \"a\" b\n") ==
        "graph text, line 3: text after the end of the statement");
  CHECK(message(head + "%1: f32[2, 2] = scale(%0) {a=} forward \"a\"\n")
            .rfind("graph text, line 3: attributes {a=}", 0) == 0);
  CHECK(
      message(head + "%1: f33[2, 2] = scale(%0) forward \"\"\n").rfind("graph text, line 3: ", 0) ==
      0);
  CHECK(message(head + "%2: f32[2, 2] = scale(%0) forward \"\"\n") ==
        "graph text: no line defines %1");
  CHECK(message("graph micro_batches=1\n%0: f32[2] = input() {kind=\"wish\", dtype=f32, "
                "shape=[2]} forward \"x\"\n") ==
        "graph text, line 2: unknown kind of input \"wish\"; "
        "kinds are batch, state, accumulator, shared, scalar and boundary");
  CHECK(message(head + "metric \"m\" = %0\n") == "graph text: graph: metric \"m\" is not a scalar");
  CHECK(message(head + "update %0 = %0\n") ==
        "graph text: graph: update of value 0, which is not a state");
}

TEST_CASE("no prefix of a text and no text with one character changed crashes the parser") {
  const std::string text = to_string(sample::step(2));
  for (std::size_t n = 0; n < text.size(); ++n) {
    CHECK_NOTHROW(message(text.substr(0, n)));
    for (char c : {'%', '"', '}', '9', '-', ' '}) {
      std::string changed = text;
      changed[n] = c;
      CHECK_NOTHROW(message(changed));
    }
  }
}

}  // namespace graph_text_test

// Files of very many entries. Work for each entry that grows with their number would take minutes
// at these sizes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/steps.h"
#include "support/temporary_file.h"
#include "tools/contest/contest.h"

namespace many_entries_test {

using namespace alpa;
using testing::TemporaryFile;

namespace {

/// `count` pieces with `between` between them.
template <class Piece>
std::string joined(int count, const std::string& between, const Piece& piece) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? between : "") + piece(i);
  return text;
}

/// A chain of layers, each with a parameter that belongs to the one before, or is frozen.
std::string graph_text(int layers) {
  Recorder g(1);
  Value h = g.input(InputKind::batch, "x", {f32, {4, 2}});
  std::string notes, updates;
  for (int i = 0; i < layers; ++i) {
    const Value w = g.parameter(fmt::format("w{}", i), {f32, {}}, Initializer::normal(0, 1)),
                m = g.input(InputKind::state, fmt::format("w{}.m", i), w.type());
    notes += fmt::format("state %{} of \"w{}\"\n", m.id, i);
    h = tanh(h * w * m);
    if (i % 2 == 0)
      notes += fmt::format("frozen %{}\n", w.id);
    else
      g.update(w, w * 0.5);
    g.update(m, m * 0.5);
  }
  g.metric("loss", mean(h));
  std::string text = to_string(g.finish());
  return text.insert(text.find("update %"), notes);
}

void read_graph(int layers) {
  const std::string text = graph_text(layers);
  const Graph graph = parse_graph(text, all_ops());
  CHECK(graph.inputs.size() == static_cast<std::size_t>(2 * layers + 1));
}

void read_plan(int layers) {
  const Graph graph = parse_graph(graph_text(layers), all_ops());
  const std::string text = to_json(testing::replicated_plan(graph, testing::mesh_of({2})), graph);
  CHECK(to_json(plan_from_json(text, graph, "plan.json"), graph) == text);
  CHECK(graph_from_plan_json(text, "plan.json").nodes.size() == graph.nodes.size());
}

/// Words of letters, the shorter ones first: a, b, …, z, aa, ab, …
std::string word(int number) {
  const std::string last(1, static_cast<char>('a' + number % 26));
  return number < 26 ? last : word(number / 26 - 1) + last;
}

void read_tokenizer(int words) {
  std::string vocabulary, merges = "#version: 0.2\n";
  for (int byte = 0, unprintable = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    vocabulary += fmt::format("\"\\u{:04x}\": {}, ", printable ? byte : 256 + unprintable++, byte);
  }
  vocabulary +=
      joined(words, ", ", [](int i) { return fmt::format("\"{}\": {}", word(26 + i), 256 + i); });
  for (int i = 26; i < 26 + words; ++i)
    merges += word(i).substr(0, word(i).size() - 1) + " " + word(i).back() + "\n";
  const TemporaryFile of_vocabulary("many_vocab.json", "{" + vocabulary + "}"),
      of_merges("many_merges.txt", merges);
  const Tokenizer tokenizer = Tokenizer::gpt2(of_vocabulary.path(), of_merges.path());
  CHECK(tokenizer.vocabulary() == 256 + words);
  const std::string text =
      joined(words, "", word) + std::string(static_cast<std::size_t>(words), ' ');
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);  // one very long word, many spaces
}

void read_contest(int nodes) {
  const auto listed = [&](int count, const auto& piece) {
    return "[" + joined(count, ",", piece) + "]";
  };
  const std::string text = fmt::format(
      R"({{"problem":{{"nodes":{{"intervals":{},"costs":{},"usages":{}}},"edges":{{"nodes":{},"costs":{}}},"usage_limit":9}}}})",
      listed(nodes, [](int i) { return fmt::format("[{},{}]", i, i + 3); }),
      listed(nodes, [](int i) { return fmt::format("[{},{}]", i, 7 * i); }),
      listed(nodes, [](int) { return "[1,2]"; }),
      listed(nodes - 1, [](int i) { return fmt::format("[{},{}]", i, i + 1); }),
      listed(nodes - 1, [](int i) { return fmt::format("[0,{},5,1]", i); }));
  CHECK(ilp::parse_contest(text, "contest.json").num_nodes == nodes);
}

void read_table(int rows) {
  const Dataset narrow =
      parse_csv(joined(rows, "\n", [](int i) { return fmt::format("{},{}", i, i % 3); }), "x.csv");
  CHECK(narrow.size() == rows);
  const Dataset wide =
      parse_csv(joined(rows, ",", [](int i) { return fmt::format("{}", i); }), "x.csv");
  CHECK(wide.features() == rows - 1);
}

void read_images(int rows) {
  std::string text({0, 0, 8, 2});
  for (const int extent : {rows, 4})
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(extent >> shift);
  CHECK(parse_idx(text + std::string(4 * static_cast<std::size_t>(rows), 'x'), "x.idx").shape() ==
        Shape{rows, 4});
}

void read_cluster(int points) {
  const auto list = [&](double scale) {
    return joined(points, ",", [&](int i) { return fmt::format("{}", scale * (i + 1)); });
  };
  const std::string text = fmt::format(
      R"({{"num_hosts":1,"devices_per_host":1,"device":{{"memory_bytes":9,"flops_per_second":{{}},)"
      R"("memory_bytes_per_second":1,"measured":{{"products":{{}},"loop_bytes":[{}],"loop_bytes_per_second":[{}]}}}}}})",
      list(1), list(2.5));
  CHECK(Cluster::from_json(text, "x.json").device.measured.loop_bytes.size() ==
        static_cast<std::size_t>(points));
}

void read_attributes(int numbers) {
  const std::string list = joined(numbers, ", ", [](int i) { return std::to_string(i); });
  CHECK(to_string(parse_attributes("{dims=[" + list + "]}")) == "{dims=[" + list + "]}");
}

}  // namespace

TEST_CASE("files of very many entries are read") {
  read_attributes(300'000);
  read_cluster(40'000);
  read_images(300'000);
  read_table(100'000);
  read_contest(30'000);
  read_tokenizer(60'000);
}

TEST_CASE("graphs and plans of very many nodes are read") {
  read_graph(20'000);
  read_plan(6'000);
}

}  // namespace many_entries_test

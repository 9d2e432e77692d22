// src/processes/tagged_world.cc — collective calls with a tag of their own
#include "src/processes/tagged_world.h"

#include <unistd.h>

#include <utility>

#include "src/base/exception_text.h"

namespace alpa::processes {
namespace {

constexpr useconds_t kRaisePatience = 500;  // microseconds between two looks

/// Kinds of failure. A failure is sent as the letter of its kind and the text; "" is success.
constexpr char kError = 'e', kBug = 'b';

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const LaunchFailed&) {
    throw;
  } catch (const Bug& thrown) {
    return kBug + std::string(thrown.what());
  } catch (...) {
    return kError + text_of(std::current_exception());
  }
}

}  // namespace

std::string name_of_rank(const World& world, int rank) {
  return to_string(world.processes()[static_cast<std::size_t>(rank)], world.size());
}

TaggedWorld::TaggedWorld(World& world, Waiting waiting)
    : world_(world), waiting_(waiting), tag_(world.reserve_tags(1)) {
  for (int peer = 0; peer < world.size(); ++peer) requests_.emplace_back();
}

/// Runs a collective call; if the launch fails meanwhile, throws LaunchFailed.
template <class Call>
auto TaggedWorld::together(Call&& call) {
  world_.require_alive();
  try {
    return call();
  } catch (const Aborted&) {
    world_.rethrow();
  }
}

void TaggedWorld::post(int peer, void* data, std::int64_t bytes, bool sends) {
  Request& request = requests_[peer];
  request.set(peer, tag_, static_cast<std::byte*>(data), bytes, sends);
  world_.courier().post(request, /*waits=*/waiting_ == Waiting::hurried);
}

void TaggedWorld::wait(int peer) {
  Request& request = requests_[peer];
  if (waiting_ == Waiting::hurried) return world_.courier().wait(request);
  std::uint32_t state = Request::kPosted;
  while ((state = request.state.load()) == Request::kPosted) ::usleep(kRaisePatience);
  if (state == Request::kAborted) throw Aborted();
}

std::string TaggedWorld::from_rank_0(std::string bytes) {
  return together([&] {
    const bool sends = world_.rank() == 0;
    const int first = sends ? 1 : 0, end = sends ? world_.size() : 1;
    std::int64_t length = std::ssize(bytes);
    for (int peer = first; peer < end; ++peer) post(peer, &length, sizeof length, sends);
    for (int peer = first; peer < end; ++peer) wait(peer);
    bytes.resize(static_cast<std::size_t>(length));
    for (int peer = first; peer < end; ++peer) post(peer, bytes.data(), length, sends);
    for (int peer = first; peer < end; ++peer) wait(peer);
    return std::move(bytes);
  });
}

std::vector<std::string> TaggedWorld::to_rank_0(const std::string& bytes) {
  return together([&] {
    std::vector<std::string> all;
    const auto own = static_cast<std::size_t>(world_.rank());
    const bool sends = own != 0;
    const int first = sends ? 0 : 1, end = sends ? 1 : world_.size();
    std::vector<std::int64_t> lengths(world_.size(), std::ssize(bytes));
    for (int peer = first; peer < end; ++peer)
      post(peer, &lengths[peer], sizeof lengths[peer], sends);
    for (int peer = first; peer < end; ++peer) wait(peer);
    all.resize(world_.size());
    all[own] = bytes;
    for (int peer = first; peer < end; ++peer) {
      std::string& text = sends ? all[own] : all[peer];
      text.resize(static_cast<std::size_t>(lengths[peer]));
      post(peer, text.data(), lengths[peer], sends);
    }
    for (int peer = first; peer < end; ++peer) wait(peer);
    if (sends) all.clear();
    return all;
  });
}

void TaggedWorld::in_all(const std::function<void()>& body) {
  const std::vector<std::string> failures = to_rank_0(failure_of(body));
  std::string first;
  for (int rank = 0; rank < std::ssize(failures) && first.empty(); ++rank)
    if (const std::string& failure = failures[rank]; !failure.empty())
      first = failure.front() + name_of_rank(world_, rank) + ": " + failure.substr(1);
  first = from_rank_0(std::move(first));
  if (first.empty()) return;
  const std::string text = first.substr(1);
  if (first.front() == kBug) throw Bug(text);
  throw Error(text);
}

}  // namespace alpa::processes

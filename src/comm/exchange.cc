// src/comm/exchange.cc — messages and scratch of a collective with other processes
#include "exchange.h"

#include <cstdlib>
#include <new>

namespace alpa::comm {
namespace {

constexpr std::int64_t kAlignment = 64;

}  // namespace

void Exchange::Free::operator()(std::byte* memory) const { std::free(memory); }

void Exchange::begin(bool planned) {
  planned_ = planned;
  taken_ = 0;
  used_ = 0;
}

void Exchange::reserve() {
  while (static_cast<int>(requests_.size()) < used_) requests_.emplace_back();
  if (taken_ <= bytes_) return;
  scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, taken_)));
  if (!scratch_) throw std::bad_alloc();
  bytes_ = taken_;
}

std::byte* Exchange::take(std::int64_t bytes) {
  const std::int64_t begin = taken_;
  taken_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return planned_ ? nullptr : scratch_.get() + begin;
}

int Exchange::post(int peer, int tag, std::byte* data, std::int64_t bytes, bool sends) {
  if (bytes == 0) return -1;
  const int number = used_++;
  if (planned_) return number;
  processes::Request& request = requests_[number];
  request.set(peer, tag, data, bytes, sends);
  courier_->post(request, /*waits=*/true);
  return number;
}

int Exchange::send(int peer, int tag, const std::byte* data, std::int64_t bytes) {
  return post(peer, tag, const_cast<std::byte*>(data), bytes, true);
}

int Exchange::receive(int peer, int tag, std::byte* data, std::int64_t bytes) {
  return post(peer, tag, data, bytes, false);
}

void Exchange::wait(int number) {
  if (number >= 0 && !planned_) courier_->wait(requests_[number]);
}

void Exchange::wait_all() {
  for (int number = 0; number < used_; ++number) wait(number);
}

}  // namespace alpa::comm

// src/runtime/background.cc — failures, signals and times that a run acts on between two steps
#include "src/runtime/background.h"

#include <utility>

namespace alpa::runtime {

void Background::record(std::exception_ptr thrown) {
  const std::lock_guard lock(mutex_);
  if (!thrown_) thrown_ = std::move(thrown);
  recorded_.notify_all();
}

std::exception_ptr Background::take() {
  const std::lock_guard lock(mutex_);
  agreed_.failed = false;
  return std::exchange(thrown_, nullptr);
}

void Background::rethrow_any() {
  if (const std::exception_ptr thrown = take()) std::rethrow_exception(thrown);
}

void Background::set_due(std::optional<Clock::time_point> due) {
  const std::lock_guard lock(mutex_);
  due_ = due;
  agreed_.due = false;
}

Background::View Background::look() const {
  const std::lock_guard lock(mutex_);
  return {0, thrown_ != nullptr, due_ && Clock::now() >= *due_};
}

void Background::agree(const View& view) {
  const std::lock_guard lock(mutex_);
  agreed_ = view;
}

Background::View Background::agreed() const {
  const std::lock_guard lock(mutex_);
  return agreed_;
}

void Background::rethrow_agreed() {
  {
    std::unique_lock lock(mutex_);
    if (!agreed_.failed) return;
    recorded_.wait(lock, [&] { return thrown_ != nullptr; });
  }
  rethrow_any();
}

void add_background(std::vector<std::weak_ptr<Background>>& all,
                    const std::shared_ptr<Background>& one) {
  std::erase_if(all, [&](const std::weak_ptr<Background>& other) {
    return other.expired() || other.lock() == one;
  });
  all.push_back(one);
}

std::vector<std::shared_ptr<Background>> kept(const std::vector<std::weak_ptr<Background>>& all) {
  std::vector<std::shared_ptr<Background>> result;
  for (const std::weak_ptr<Background>& one : all)
    if (auto shared = one.lock()) result.push_back(std::move(shared));
  return result;
}

}  // namespace alpa::runtime

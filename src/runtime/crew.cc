#include "crew.h"

#include "alpa/base/start_threads.h"

namespace alpa {

Crew::Crew(int size) : patience_(size) {
  start_threads(
      threads_, size - 1, "devices", [this](int i) { work(i + 1); }, [this] { dismiss(); });
}

Crew::~Crew() {
  dismiss();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::dismiss() {
  job_ = nullptr;
  ++epoch_;
  patience_.wake(epoch_);
}

void Crew::start(void (*job)(void*, int), void* context) {
  job_ = job;
  context_ = context;
  pending_ = static_cast<std::uint32_t>(threads_.size());
  ++epoch_;
  patience_.wake(epoch_);
  job(context, 0);
  patience_.wait(pending_, [](std::uint32_t pending) { return pending == 0; });
}

void Crew::work(int index) {
  for (std::uint32_t seen = 0;; ++seen) {
    patience_.wait(epoch_, [seen](std::uint32_t epoch) { return epoch != seen; });
    if (!job_) return;
    job_(context_, index);
    if (--pending_ == 0) patience_.wake(pending_);
  }
}

}  // namespace alpa

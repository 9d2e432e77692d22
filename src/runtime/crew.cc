#include "crew.h"

#include "alpa/base/start_threads.h"

namespace alpa {

Crew::Crew(int size) : patience_(size + 1) {
  start_threads(
      threads_, size, "devices", [this](int i) { work(i); }, [this] { dismiss(); });
}

Crew::~Crew() {
  dismiss();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::dismiss() {
  job_ = nullptr;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

void Crew::start(void (*job)(void*, int), void* context) {
  job_ = job;
  context_ = context;
  pending_.store(size(), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  patience_.wait(pending_, [](int pending) { return pending == 0; });
}

void Crew::work(int index) {
  for (std::uint32_t seen = 0;; ++seen) {
    patience_.wait(epoch_, [seen](std::uint32_t epoch) { return epoch != seen; });
    if (!job_) return;
    job_(context_, index);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_all();
  }
}

}  // namespace alpa

// src/mpi/mpi_wire.cc — non-blocking messages of bytes on a communicator of alpa's own
#include "mpi_wire.h"

#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "alpa/base/error.h"

namespace alpa::mpi {
namespace {

std::string text_of(int status) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(status, text, &length) != MPI_SUCCESS) return std::to_string(status);
  return {text, static_cast<std::size_t>(length)};
}

/// Throws Error unless `status`, of a call of the function `name`, is success.
void check(int status, std::string_view name) {
  if (status != MPI_SUCCESS) fail("{}: {}", name, text_of(status));
}

/// A number of bytes as MPI wants it: an `int` of elements of some type.
class Bytes {
 public:
  explicit Bytes(std::int64_t bytes) {
    constexpr std::int64_t kBlock = std::int64_t{1} << 30;
    if (bytes <= kBlock) {
      count_ = static_cast<int>(bytes);
      return;
    }
    const int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint places[] = {0, bytes / kBlock * kBlock};
    MPI_Datatype block = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block), "MPI_Type_contiguous");
    const MPI_Datatype types[] = {block, MPI_BYTE};
    check(MPI_Type_create_struct(2, lengths, places, types, &type_), "MPI_Type_create_struct");
    check(MPI_Type_free(&block), "MPI_Type_free");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  /// Messages under way keep their type.
  ~Bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

/// What the wire knows of a request of MPI.
struct Message {
  int ticket = 0, tag = 0;
  bool sent = false;  ///< else received
  std::int64_t bytes = 0;
};

/// MPI for the calling thread alone. Returns whether this ends it, too.
bool initialise() {
  int ended = 0, begun = 0, level = MPI_THREAD_SINGLE;
  check(MPI_Finalized(&ended), "MPI_Finalized");
  require(ended == 0, "MPI has been finalized, and it cannot be used again in this process");
  check(MPI_Initialized(&begun), "MPI_Initialized");
  if (begun != 0) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
    require(level == MPI_THREAD_MULTIPLE,
            "the program has initialised MPI without MPI_THREAD_MULTIPLE; ask for that, or leave "
            "MPI to alpa");
    return false;
  }
  // Defaults of Open MPI, unless the user has others; read when MPI starts. Waiting spins, which
  // starves the devices' threads. On one host messages over 4 KiB would wait for the receiver's
  // answer; up to 16 KiB and a header they go at once.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  setenv("OMPI_MCA_btl_vader_eager_limit", "16448", 0);
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  require(level >= MPI_THREAD_SERIALIZED, "this MPI does not support programs of several threads");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return true;
}

/// Of this process; hosts are numbered by their lowest rank.
int find_host(MPI_Comm world, int rank, int size) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int lowest = rank;
  check(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  std::vector<int> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, world), "MPI_Allgather");
  // Where a process is the lowest of its host, a host begins.
  int before = 0;
  for (int other = 0; other < lowest; ++other)
    before += all[static_cast<std::size_t>(other)] == other ? 1 : 0;
  return before;
}

class MpiWire final : public processes::Wire {
 public:
  MpiWire() : ends_mpi_(initialise()) {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
    host_ = find_host(world_, rank_, size_);
    int found = 0;
    int* value = nullptr;
    check(MPI_Comm_get_attr(world_, MPI_TAG_UB, static_cast<void*>(&value), &found),
          "MPI_Comm_get_attr");
    constexpr int kLeastByStandard = 32767;
    max_tag_ = found != 0 ? *value : kLeastByStandard;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int host() const override { return host_; }
  int max_tag() const override { return max_tag_; }

  int send(int peer, int tag, const std::byte* data, std::int64_t bytes) override {
    const Bytes what(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(data, what.count(), what.type(), peer, tag, world_, &request), "MPI_Isend");
    return add(request, {.tag = tag, .sent = true, .bytes = bytes});
  }

  int receive(int peer, int tag, std::byte* data, std::int64_t bytes) override {
    const Bytes what(bytes);
    const int source = peer == processes::kAnyPeer ? MPI_ANY_SOURCE : peer;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(data, what.count(), what.type(), source, tag, world_, &request), "MPI_Irecv");
    return add(request, {.tag = tag, .bytes = bytes});
  }

  int completed(std::span<int> tickets) override {
    if (done_.empty()) test();
    const std::size_t count = std::min(tickets.size(), done_.size());
    const auto end = done_.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(done_.begin(), end, tickets.begin());
    free_.insert(free_.end(), done_.begin(), end);
    done_.erase(done_.begin(), end);
    return static_cast<int>(count);
  }

  void abort(int status) noexcept override {
    if (left_) return;
    end_launch(status);
    MPI_Abort(world_, status);
  }

  bool leave() override {
    if (left_) return true;
    if (leaving_ == MPI_REQUEST_NULL) check(MPI_Ibarrier(world_, &leaving_), "MPI_Ibarrier");
    int all = 0;
    check(MPI_Test(&leaving_, &all, MPI_STATUS_IGNORE), "MPI_Test");
    if (all == 0) return false;
    give_up_messages();
    check(MPI_Comm_free(&world_), "MPI_Comm_free");
    if (ends_mpi_) check(MPI_Finalize(), "MPI_Finalize");
    return left_ = true;
  }

 private:
  int add(MPI_Request request, Message message) {
    if (free_.empty()) {
      message.ticket = tickets_++;
    } else {
      message.ticket = free_.back();
      free_.pop_back();
    }
    requests_.push_back(request);
    messages_.push_back(message);
    return message.ticket;
  }

  void give_up_messages() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (messages_[i].sent) {
        check(MPI_Request_free(&requests_[i]), "MPI_Request_free");
        continue;
      }
      check(MPI_Cancel(&requests_[i]), "MPI_Cancel");
      check(MPI_Wait(&requests_[i], MPI_STATUS_IGNORE), "MPI_Wait");
    }
    requests_.clear();
    messages_.clear();
  }

  /// Moves the tickets of completed requests to `done_`.
  void test() {
    const std::size_t all = requests_.size();
    if (all == 0) return push_out();
    places_.resize(all);
    statuses_.resize(all);
    int count = 0;
    const int status = MPI_Testsome(static_cast<int>(all), requests_.data(), &count, places_.data(),
                                    statuses_.data());
    if (status != MPI_ERR_IN_STATUS) check(status, "MPI_Testsome");
    if (count == MPI_UNDEFINED) return;
    for (int i = 0; i < count; ++i) {
      const Message& message = messages_[static_cast<std::size_t>(places_[i])];
      check_message(message, statuses_[i], status == MPI_ERR_IN_STATUS);
      done_.push_back(message.ticket);
    }
    remove_completed();
  }

  /// A completed send may still have to leave: MPI copied it. Testing no requests does nothing.
  void push_out() const {
    int ignored = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &ignored, MPI_STATUS_IGNORE),
          "MPI_Iprobe");
  }

  void check_message(const Message& message, const MPI_Status& status, bool some_failed) const {
    int kind = MPI_SUCCESS;
    if (some_failed) MPI_Error_class(status.MPI_ERROR, &kind);
    if (message.sent) {
      if (kind != MPI_SUCCESS) check(status.MPI_ERROR, "MPI_Isend");
      return;
    }
    invariant(kind != MPI_ERR_TRUNCATE,
              "message with tag {}: process {} sent more bytes than the {} that process {} awaits",
              message.tag, status.MPI_SOURCE, message.bytes, rank_);
    if (kind != MPI_SUCCESS) check(status.MPI_ERROR, "MPI_Irecv");
    MPI_Count bytes = 0;
    check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    invariant(bytes == message.bytes,
              "message with tag {}: process {} sent {} bytes, process {} awaits {}", message.tag,
              status.MPI_SOURCE, static_cast<std::int64_t>(bytes), rank_, message.bytes);
  }

  /// Those that MPI has set to null. The others keep their order, and so do tickets.
  void remove_completed() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      messages_[kept++] = messages_[i];
    }
    requests_.resize(kept);
    messages_.resize(kept);
  }

  const bool ends_mpi_;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Request leaving_ = MPI_REQUEST_NULL;
  bool left_ = false;
  int rank_ = 0, size_ = 1, host_ = 0, max_tag_ = 0;
  std::vector<MPI_Request> requests_;  ///< under way
  std::vector<Message> messages_;      ///< of `requests_`
  std::vector<int> done_;              ///< tickets to report
  std::vector<int> free_;              ///< tickets to give again
  int tickets_ = 0;                    ///< numbers in use or free
  std::vector<int> places_;            ///< for MPI_Testsome
  std::vector<MPI_Status> statuses_;   ///< for MPI_Testsome
};

}  // namespace

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return {text, static_cast<std::size_t>(length)};
}

void end_launch(int status) noexcept {
  // `pmix_status_t PMIx_Abort(int, const char*, pmix_proc_t[], size_t)` of the library that MPI has
  // loaded; no list of processes means all.
  using Abort = int(int, const char*, void*, std::size_t);
  void* found = dlsym(RTLD_DEFAULT, "PMIx_Abort");
  if (!found)
    if (void* const library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_NOLOAD))
      found = dlsym(library, "PMIx_Abort");
  if (found && reinterpret_cast<Abort*>(found)(status, nullptr, nullptr, 0) == 0) ::_exit(status);
}

std::unique_ptr<processes::Wire> make_wire() { return std::make_unique<MpiWire>(); }

}  // namespace alpa::mpi

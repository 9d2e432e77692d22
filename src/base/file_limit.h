#pragma once
/// Writing beyond the limit on the size of files (`ulimit -f`): a failure, not the program's end.
#include <cerrno>
#include <csignal>
#include <ctime>

namespace alpa {

/// While one exists, a write of this thread beyond the limit fails with EFBIG. What other threads
/// and the rest of the program make of SIGXFSZ stays as it is.
class FileLimitFails {
 public:
  FileLimitFails() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileLimitFails() {
    const int error = errno;
    const timespec none{};
    while (sigismember(&before_, SIGXFSZ) == 0 && sigtimedwait(&signal_, nullptr, &none) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  FileLimitFails(const FileLimitFails&) = delete;
  FileLimitFails& operator=(const FileLimitFails&) = delete;

 private:
  sigset_t signal_{}, before_{};
};

}  // namespace alpa

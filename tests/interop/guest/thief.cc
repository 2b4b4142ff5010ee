// Another client that tries to get the locks of the workers (load.cc). While the workers hold them it must get none,
// whatever happens to the server. After SIGTERM it waits for each lock, and gets it when the worker is gone.
//
//     thief LOCKED-FILE...
#include <csignal>
#include <memory>
#include <vector>

#include "check.h"

namespace guest {
namespace {

constexpr off_t kWithin = 1'000'000'000;  // an offset within the workers' locks
constexpr useconds_t kPause = 50'000;

// The signal is always blocked, so that it interrupts no call.
bool IsAskedToEnd() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
}

int Run(int count, char** names) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  std::vector<std::unique_ptr<File>> files;
  for (int each = 0; each < count; ++each) files.push_back(std::make_unique<File>(names[each], O_RDWR));
  uint64_t refusals = 0;
  while (!IsAskedToEnd()) {
    for (int each = 0; each < count; ++each, ++refusals) {
      const int result = files[size_t(each)]->Lock(F_SETLK, F_WRLCK, kWithin, 1);
      Check(IsRefusal(result), (result == 0 ? "stole the lock " : "tried the lock ") + std::string(names[each]));
    }
    usleep(kPause);
  }
  std::printf("thief of %s was refused %llu times, and waits\n", names[0], static_cast<unsigned long long>(refusals));
  std::fflush(stdout);
  for (int each = 0; each < count; ++each)
    Check(files[size_t(each)]->Lock(F_SETLKW, F_WRLCK, kWithin, 1) == 0,
          "wait for the lock " + std::string(names[each]));
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) { return guest::Run(count - 1, arguments + 1); }

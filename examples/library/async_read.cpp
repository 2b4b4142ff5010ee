// Reads files of an NFS server at the same time, with a time limit for each read, and until Ctrl-C is pressed.
//
//     async_read URL FILE...
//
// URL names a directory, such as nfs://server/export, and each FILE a file in it. For each file the program prints its
// size or why it could not be read. It returns 0 if it has read all of them.
//
// Build it with: g++ -std=c++20 async_read.cpp $(pkg-config --cflags --libs penstock)
#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/penstock.hpp>

namespace {

// How long the server may take for the answer to one read, and for closing something.
constexpr std::chrono::seconds kReadLimit(5);
constexpr std::chrono::seconds kCloseLimit(1);

// Reads an open file in pieces, and returns its size.
penstock::Task<penstock::Result<uint64_t>> ReadPieces(const penstock::File& file, std::stop_token stop) {
  // The buffer belongs to an operation while it is under way. The coroutine waits for that, so its variable will do.
  std::vector<std::byte> buffer(1 << 20);
  uint64_t size = 0;
  for (;;) {
    const penstock::Result<size_t> count = co_await file.Read(size, buffer).Within(kReadLimit).CancelledBy(stop);
    if (!count) co_return count.error();
    size += *count;
    if (*count < buffer.size()) co_return size;  // the end of the file
  }
}

// Returns the size of a file that it has read, or the failure of any step.
penstock::Task<penstock::Result<uint64_t>> ReadAll(const penstock::Mount& mount, std::string name,
                                                   std::stop_token stop) {
  penstock::Result<penstock::File> file = co_await mount.OpenFile(name, O_RDONLY).Within(kReadLimit).CancelledBy(stop);
  if (!file) co_return file.error();
  const penstock::Result<uint64_t> size = co_await ReadPieces(*file, stop);
  // Without this, the file would be closed when the variable is destroyed, but nobody would learn of a failure.
  const penstock::Result<> closed = co_await file->Close().Within(kCloseLimit);
  if (size && !closed) co_return closed.error();
  co_return size;
}

// Requests a stop when SIGINT arrives. The library handles no signals, and no function of it may be called in a signal
// handler. So the signal is blocked in all threads, and a thread of its own waits for it.
class Interruption {
 public:
  Interruption() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] {
      int signal = 0;
      sigwait(&signals_, &signal);
      stop_.request_stop();
    });
  }
  ~Interruption() {
    pthread_kill(thread_.native_handle(), SIGINT);  // ends the wait
    thread_.join();
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  sigset_t signals_;
  std::stop_source stop_;
  std::thread thread_;
};

int Run(const char* url, const std::vector<std::string>& names) {
  const Interruption interruption;
  penstock::Result<penstock::Runtime> runtime = penstock::Runtime::Make();
  if (!runtime) {
    std::fprintf(stderr, "async_read: %s\n", runtime.error().message.c_str());
    return 2;
  }
  penstock::Result<penstock::Mount> mount =
      penstock::Mount::Open(*runtime, url).Within(std::chrono::seconds(30)).CancelledBy(interruption.token()).Get();
  if (!mount) {
    std::fprintf(stderr, "async_read: %s\n", mount.error().message.c_str());
    return 2;
  }

  std::vector<penstock::Task<penstock::Result<uint64_t>>> reads;
  for (const std::string& name : names) reads.push_back(ReadAll(*mount, name, interruption.token()));
  const std::vector<penstock::Result<uint64_t>> sizes =
      penstock::SyncWait(*runtime, penstock::WhenAll(std::move(reads)));

  int status = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (sizes[i]) {
      std::printf("%s: %llu octets\n", names[i].c_str(), static_cast<unsigned long long>(*sizes[i]));
    } else {
      std::printf("%s: %s\n", names[i].c_str(), sizes[i].error().message.c_str());
      status = 1;
    }
  }
  const penstock::Result<> closed = mount->Close().Within(kCloseLimit).Get();
  if (!closed) std::fprintf(stderr, "async_read: %s\n", closed.error().message.c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: async_read URL FILE...\n");
    return 2;
  }
  return Run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}

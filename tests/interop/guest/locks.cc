// Conflicting byte-range locks of two clients. A lock belongs to a process and a file. For this kernel the two mounts
// have two files, so each refusal comes from the server.
//
//     locks FOLDER SAME-FOLDER-OF-ANOTHER-CLIENT ROUNDS
#include <sys/file.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <limits>

#include "check.h"

namespace guest {
namespace {

using std::chrono::steady_clock;

constexpr off_t kEnd = std::numeric_limits<off_t>::max();
constexpr off_t k4G = off_t{1} << 32;

struct Folders {
  std::string ours;
  std::string theirs;
};

// One file, opened by both clients.
struct Pair {
  Pair(const Folders& folders, const std::string& name)
      : ours(folders.ours + "/" + name, O_RDWR | O_CREAT), theirs(folders.theirs + "/" + name, O_RDWR) {}
  File ours;
  File theirs;
};

void Gets(const File& file, short type, off_t start, off_t length,
          std::source_location where = std::source_location::current()) {
  Check(file.Lock(F_SETLK, type, start, length) == 0, "a lock that nothing is in the way of", where);
}

void IsRefused(const File& file, short type, off_t start, off_t length,
               std::source_location where = std::source_location::current()) {
  Check(IsRefusal(file.Lock(F_SETLK, type, start, length)), "a lock that is in conflict", where);
}

void Ranges(const Folders& folders) {
  const Pair pair(folders, "ranges");
  Gets(pair.ours, F_WRLCK, 0, 100);
  IsRefused(pair.theirs, F_WRLCK, 50, 10);
  IsRefused(pair.theirs, F_RDLCK, 99, 1);
  IsRefused(pair.theirs, F_WRLCK, 0, 0);
  Gets(pair.theirs, F_WRLCK, 100, 10);
  IsRefused(pair.ours, F_RDLCK, 90, 11);

  struct flock found;
  Check(pair.theirs.Lock(F_GETLK, F_WRLCK, 20, 200, &found) == 0, "F_GETLK");
  Check(found.l_type == F_WRLCK && found.l_start == 0 && found.l_len == 100, "F_GETLK says what is in the way");
  Check(pair.theirs.Lock(F_GETLK, F_WRLCK, 200, 5, &found) == 0 && found.l_type == F_UNLCK, "nothing is in the way");

  // Unlocks the middle, which leaves two locks.
  Gets(pair.ours, F_UNLCK, 50, 10);
  Gets(pair.theirs, F_WRLCK, 50, 10);
  IsRefused(pair.theirs, F_WRLCK, 49, 1);
  IsRefused(pair.theirs, F_WRLCK, 60, 1);
  IsRefused(pair.ours, F_WRLCK, 0, 100);
  Gets(pair.theirs, F_UNLCK, 0, 0);
  Gets(pair.ours, F_WRLCK, 0, 0);
}

void Shared(const Folders& folders) {
  const Pair pair(folders, "shared");
  Gets(pair.ours, F_RDLCK, 0, 10);
  Gets(pair.theirs, F_RDLCK, 5, 10);
  IsRefused(pair.ours, F_WRLCK, 0, 10);  // changing the type requests the whole range
  Gets(pair.ours, F_WRLCK, 0, 5);
  IsRefused(pair.theirs, F_RDLCK, 0, 1);
  Gets(pair.theirs, F_UNLCK, 5, 10);
  Gets(pair.ours, F_WRLCK, 0, 10);
  IsRefused(pair.theirs, F_RDLCK, 9, 1);
  Gets(pair.ours, F_RDLCK, 0, 10);
  Gets(pair.theirs, F_RDLCK, 0, 10);
}

void Edges(const Folders& folders) {
  const Pair pair(folders, "edges");
  Gets(pair.ours, F_WRLCK, k4G - 1, 2);
  IsRefused(pair.theirs, F_WRLCK, k4G, 1);
  Gets(pair.theirs, F_WRLCK, k4G - 2, 1);
  Gets(pair.theirs, F_WRLCK, k4G + 1, 1);

  Gets(pair.ours, F_WRLCK, kEnd - 1, 1);
  IsRefused(pair.theirs, F_RDLCK, kEnd - 1, 0);
  IsRefused(pair.theirs, F_WRLCK, kEnd / 2, 0);
  Gets(pair.theirs, F_WRLCK, kEnd - 2, 1);
  Gets(pair.theirs, F_WRLCK, kEnd, 1);  // the last possible octet, which Linux treats as "to the end"
  IsRefused(pair.ours, F_WRLCK, kEnd, 0);
  Gets(pair.theirs, F_UNLCK, 0, 0);
  Gets(pair.ours, F_WRLCK, kEnd, 0);
  IsRefused(pair.theirs, F_RDLCK, kEnd, 1);
}

// For the server, flock() is a lock of the whole file by another owner.
void Whole(const Folders& folders) {
  const Pair pair(folders, "whole");
  Check(flock(pair.ours.fd(), LOCK_EX | LOCK_NB) == 0, "flock");
  Check(flock(pair.theirs.fd(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK, "flock in conflict");
  IsRefused(pair.theirs, F_RDLCK, 1000, 1);
  Check(flock(pair.ours.fd(), LOCK_SH | LOCK_NB) == 0, "to a shared one");
  Check(flock(pair.theirs.fd(), LOCK_SH | LOCK_NB) == 0, "two shared ones");
  Check(flock(pair.ours.fd(), LOCK_UN) == 0, "unlock");
  IsRefused(pair.ours, F_WRLCK, 0, 1);
  Check(flock(pair.theirs.fd(), LOCK_UN) == 0, "unlock");
  Gets(pair.ours, F_WRLCK, 0, 1);
}

// Under a write delegation the client grants locks itself. Before it returns the delegation, it must request them from
// the server (RFC 8881 §10.4.5).
void Delegated(const Folders& folders) {
  const File ours(folders.ours + "/delegated", O_RDWR | O_CREAT);
  Gets(ours, F_WRLCK, 10, 10);
  const File theirs(folders.theirs + "/delegated", O_RDWR);
  IsRefused(theirs, F_WRLCK, 0, 0);
  Gets(theirs, F_WRLCK, 20, 10);
  IsRefused(ours, F_WRLCK, 25, 1);
}

class Child {
 public:
  explicit Child(auto&& work) : pid_(fork()) {
    Check(pid_ >= 0, "fork");
    if (pid_ > 0) return;
    work();
    _exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool IsRunning() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }
  void Kill() { Check(kill(pid_, SIGKILL) == 0 && waitpid(pid_, nullptr, 0) == pid_, "end a child"); }
  void Wait(std::source_location where = std::source_location::current()) {
    int status = 0;
    Check(waitpid(pid_, &status, 0) == pid_ && status == 0, "a child failed", where);
  }

 private:
  pid_t pid_;
};

void WaitForLock(const File& file) { Check(file.Lock(F_SETLKW, F_WRLCK, 0, 0) == 0, "wait for a lock"); }

// A waiter gets the lock when it is free: after an unlock, and after the end of the holder's process.
void Waiting(const Folders& folders) {
  const Pair pair(folders, "waiting");
  const auto measure = [](const char* what, Child& waiter, auto&& free) {
    sleep(4);  // Linux polls after 1, 2, 4 ... seconds: after this sleep only a notified client is quick
    Check(waiter.IsRunning(), "it waits");
    free();
    const auto began = steady_clock::now();
    waiter.Wait();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - began);
    std::printf("a lock freed by %s is had after %lld ms\n", what, static_cast<long long>(took.count()));
    Check(took < std::chrono::seconds(20), "the lock is had");
  };
  {
    Gets(pair.ours, F_WRLCK, 10, 10);
    Child waiter([&] { WaitForLock(pair.theirs); });
    measure("its owner", waiter, [&] { Gets(pair.ours, F_UNLCK, 0, 0); });
  }
  {
    Child holder([&] {
      Gets(pair.theirs, F_WRLCK, 0, 5);
      pause();
    });
    struct flock found = {};
    do Check(holder.IsRunning() && pair.ours.Lock(F_GETLK, F_WRLCK, 0, 0, &found) == 0, "look for its lock");
    while (found.l_type == F_UNLCK);
    Child waiter([&] { WaitForLock(pair.ours); });
    measure("its owner's end", waiter, [&] { holder.Kill(); });
  }
}

// A waiter that has given up does not delay others for long.
void GivenUp(const Folders& folders) {
  const Pair pair(folders, "given_up");
  Gets(pair.ours, F_WRLCK, 0, 10);
  Child waiter([&] { WaitForLock(pair.theirs); });
  sleep(1);
  waiter.Kill();
  Gets(pair.ours, F_UNLCK, 0, 0);
  WaitForLock(pair.ours);
  Gets(pair.ours, F_UNLCK, 0, 0);
  WaitForLock(pair.theirs);
}

// Processes of both clients increment a counter in one file, under its lock. Each must read what the last one wrote:
// after getting a lock, a client must revalidate its cache (RFC 8881 §10.3.2).
void Counting(const Folders& folders, int rounds) {
  constexpr int kProcesses = 4;
  const std::string name = "/counter";
  File(folders.ours + name, O_WRONLY | O_CREAT).Write(std::string(sizeof(int), '\0'), 0);
  const auto count = [&](const std::string& folder) {
    const File file(folder + name, O_RDWR);
    for (int round = 0; round < rounds; ++round) {
      int counter = 0;
      WaitForLock(file);
      Check(pread(file.fd(), &counter, sizeof(counter), 0) == sizeof(counter), "read the counter");
      ++counter;
      Check(pwrite(file.fd(), &counter, sizeof(counter), 0) == sizeof(counter), "write the counter");
      Gets(file, F_UNLCK, 0, 0);
    }
  };
  {
    Child a([&] { count(folders.ours); });
    Child b([&] { count(folders.theirs); });
    Child c([&] { count(folders.ours); });
    Child d([&] { count(folders.theirs); });
    for (Child* child : {&a, &b, &c, &d}) child->Wait();
  }
  int counter = 0;
  const std::string data = File(folders.ours + name, O_RDONLY).ReadAll();
  std::memcpy(&counter, data.data(), sizeof(counter));
  Check(counter == kProcesses * rounds, "counted to " + std::to_string(counter));
}

int Run(const Folders& folders, int rounds) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  const auto scenario = [&](const char* name, auto&& run) {
    const auto began = steady_clock::now();
    run();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - began);
    std::printf("locks: %s, %lld ms\n", name, static_cast<long long>(took.count()));
  };
  scenario("ranges", [&] { Ranges(folders); });
  scenario("shared", [&] { Shared(folders); });
  scenario("edges", [&] { Edges(folders); });
  scenario("whole", [&] { Whole(folders); });
  scenario("delegated", [&] { Delegated(folders); });
  scenario("waiting", [&] { Waiting(folders); });
  scenario("given up", [&] { GivenUp(folders); });
  scenario("counting", [&] { Counting(folders, rounds); });
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) {
  if (count != 4) return 2;
  return guest::Run({arguments[1], arguments[2]}, std::stoi(arguments[3]));
}

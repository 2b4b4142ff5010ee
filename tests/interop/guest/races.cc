// Two processes of each of two clients make the same name at the same moment, round after round: exactly one must
// succeed.
//
//     races FOLDER SAME-FOLDER-OF-ANOTHER-CLIENT ROUNDS
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <vector>

#include "check.h"

namespace guest {
namespace {

constexpr int kRacers = 4;

// In memory shared by all racers.
struct Shared {
  std::atomic<int> arrived{0};
  std::array<std::atomic<int>, 3> made{};  // for each way: the wins in the current round
  std::array<std::atomic<int>, kRacers> wins{};

  // Waits for all racers.
  void Meet() {
    const int turn = arrived.fetch_add(1) / kRacers;
    while (arrived.load() < (turn + 1) * kRacers) sched_yield();
  }
};

// Each way to make a name returns true if this racer made it.
bool MakeFile(const std::string& path, int racer) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (fd < 0) {
    Check(errno == EEXIST, "create " + path);
    return false;
  }
  const std::string name = std::to_string(racer);
  Check(write(fd, name.data(), name.size()) == ssize_t(name.size()) && close(fd) == 0, "write " + path);
  return true;
}

bool MakeFolder(const std::string& path, int) {
  if (mkdir(path.c_str(), 0755) == 0) return true;
  Check(errno == EEXIST, "mkdir " + path);
  return false;
}

bool Take(const std::string& path, const std::string& from) {
  if (rename(from.c_str(), path.c_str()) == 0) return true;
  Check(errno == ENOENT, "rename " + from);
  return false;
}

void Race(const std::string& folder, int racer, int rounds, Shared& shared) {
  for (int round = 0; round < rounds; ++round) {
    const std::string name = folder + "/" + std::to_string(round);
    shared.Meet();
    const bool won = MakeFile(name, racer);
    shared.made[0] += won;
    shared.wins[size_t(racer)] += won;
    shared.Meet();
    shared.made[1] += MakeFolder(name + ".folder", racer);
    shared.Meet();
    shared.made[2] += Take(name + ".taken-by-" + std::to_string(racer), name);
    shared.Meet();
    if (racer == 0) {
      for (std::atomic<int>& made : shared.made)
        Check(made.exchange(0) == 1, "round " + std::to_string(round) + ": not made exactly once");
    }
  }
}

int Run(const std::string& ours, const std::string& theirs, int rounds) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  Shared& shared = *new (memory) Shared;
  std::vector<pid_t> racers;
  for (int racer = 0; racer < kRacers; ++racer) {
    racers.push_back(fork());
    if (racers.back() > 0) continue;
    Race(racer % 2 ? theirs : ours, racer, rounds, shared);
    _exit(0);
  }
  for (size_t left = racers.size(); left > 0; --left) {
    int status = 0;
    Check(wait(&status) > 0 && status == 0,
          "a racer failed");  // the others wait for it, and end with the guest
  }
  for (int racer = 0; racer < kRacers; ++racer)
    std::printf("racer %d won %d\n", racer, shared.wins[size_t(racer)].load());
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) {
  if (count != 4) return 2;
  return guest::Run(arguments[1], arguments[2], std::stoi(arguments[3]));
}

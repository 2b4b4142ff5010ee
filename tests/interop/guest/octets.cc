// Prints the given number of unique octets. In an emulated guest, /dev/urandom takes ten times as long.
//
//     octets COUNT
#include <sys/random.h>

#include <algorithm>
#include <array>

#include "check.h"

namespace guest {
namespace {

int Run(size_t count) {
  uint64_t seed = 0;
  Check(getrandom(&seed, sizeof(seed), 0) == ssize_t(sizeof(seed)), "getrandom");
  Random random(seed);
  std::array<uint64_t, 8192> words;
  while (count > 0) {
    for (uint64_t& word : words) word = random.Next();
    const size_t size = std::min(count, sizeof(words));
    Check(std::fwrite(words.data(), 1, size, stdout) == size, "write");
    count -= size;
  }
  Check(std::fflush(stdout) == 0, "write");
  return 0;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  guest::Check(argc == 2, "octets COUNT");
  return guest::Run(std::stoul(argv[1]));
}

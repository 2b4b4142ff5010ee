// Copies files as cp(1) does, by copy_file_range(2) until the end of the source, and compares each copy with its
// source.
//
//     copier FROM TO [FROM TO ...]
#include "check.h"

namespace guest {
namespace {

void Compare(const File& source, const File& target, const std::string& path) {
  Check(posix_fadvise(target.fd(), 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise " + path);
  std::string right(size_t{8} << 20, '\0'), got = right;
  for (off_t at = 0;; at += off_t(right.size())) {
    const ssize_t size = pread(source.fd(), right.data(), right.size(), at);
    Check(size >= 0 && pread(target.fd(), got.data(), got.size(), at) == size, "the size of " + path);
    Check(right == got, path + " differs after " + std::to_string(at));
    if (size < ssize_t(right.size())) return;
  }
}

void Copy(const std::string& from, const std::string& to) {
  const File source(from, O_RDONLY);
  const File target(to, O_RDWR | O_CREAT | O_TRUNC);
  int calls = 0;
  for (ssize_t copied = 1; copied > 0; ++calls) {
    copied = copy_file_range(source.fd(), nullptr, target.fd(), nullptr, size_t{1} << 30, 0);
    Check(copied >= 0, "copy_file_range to " + to);
  }
  target.Sync();
  Compare(source, target, to);
  std::printf("copied %s by %d calls\n", to.c_str(), calls);
  std::fflush(stdout);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  guest::Check(argc > 2 && argc % 2 == 1, "copier FROM TO [FROM TO ...]");
  for (int i = 1; i < argc; i += 2) guest::Copy(argv[i], argv[i + 1]);
  return 0;
}

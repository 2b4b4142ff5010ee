#include "base/data.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace penstock {

void Data::CopyTo(Bytes to) const {
  assert(to.size() == size_);
  if (!is_file()) return CopyBytes(to, memory_.bytes());
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t n =
        ::pread(file_->get(), to.data() + done, to.size() - done, static_cast<off_t>(file_offset_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  std::fill(to.begin() + static_cast<ptrdiff_t>(done), to.end(), std::byte{0});
}

}  // namespace penstock

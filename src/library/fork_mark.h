// Tells whether this is the process that made an object, or a child that fork() gave a copy.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>

namespace penstock::library {

// Any thread.
class ForkMark {
 public:
  // Throws std::bad_alloc.
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  // False in a child of the process that made the mark.
  bool is_here() const;

 private:
  // A page that is zero in the child (MADV_WIPEONFORK): to read it costs nothing. Null on a kernel before 4.14.
  std::atomic<bool>* page_ = nullptr;
  const pid_t process_;
};

}  // namespace penstock::library

#include "library/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace penstock::library {
namespace {

size_t PageSize() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

ForkMark::ForkMark() : process_(::getpid()) {
  void* const page = ::mmap(nullptr, PageSize(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  if (::madvise(page, PageSize(), MADV_WIPEONFORK) != 0) {
    ::munmap(page, PageSize());
    return;
  }
  page_ = new (page) std::atomic<bool>(true);
}

ForkMark::~ForkMark() {
  if (page_) ::munmap(page_, PageSize());
}

bool ForkMark::is_here() const { return page_ ? page_->load(std::memory_order_relaxed) : ::getpid() == process_; }

}  // namespace penstock::library

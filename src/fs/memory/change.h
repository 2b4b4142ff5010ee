// The frame of each method of memory::FileSystem: it takes the lock, and records the object's attributes before and
// after the work.
#pragma once

#include <algorithm>
#include <mutex>

#include "fs/memory/file_system.h"

namespace penstock::fs::memory {

inline constexpr uint64_t kRootId = 2;
inline constexpr size_t kNameMax = 255;
inline constexpr uint32_t kCloneBlockSize = 4096;

// Clears the set-id bits of a program after a write by any caller but root, and after a change of owner.
inline void DropSetId(Attributes& file) {
  file.mode &= ~04000u;
  if ((file.mode & 0010) != 0) file.mode &= ~02000u;
}

// The buffer pool of the calling thread. Buffers may outlive their thread.
inline BufferPool& ThreadBuffers() {
  static thread_local BufferPool pool;
  return pool;
}

template <class T, class Function>
Changed<T> FileSystem::Change(const Handle& object, Function change) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(object);
  if (!inode) return {std::unexpected(inode.error()), {}};
  const PreAttributes before = BeforeOf((*inode)->attributes);
  Result<T> result = change(**inode);
  return {std::move(result), {before, (*inode)->attributes, true}};
}

template <class T, class Function>
Observed<T> FileSystem::Observe(const Handle& object, Function look) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(object);
  if (!inode) return {std::unexpected(inode.error()), {}};
  Result<T> result = look(**inode);
  return {std::move(result), (*inode)->attributes};
}

template <class Function>
void FileSystem::WriteRange(const Credentials& caller, Inode& file, uint64_t end, Function write) {
  used_ -= file.content.used();
  write(file.content);
  used_ += file.content.used();
  file.attributes.size = std::max(file.attributes.size, end);
  file.attributes.used = file.content.used();
  if (caller.uid != 0) DropSetId(file.attributes);
  Touch(file, true);
}

}  // namespace penstock::fs::memory

// Defaults and checks that the methods that create objects share.
#pragma once

#include "fs/types.h"

namespace penstock::fs {

// The modes of new objects whose creator names none.
inline constexpr uint32_t kFileMode = 0600;
inline constexpr uint32_t kDirectoryMode = 0700;

// Removes the attribute that the creation itself sets.
inline NewAttributes WithoutMode(NewAttributes attributes) {
  attributes.mode.reset();
  return attributes;
}

// Whether anything is left to set in a new object, which is empty.
inline bool SetsAnything(const NewAttributes& values) {
  return values.mode || values.uid || values.gid || values.size.value_or(0) != 0 || SetsTimes(values);
}

}  // namespace penstock::fs

// The type of an object as a part of its mode, as in stat().
#pragma once

#include <sys/stat.h>

#include "fs/types.h"

namespace penstock::fs {

inline FileType TypeOfMode(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return FileType::kDirectory;
    case S_IFBLK:
      return FileType::kBlock;
    case S_IFCHR:
      return FileType::kCharacter;
    case S_IFLNK:
      return FileType::kSymlink;
    case S_IFSOCK:
      return FileType::kSocket;
    case S_IFIFO:
      return FileType::kFifo;
    default:
      return FileType::kRegular;
  }
}

inline uint32_t FormatOf(FileType type) {
  switch (type) {
    case FileType::kDirectory:
      return S_IFDIR;
    case FileType::kBlock:
      return S_IFBLK;
    case FileType::kCharacter:
      return S_IFCHR;
    case FileType::kSymlink:
      return S_IFLNK;
    case FileType::kSocket:
      return S_IFSOCK;
    case FileType::kFifo:
      return S_IFIFO;
    case FileType::kRegular:
      break;
  }
  return S_IFREG;
}

}  // namespace penstock::fs

// Unix permission from the mode bits, and the rights of NFS that follow from it.
#pragma once

#include <algorithm>

#include "fs/types.h"

namespace penstock::fs {

struct Rights {
  bool read = false;
  bool write = false;
  bool execute = false;  // for a directory: search
};

inline bool IsOwner(const Attributes& object, const Credentials& caller) {
  return caller.uid == 0 || caller.uid == object.uid;
}

inline bool IsMember(const Credentials& caller, uint32_t gid) {
  return caller.gid == gid || std::ranges::find(caller.groups, gid) != caller.groups.end();
}

inline Rights RightsOf(const Attributes& object, const Credentials& caller) {
  if (caller.uid == 0) return {true, true, object.type == FileType::kDirectory || (object.mode & 0111) != 0};
  const uint32_t bits = caller.uid == object.uid       ? object.mode >> 6
                        : IsMember(caller, object.gid) ? object.mode >> 3
                                                       : object.mode;
  return {(bits & 4) != 0, (bits & 2) != 0, (bits & 1) != 0};
}

// Converts rights to those of RFC 1813 §3.3.4. Delete applies to directories: it is the right to delete their entries.
// Execute applies to all objects but directories, and lookup to directories only.
inline AccessMask AccessOf(FileType type, const Rights& rights) {
  AccessMask mask = 0;
  if (rights.read) mask |= kAccessRead;
  // RFC 8276 §8.5: files and directories have extended attributes, and the rights to their data decide.
  if (type == FileType::kRegular || type == FileType::kDirectory) {
    if (rights.read) mask |= kAccessXattrRead | kAccessXattrList;
    if (rights.write) mask |= kAccessXattrWrite;
  }
  if (type == FileType::kDirectory) {
    if (rights.execute) mask |= kAccessLookup;
    if (rights.write) mask |= kAccessModify | kAccessExtend;
    if (rights.write && rights.execute) mask |= kAccessDelete;
  } else {
    if (rights.write) mask |= kAccessModify | kAccessExtend;
    if (rights.execute) mask |= kAccessExecute;
  }
  return mask;
}

// NFS has no open: a client checks permission once, when it opens a file, and the owner may take the right away from
// itself afterwards. So the owner may always read and write. A caller with the right to execute may also read, to run
// the program (RFC 1813 §4.4).
inline bool MayReadData(const Attributes& file, const Credentials& caller, const Rights& rights) {
  return IsOwner(file, caller) || rights.read || rights.execute;
}
inline bool MayWriteData(const Attributes& file, const Credentials& caller, const Rights& rights) {
  return IsOwner(file, caller) || rights.write;
}

// RFC 1813 §3.3.6: only regular files can be read.
inline Result<void> CheckRegular(FileType type) {
  if (type == FileType::kRegular) return {};
  return std::unexpected(type == FileType::kDirectory ? Error::kIsDir : Error::kInvalid);
}

}  // namespace penstock::fs

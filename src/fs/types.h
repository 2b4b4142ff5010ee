// The words of the file-system interface: handles, errors, attributes, who asks, and what changed.
#pragma once

#include <array>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strong.h"

namespace penstock::fs {

// What a file system calls one of its objects: opaque to everybody else, the same after a restart, never given to
// another object. Short enough that an export's prefix fits beside it into the 64 octets of RFC 1813 §2.4.
class Handle {
 public:
  static constexpr size_t kMaxSize = 48;

  Handle() = default;
  // Empty where `bytes` are longer than any handle is.
  static std::optional<Handle> FromBytes(ConstBytes bytes) {
    if (bytes.size() > kMaxSize) return std::nullopt;
    Handle handle;
    handle.size_ = static_cast<uint8_t>(bytes.size());
    CopyBytes(handle.bytes_, bytes);
    return handle;
  }

  ConstBytes bytes() const { return {bytes_.data(), size_}; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool operator==(const Handle& other) const { return Equal(bytes(), other.bytes()); }

 private:
  std::array<std::byte, kMaxSize> bytes_{};
  uint8_t size_ = 0;
};

// What an object is, whichever handle leads to it: a directory that is exported twice gives two handles to each file in
// it, and the file one identity. Known to this run of the server only.
struct Identity {
  uint64_t volume = 0;  // the file system among those of this machine
  Handle object;        // the object among those of the file system, as octets that are nobody's handle
  bool operator==(const Identity&) const = default;
};

// One value for each status that some version of NFS can tell its client.
enum class Error : uint8_t {
  kPerm,          // not the owner, or a privileged operation
  kNoEnt,         // no such name
  kIo,            // the disk's own trouble
  kNxIo,          // no such device
  kAccess,        // permission denied
  kExist,         // the name is taken
  kXDev,          // a link or rename between two file systems
  kNoDev,         // no such device
  kNotDir,        // a directory was needed
  kIsDir,         // anything but a directory was needed
  kInvalid,       // an argument that makes no sense for this object
  kFileTooBig,    // beyond the largest file
  kNoSpace,       // the disk is full
  kReadOnly,      // the file system is read-only
  kTooManyLinks,  // the link count's limit
  kNameTooLong,   // longer than name_max
  kNotEmpty,      // the directory has entries
  kQuota,         // the owner's quota is used up
  kStale,         // the handle's object is no more
  kBadHandle,     // bytes that are no handle of ours
  kNotSync,       // the guard of SetAttributes does not hold
  kBadCookie,     // no place in a directory
  kNotSupported,  // this file system cannot
  kServerFault,   // an error that has no other name
  kBadType,       // a type of object that cannot be made
  kDelay,         // try again later
  kCovered,       // served by another export than this one
  kBadName,       // an empty name, '.' or '..' where they make no sense, '/' or NUL in it
  kNoXattr,       // no extended attribute of that name
  kXattrTooBig,   // a larger extended attribute than can be kept
};

std::string_view ToString(Error error);

template <class T>
using Result = penstock::Result<T, Error>;

enum class FileType : uint8_t { kRegular, kDirectory, kBlock, kCharacter, kSymlink, kSocket, kFifo };

struct Timestamp {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  auto operator<=>(const Timestamp&) const = default;
};

struct Device {
  uint32_t major = 0;
  uint32_t minor = 0;
  bool operator==(const Device&) const = default;
};

struct Attributes {
  FileType type = FileType::kRegular;
  uint32_t mode = 0;  // the permission bits, set-id and sticky: 07777
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  uint64_t used = 0;  // octets on disk
  Device rdev;
  uint64_t fsid = 0;
  uint64_t fileid = 0;
  Timestamp atime;
  Timestamp mtime;
  Timestamp ctime;
  std::optional<Timestamp> born;  // where the file system knows
  uint64_t change = 0;            // differs whenever data or attributes do (RFC 8881 §5.8.1.4)
};

// Who asks. `groups` is borrowed for as long as the call lasts.
struct Credentials {
  uint32_t uid = 65534;
  uint32_t gid = 65534;
  std::span<const uint32_t> groups;
};

struct SetTime {
  enum class How : uint8_t { kKeep, kServerTime, kGiven };
  How how = How::kKeep;
  Timestamp time;  // of kGiven
};

// What SetAttributes and the methods that create are to set; everything else stays.
struct NewAttributes {
  std::optional<uint32_t> mode;
  // Of those that create: bits that go from the mode, unless the directory hands an access control list down
  // (RFC 8275 §4). Set() has no use for it.
  uint32_t umask = 0;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size;
  SetTime atime;
  SetTime mtime;
};

inline bool SetsTimes(const NewAttributes& values) {
  return values.atime.how != SetTime::How::kKeep || values.mtime.how != SetTime::How::kKeep;
}

// RFC 1813 §2.6: what a client compares with its cache to learn whether somebody else changed the object meanwhile.
struct PreAttributes {
  uint64_t size = 0;
  Timestamp mtime;
  Timestamp ctime;
  uint64_t change = 0;  // change_info4's `before`
};

inline PreAttributes BeforeOf(const Attributes& a) { return {a.size, a.mtime, a.ctime, a.change}; }

struct WeakCacheData {
  std::optional<PreAttributes> before;
  std::optional<Attributes> after;
};

// A method that changes nothing: its result, and the attributes of the object that it was called on, in success and in
// failure alike (absent only where the handle leads nowhere).
template <class T>
struct Observed {
  Result<T> result;
  std::optional<Attributes> attributes;
};

// A method that changes the object that it was called on: before and after, in success and in failure alike.
template <class T>
struct Changed {
  Result<T> result;
  WeakCacheData object;
};

struct Renamed {
  Result<void> result;
  WeakCacheData from;
  WeakCacheData to;
};

struct Linked {
  Result<void> result;
  std::optional<Attributes> file;
  WeakCacheData directory;
};

// An object as Lookup finds it and as the creating methods leave it.
struct Node {
  Handle handle;
  Attributes attributes;
  bool existed = false;  // of Create: the file was there before, and of its attributes a size of zero alone was obeyed
};

struct WriteVerifierTag;
using WriteVerifier = Strong<WriteVerifierTag, uint64_t>;  // differs when unstable writes may have been lost
struct CreateVerifierTag;
using CreateVerifier = Strong<CreateVerifierTag, uint64_t>;
struct CookieTag;
using Cookie = Strong<CookieTag, uint64_t>;  // a place in a directory; zero is its beginning
struct CookieVerifierTag;
using CookieVerifier = Strong<CookieVerifierTag, uint64_t>;

// A bit for each right that Access asks about (RFC 1813 §3.3.4, RFC 8276 §8.5; same values).
using AccessMask = uint32_t;
inline constexpr AccessMask kAccessRead = 0x01;
inline constexpr AccessMask kAccessLookup = 0x02;
inline constexpr AccessMask kAccessModify = 0x04;
inline constexpr AccessMask kAccessExtend = 0x08;
inline constexpr AccessMask kAccessDelete = 0x10;
inline constexpr AccessMask kAccessExecute = 0x20;
inline constexpr AccessMask kAccessXattrRead = 0x40;
inline constexpr AccessMask kAccessXattrWrite = 0x80;
inline constexpr AccessMask kAccessXattrList = 0x100;

enum class Stability : uint8_t { kUnstable, kDataSync, kFileSync };

}  // namespace penstock::fs

template <>
struct std::hash<penstock::fs::Handle> {
  size_t operator()(const penstock::fs::Handle& handle) const {
    return std::hash<std::string_view>{}(penstock::AsText(handle.bytes()));
  }
};

template <>
struct std::hash<penstock::fs::Identity> {
  size_t operator()(const penstock::fs::Identity& identity) const {
    return std::hash<penstock::fs::Handle>{}(identity.object) ^ (identity.volume * 0x9e3779b97f4a7c15u);
  }
};

// The types of the file-system interface: handles, errors, attributes, credentials, and the results of methods.
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

// The name that a file system gives to one of its objects. Only that file system reads it. It stays the same after a
// restart, and is never given to another object. It is short enough to fit, with an export's prefix, into the 64
// octets of RFC 1813 §2.4.
class Handle {
 public:
  static constexpr size_t kMaxSize = 48;

  Handle() = default;
  // Returns no handle if `bytes` are longer than kMaxSize.
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

// Identifies an object independently of the handle that leads to it. If a directory is exported twice, each file in
// it has two handles and one identity. It is valid for this run of the server only.
struct Identity {
  uint64_t volume = 0;  // the file system, among those of this machine
  Handle object;        // the object within the file system; these octets are never used as a handle
  bool operator==(const Identity&) const = default;
};

// One value for each file-system error that some version of NFS can report to its client.
enum class Error : uint8_t {
  kPerm,          // the caller is not the owner, or the operation needs privileges
  kNoEnt,         // the name does not exist
  kIo,            // the disk failed
  kNxIo,          // the device does not exist
  kAccess,        // permission denied
  kExist,         // the name exists already
  kXDev,          // a link or rename between two file systems
  kNoDev,         // the device does not exist
  kNotDir,        // the object is not a directory, and must be one
  kIsDir,         // the object is a directory, and must not be one
  kInvalid,       // the argument is invalid for this object
  kFileTooBig,    // beyond the largest size of a file
  kNoSpace,       // the disk is full
  kReadOnly,      // the file system is read-only
  kTooManyLinks,  // the file has as many links as it may have
  kNameTooLong,   // longer than Properties::name_max
  kNotEmpty,      // the directory has entries
  kQuota,         // the owner's quota is used up
  kStale,         // the handle's object no longer exists
  kBadHandle,     // not a handle of this file system
  kNotSync,       // the guard of SetAttributes does not match
  kBadCookie,     // the cookie is not a position in the directory
  kNotSupported,  // the file system does not support this
  kServerFault,   // any other error
  kBadType,       // objects of this type cannot be created
  kDelay,         // the caller must try again later
  kCovered,       // another export serves this object
  kBadName,       // the name is empty, contains '/' or NUL, or is "." or ".." where these are not allowed
  kNoXattr,       // the extended attribute does not exist
  kXattrTooBig,   // the extended attribute is too large for the file system
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
  uint32_t mode = 0;  // the permission, set-id and sticky bits: 07777
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  uint64_t used = 0;  // octets on the disk
  Device rdev;
  uint64_t fsid = 0;
  uint64_t fileid = 0;
  Timestamp atime;
  Timestamp mtime;
  Timestamp ctime;
  std::optional<Timestamp> born;  // no value if the file system does not record it
  uint64_t change = 0;            // changes with every change of data or attributes (RFC 8881 §5.8.1.4)
};

// The caller of an operation. `groups` is borrowed until the operation is done.
struct Credentials {
  uint32_t uid = 65534;
  uint32_t gid = 65534;
  std::span<const uint32_t> groups;
};

struct SetTime {
  enum class How : uint8_t { kKeep, kServerTime, kGiven };
  How how = How::kKeep;
  Timestamp time;  // used with kGiven
};

// The attributes that SetAttributes and the methods that create objects must set. Attributes without a value stay as
// they are.
struct NewAttributes {
  std::optional<uint32_t> mode;
  // The methods that create objects clear these bits in the mode, unless the directory has a default access control
  // list (RFC 8275 §4). SetAttributes ignores it.
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

// RFC 1813 §2.6: a client compares these attributes with its cache to learn whether another client changed the
// object.
struct PreAttributes {
  uint64_t size = 0;
  Timestamp mtime;
  Timestamp ctime;
  uint64_t change = 0;  // the `before` of change_info4
};

inline PreAttributes BeforeOf(const Attributes& a) { return {a.size, a.mtime, a.ctime, a.change}; }

struct WeakCacheData {
  std::optional<PreAttributes> before;
  std::optional<Attributes> after;
  // Nothing else, not even another program of the host, has changed the object between them.
  bool atomic = false;
};

// The reply of a method that changes nothing: its result, and the attributes of the object that it was called on. The
// attributes are there in success and in failure; only a handle that leads to no object has none.
template <class T>
struct Observed {
  Result<T> result;
  std::optional<Attributes> attributes;
};

// The reply of a method that changes an object: its result, and the object's attributes before and after, in success
// and in failure.
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

// An object, as Lookup finds it and as the methods that create objects return it.
struct Node {
  Handle handle;
  Attributes attributes;
  bool existed = false;  // set by Create: the file existed already, and only a size of zero was applied to it
};

struct WriteVerifierTag;
using WriteVerifier = Strong<WriteVerifierTag, uint64_t>;  // changes when unstable writes may have been lost
struct CreateVerifierTag;
using CreateVerifier = Strong<CreateVerifierTag, uint64_t>;
struct CookieTag;
using Cookie = Strong<CookieTag, uint64_t>;  // a position in a directory; zero is its beginning
struct CookieVerifierTag;
using CookieVerifier = Strong<CookieVerifierTag, uint64_t>;

// One bit for each right that Access checks. The values are those of RFC 1813 §3.3.4 and RFC 8276 §8.5.
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

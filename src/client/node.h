// What a client knows of an object on a server: its handle, its attributes, and what else the calls of client::Mount
// give and take.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "client/error.h"
#include "xdr/types.h"

namespace penstock::client {

// A file handle. It has room for the longest handle of any version.
struct Handle : xdr::Opaque<128> {
  using Opaque::Opaque;
  Handle() = default;
  Handle(const Opaque& octets) : Opaque(octets) {}  // NOLINT: implicit, as handles come in replies
  // For requests.
  const Opaque& octets() const { return *this; }

  // Tells which part of the mount's tree the object belongs to, since two servers may use the same octets. Zero: the
  // server that the URL names. Others are behind referrals (client/nfs4/tree.h).
  uint32_t part = 0;

  bool operator==(const Handle&) const = default;
  bool operator==(const Opaque& octets) const { return *this == Handle(octets); }
  std::strong_ordering operator<=>(const Handle&) const = default;
};

enum class FileType : uint8_t {
  kRegular,
  kDirectory,
  kSymlink,
  kBlockDevice,
  kCharacterDevice,
  kSocket,
  kFifo,
  kOther
};
// Converts an ftype3 of version 3 or an nfs_ftype4 of version 4. Their numbers agree for all types of version 3.
FileType FileTypeOf(uint32_t number);

// A timestamp of a file.
struct Time {
  int64_t seconds = 0;  // since 1970
  uint32_t nanoseconds = 0;
  bool operator==(const Time&) const = default;
};

// An attribute that the server does not have is zero.
struct Attributes {
  FileType type = FileType::kRegular;
  uint32_t mode = 0;  // the twelve mode bits of POSIX
  uint32_t links = 1;
  // A number or name@domain, as the server gives it.
  std::string owner{};
  std::string group{};
  uint64_t size = 0;
  uint64_t used = 0;  // octets of storage
  Time accessed{};
  Time modified{};
  Time changed{};  // the last change of data or attributes
  // The numbers of the file in its file system, and of the file system among those of the mount. Several servers and
  // exports may have file systems.
  uint64_t file_id = 0;
  uint64_t file_system = 0;
  // The device that a device node stands for.
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  // Changes with every change of data or attributes (RFC 8881 §5.8.1.4). In version 3 it is made from the ctime.
  uint64_t change = 0;
};

// Whether they are attributes of the same file, by its number.
inline bool AreOneFile(const Attributes& one, const Attributes& other) {
  return one.file_system == other.file_system && one.file_id == other.file_id;
}

// Stands for the server's own time when it executes the call.
struct ServerTime {
  bool operator==(const ServerTime&) const = default;
};

// Attributes to set. Absent values stay as they are.
struct NewAttributes {
  std::optional<uint32_t> mode{};  // the twelve mode bits of POSIX
  // A number. In version 4 also name@domain, if the server knows the name. If the server does not accept numbers, the
  // client sends names that it finds by MountOptions::owners (RFC 7530 §5.9).
  std::optional<std::string> owner{};
  std::optional<std::string> group{};
  std::optional<uint64_t> size{};  // truncates a regular file or extends it with zeros
  std::optional<std::variant<ServerTime, Time>> accessed{};
  std::optional<std::variant<ServerTime, Time>> modified{};

  bool operator==(const NewAttributes&) const = default;
};

// A file: its handle and attributes from the server, and the name that led to it.
struct Node {
  Handle handle;
  Attributes attributes;
  // The directory and name of the lookup; empty for a root. Version 4.0 and the sessions of
  // 2004 open files only by name (RFC 7530 §16.16).
  Handle directory{};
  std::string name{};
};

// Succeeds if `node` is a regular file. The error says that it is a directory or of another type.
Result<void> CheckRegular(const Node& node, std::string_view what);

// The room of a file system. A number that the server does not tell is zero.
struct Space {
  uint64_t total = 0;  // octets
  uint64_t free = 0;
  uint64_t available = 0;  // of the free octets, those for the user of the mount
  uint64_t total_files = 0;
  uint64_t free_files = 0;
  uint64_t available_files = 0;
  uint32_t longest_name = 0;  // octets of a name in a directory
};

// The rights that ACCESS asks for and grants, which may be added (RFC 1813 §3.3.4, RFC 8881 §18.1, RFC 8276 §8.5).
namespace right {
inline constexpr uint32_t kRead = 0x01;     // read data, or list a directory
inline constexpr uint32_t kLookup = 0x02;   // look names up in a directory
inline constexpr uint32_t kModify = 0x04;   // rewrite data, or change entries of a directory
inline constexpr uint32_t kExtend = 0x08;   // write new data, or add entries to a directory
inline constexpr uint32_t kDelete = 0x10;   // delete entries of a directory
inline constexpr uint32_t kExecute = 0x20;  // execute a file
}  // namespace right

// An entry of a directory.
struct Entry {
  std::string name;
  // Absent if the server cannot read them, and for a referral.
  std::optional<Attributes> attributes;
  // The entry is the root of a file system of another server. Listing does not ask that server; Lookup() does.
  bool is_referral = false;
  // Only if the listing asks for handles, and the server gives one.
  std::optional<Handle> handle{};
  // The listing goes on behind the entry at this cookie.
  uint64_t cookie = 0;
};

// A place in a directory from which a listing goes on. The default is the beginning.
struct ListPosition {
  uint64_t cookie = 0;  // of the entry before it
  std::array<std::byte, 8> verifier{};
  // The part of the tree that has given the cookie (Handle::part). Another one fails with Status::kBadCookie.
  uint32_t part = 0;
};

// A part of a directory, without the entries "." and "..".
struct Listing {
  std::vector<Entry> entries;
  ListPosition next;  // the place behind the entries
  bool ends = false;  // no entries follow
};

enum class ListContent : uint8_t { kAttributes, kAttributesAndHandles };

// How SetXattr() deals with an attribute that exists, or does not.
enum class XattrMode : uint8_t { kEither, kCreate, kReplace };

// An entry of an access control list of version 4 (RFC 8881 §6.2.1). The numbers are those of the protocol.
struct Ace {
  uint32_t type = 0;
  uint32_t flags = 0;
  uint32_t mask = 0;
  std::string who;  // user@domain, a number, or a special name such as OWNER@
  bool operator==(const Ace&) const = default;
};

// The access control lists of POSIX, as the protocol NFSACL has them beside version 3. The types are those of
// protocol/nfsacl.x, without NA_ACL_DEFAULT.
struct PosixAce {
  uint32_t type = 0;
  uint32_t id = 0;           // of a named user or group
  uint32_t permissions = 0;  // read 4, write 2, execute 1
  bool operator==(const PosixAce&) const = default;
};
struct PosixAcl {
  std::vector<PosixAce> access;    // empty: the mode says everything
  std::vector<PosixAce> defaults;  // what new objects in a directory get
  bool operator==(const PosixAcl&) const = default;
};

}  // namespace penstock::client
